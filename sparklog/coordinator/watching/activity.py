"""The activity of a coordinator process: counts since its start, and samples of the recent past.

The counts are sampled every second, for ten minutes; the lag of groups every ten seconds, for an hour.

No I/O: `service.py` and `request_counts.py` note events, `sampling.py` takes the samples, and metrics and pages read an
`Observation`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import pairwise

from sparklog.chain.commit.commit_counts import AppendCounts
from sparklog.core.replication.partition import Replication
from sparklog.core.state import ClusterState
from sparklog.core.types import TopicId, TopicPartition

LATENCY_BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000)
SAMPLES = 600  # one per second: ten minutes
LAG_SAMPLES = 360  # one per ten seconds: an hour
GROUPS_PER_SAMPLE = 100  # at most some 5 MiB in all samples of lags
TOPICS_PER_SAMPLE = 100  # with appends: at most some 10 MiB in all samples


@dataclass(slots=True)
class Distribution:
    """A histogram. `bounds` are ascending; `total` is the sum of the values.

    `counts` has the number of values in each bucket: up to the first bound, above it up to the second bound, and so on.
    The last bucket has the values above all bounds.
    """

    bounds: tuple[int, ...]
    counts: list[int] = field(default_factory=list)
    total: int = 0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def add(self, value: int, times: int = 1) -> None:
        """Count a value, `times` times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def copy(self) -> Distribution:
        """A copy, which later calls of `add` do not change."""
        return Distribution(self.bounds, self.counts.copy(), self.total)


@dataclass(frozen=True, slots=True)
class Sample:
    """The counts at one moment. `at_ms`: the time by the wall clock; `lag_ms`: the delay of the event loop.

    `entries`, `commands`: the number committed since this process began to lead. `queued`: the commands that wait now.
    `appended`: appends to topics since the previous sample, for the TOPICS_PER_SAMPLE topics with the most bytes.
    """

    at_ms: int
    entries: int
    commands: int
    queued: int
    lag_ms: int
    appended: Mapping[TopicId, AppendCounts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LagSample:
    """The lag, in offsets by group name, of the GROUPS_PER_SAMPLE groups that were furthest behind at one moment."""

    at_ms: int
    lags: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates of commits between two samples: `commands` and `entries` per second, `group` is commands per entry."""

    at_ms: int
    entries: float
    commands: float
    group: float


@dataclass(slots=True)
class Activity:
    """Counts and samples of this process since it started. To be changed in the event loop only."""

    requests: Counter[tuple[str, int]] = field(default_factory=Counter)  # by route and HTTP status
    refusals: Counter[str] = field(default_factory=Counter)  # by the code of the error
    latency: Distribution = field(
        default_factory=lambda: Distribution(LATENCY_BOUNDS_MS)
    )  # ms, of commands that landed
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    lags: deque[LagSample] = field(default_factory=lambda: deque(maxlen=LAG_SAMPLES))
    isr_shrinks: int = 0
    isr_expands: int = 0
    elections: int = 0
    storage_failure: str = ""  # of the newest commands, if storage took none of them
    _state: ClusterState | None = None
    _appended: Mapping[TopicId, AppendCounts] = field(default_factory=dict)  # at the newest sample

    def newly_appended(self, appended: Mapping[TopicId, AppendCounts]) -> dict[TopicId, AppendCounts]:
        """Return what was appended to each topic since the last call, for at most TOPICS_PER_SAMPLE topics.

        `appended`: the present counts. A count that is lower than at the last call has restarted at 0, so all of it is
        new.
        """
        before, self._appended = self._appended, appended
        grown = {}
        for topic_id, now in appended.items():
            was = before.get(topic_id, AppendCounts())
            if was != now:
                was = was if was.records <= now.records else AppendCounts()
                grown[topic_id] = AppendCounts(now.records - was.records, now.size_bytes - was.size_bytes)
        if len(grown) <= TOPICS_PER_SAMPLE:
            return grown
        return dict(nlargest(TOPICS_PER_SAMPLE, grown.items(), key=lambda topic: topic[1].size_bytes))

    def observe(self, state: ClusterState) -> None:
        """Count the changes of ISRs and leaders since the previously observed state."""
        before, self._state = self._state, state
        if before is None or before is state:
            return
        for key in state.partitions.differing(before.partitions):
            old, new = before.partitions.get(key), state.partitions.get(key)
            if old is not None and new is not None:
                self._compare(key, old.replication, new.replication)

    def _compare(self, key: TopicPartition, old: Replication, new: Replication) -> None:
        self.isr_shrinks += not set(old.isr).issubset(new.isr)
        self.isr_expands += not set(new.isr).issubset(old.isr)
        self.elections += new.leader_epoch != old.leader_epoch and new.leader is not None


def group_sizes(sizes: Mapping[int, int], bounds: tuple[int, ...]) -> Distribution:
    """The distribution of the number of commands in an entry. `sizes`: the number of entries of each size."""
    distribution = Distribution(bounds)
    for size, times in sizes.items():
        distribution.add(size, times)
    return distribution


def rates(samples: Iterable[Sample], every: int) -> list[Rates]:
    """The rates of commits, one for each step of `every` samples, oldest first.

    The counts restart at 0 when the process begins to lead. If they fell during a step, its rates count from 0.
    """
    listed = list(samples)[::-1][:: max(1, every)][::-1]
    steps = []
    for before, after in pairwise(listed):
        seconds = max(after.at_ms - before.at_ms, 1) / 1000
        restarted = after.entries < before.entries
        entries = after.entries - (0 if restarted else before.entries)
        commands = after.commands - (0 if restarted else before.commands)
        steps.append(Rates(after.at_ms, entries / seconds, commands / seconds, commands / entries if entries else 0.0))
    return steps


def appended_rates(samples: Iterable[Sample], every: int, topic_id: TopicId) -> list[tuple[float, float]]:
    """Records and bytes appended to a topic per second, for each step of `every` samples, oldest first."""
    listed = list(samples)
    per_step = []
    for low, high in pairwise(list(range(len(listed) - 1, -1, -every))[::-1]):
        parts = [sample.appended[topic_id] for sample in listed[low + 1 : high + 1] if topic_id in sample.appended]
        seconds = max(listed[high].at_ms - listed[low].at_ms, 1) / 1000
        records, size_bytes = sum(part.records for part in parts), sum(part.size_bytes for part in parts)
        per_step.append((records / seconds, size_bytes / seconds))
    return per_step
