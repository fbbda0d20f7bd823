"""The replica fetchers of one store: one batch of objects from each source at a time.

A source that is slow or fails delays only the partitions that are fetched from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from sparklog.agent.agent_requests import Fetch, Note, Reply
from sparklog.agent.backoff import Backoff
from sparklog.core.config.cluster_config import ClusterConfig, effective_cluster
from sparklog.core.errors import Damaged, SparklogError
from sparklog.core.placement.replica_fetch import FetchBatch, FetchLimits, ObjectToFetch, UnderWay, plan_fetch
from sparklog.core.state import ClusterState
from sparklog.core.types import ObjectNumber, StoreId, TopicPartition
from sparklog.host.dice import Dice
from sparklog.log.incarnation import AnotherIncarnation
from sparklog.log.objects.object_copy import FetchResult

K = TypeVar("K", StoreId, TopicPartition)

LIMITS: Final = FetchLimits()
TRIES: Final = 3


@dataclass(slots=True)
class _SourceBatch:
    """A batch of objects that is being fetched from one source.

    `waiting`: objects whose copies have not begun. `copied`: objects that are being copied. `there`: objects that are
    on the agent's store by now.
    """

    partitions: frozenset[TopicPartition]
    waiting: deque[ObjectToFetch]
    copied: set[ObjectNumber] = field(default_factory=set)
    there: set[ObjectNumber] = field(default_factory=set)


class Fetchers:
    """The fetches of missing objects to one store while it keeps its registration.

    Holds the batches under way, the fetched objects that are not reported yet, and the back-offs after failures.
    """

    def __init__(self, store: StoreId, dice: Dice, limits: FetchLimits = LIMITS) -> None:
        self.store = store
        self.unreported: set[ObjectNumber] = set()  # objects of finished batches that are on the store
        self.lost_something = False  # True if an object that only it holds is missing, or its INCARNATION changed
        self.last_error = ""
        self._dice = dice
        self._limits = limits
        self._config: ClusterConfig = effective_cluster({})
        self._batches: dict[StoreId, _SourceBatch] = {}
        self._asked: dict[Fetch, StoreId] = {}
        self._sources: dict[StoreId, Backoff] = {}
        self._partitions: dict[TopicPartition, Backoff] = {}
        self._stopped_at: dict[TopicPartition, ObjectNumber] = {}  # the object that failed, for each key of _partitions
        self._own = Backoff()
        self._after: TopicPartition | None = None

    @property
    def active(self) -> bool:
        """True if a batch is under way."""
        return bool(self._batches)

    @property
    def is_hopeless(self) -> bool:
        """True if waiting longer for missing objects is pointless. Read this only while no batch is under way.

        Either a source, a partition or the store itself has failed TRIES times in a row, or nothing has failed: then
        no store can provide the objects.
        """
        failures = [backoff.failures for backoff in (*self._sources.values(), *self._partitions.values(), self._own)]
        return max(failures) >= TRIES or not any(failures)

    def checked(self) -> set[ObjectNumber]:
        """Return the numbers of the objects that are known to be on the store and are not reported yet."""
        return self.unreported.union(*(batch.there for batch in self._batches.values()))

    def reported(self, numbers: Collection[ObjectNumber]) -> None:
        """Forget objects after their report. Those that the chain did not accept will be planned again."""
        self.unreported.difference_update(numbers)

    def plan(self, state: ClusterState, behind: Sequence[TopicPartition], now_ms: int) -> None:
        """Begin a batch from each source that holds missing objects, unless one from that source is under way.

        `behind`: the partitions that lack objects, ascending. Does nothing while the store waits after its own error.
        """
        self._config = effective_cluster(state.config)
        lagging = set(behind)
        for key in [key for key in self._partitions if key not in lagging]:
            del self._partitions[key], self._stopped_at[key]
        if self._own.waits(now_ms):
            return
        batches, self._after = plan_fetch(state, self.store, behind, self._under_way(now_ms), self._limits)
        for batch in batches:
            self._begin(batch)

    def start(self) -> list[Fetch]:
        """Return the copies to begin now, so that up to `num.replica.fetchers` run at once from each source."""
        requests = []
        for source, batch in self._batches.items():
            while batch.waiting and len(batch.copied) < self._config.num_replica_fetchers:
                request = Fetch(batch.waiting.popleft())
                batch.copied.add(request.wanted.number)
                self._asked[request] = source
                requests.append(request)
        return requests

    def stop(self) -> None:
        """Cancel the copies that have not begun. Those under way continue."""
        for source in list(self._batches):
            self._batches[source].waiting.clear()
            self._end_if_done(source)

    def fetched(self, request: Fetch, reply: Reply, now_ms: int) -> list[Note]:
        """Take the reply to a copy, and return notes on errors. Ignores a copy begun under an earlier registration."""
        source = self._asked.pop(request, None)
        if source is None:
            return []
        batch = self._batches[source]
        number, key = request.wanted.number, request.wanted.topic_partition
        batch.copied.discard(number)
        notes: list[Note] = []
        match reply:
            case FetchResult(source=None):
                self.lost_something |= not request.wanted.sources
                for failure in reply.failures:
                    if failure.lacks_it:
                        notes += self._stopped(batch, request.wanted, failure.error, now_ms)
            case FetchResult():
                batch.there.add(number)
                self._own = Backoff()
                if self._stopped_at.get(key) == number:
                    del self._partitions[key], self._stopped_at[key]
                self._sources.pop(reply.source or self.store, None)
            case Damaged():
                notes += self._stopped(batch, request.wanted, str(reply), now_ms)
            case SparklogError():
                self.lost_something |= isinstance(reply, AnotherIncarnation)
                notes += self._own_failed(str(reply), now_ms)
            case _:
                raise TypeError(f"wanted a FetchResult or an error, found {reply!r}")
        if isinstance(reply, FetchResult):
            for failure in reply.failures:
                if not failure.lacks_it:
                    notes += self._failed(self._sources, failure.source, failure.error, now_ms)
                    if failure.source == source:
                        batch.waiting.clear()  # they will be planned again, from other sources if there are any
        self._end_if_done(source)
        return notes

    def _under_way(self, now_ms: int) -> UnderWay:
        waiting = [key for key, backoff in self._partitions.items() if backoff.waits(now_ms)]
        return UnderWay(
            checked=self.checked(),
            copying={
                number
                for batch in self._batches.values()
                for number in (*batch.copied, *(wanted.number for wanted in batch.waiting))
            },
            partitions={*waiting, *(key for batch in self._batches.values() for key in batch.partitions)},
            busy=set(self._batches),
            failing={source for source, backoff in self._sources.items() if backoff.waits(now_ms)},
            after=self._after,
        )

    def _begin(self, batch: FetchBatch) -> None:
        self._batches[batch.source] = _SourceBatch(frozenset(batch.partitions), deque(batch.objects))

    def _end_if_done(self, source: StoreId) -> None:
        batch = self._batches.get(source)
        if batch is not None and not batch.waiting and not batch.copied:
            self.unreported |= batch.there
            del self._batches[source]

    def _stopped(self, batch: _SourceBatch, wanted: ObjectToFetch, error: str, now_ms: int) -> list[Note]:
        """Stop fetching the partition of `wanted` until its back-off ends: its LEO can't rise without that object."""
        key = wanted.topic_partition
        batch.waiting = deque(other for other in batch.waiting if other.topic_partition != key)
        if self._stopped_at.get(key) != wanted.number:
            self._stopped_at[key] = wanted.number
            self._partitions.pop(key, None)
        return self._failed(self._partitions, key, error, now_ms)

    def _failed(self, backoffs: dict[K, Backoff], key: K, error: str, now_ms: int) -> list[Note]:
        """Start the back-off of a source or partition, unless its back-off lasts already.

        Returns a note only for the first of several failures without a success in between.
        """
        backoff = backoffs.setdefault(key, Backoff())
        first = not backoff.failures
        if not backoff.waits(now_ms):
            backoff.failed(now_ms, self._config, self._dice)
        self.last_error = error
        return [Note("error", error)] if first else []

    def _own_failed(self, error: str, now_ms: int) -> list[Note]:
        """Cancel the copies that have not begun, and plan none until a back-off ends: the store itself had an error.

        Returns a note only for the first of several such errors without a success in between.
        """
        first = not self._own.failures
        if not self._own.waits(now_ms):
            self._own.failed(now_ms, self._config, self._dice)
        self.last_error = error
        self.stop()
        return [Note("error", error)] if first else []
