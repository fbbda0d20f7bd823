"""The replica fetchers of one store (N-07): one batch of objects from each source at a time.

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
from sparklog.log.incarnation import AnotherLife
from sparklog.log.objects.object_copy import FetchResult

K = TypeVar("K", StoreId, TopicPartition)

LIMITS: Final = FetchLimits()
TRIES: Final = 3


@dataclass(slots=True)
class _SourceBatch:
    """A batch under way from one source: objects that are `waiting`, that are being `copied`, and that are `there`."""

    partitions: frozenset[TopicPartition]
    waiting: deque[ObjectToFetch]
    copied: set[ObjectNumber] = field(default_factory=set)
    there: set[ObjectNumber] = field(default_factory=set)


class Fetchers:
    """The fetches of missing objects to one store while it keeps its registration.

    They are the batches under way, the fetched objects that are not reported yet, and the back-offs after failures.
    """

    def __init__(self, store: StoreId, dice: Dice, limits: FetchLimits = LIMITS) -> None:
        self.store = store
        self.unreported: set[ObjectNumber] = set()  # objects of finished batches that are there
        self.lost_something = False  # True if it lost an object that no other store holds, or its registered life
        self.last_error = ""
        self._dice = dice
        self._limits = limits
        self._config: ClusterConfig = effective_cluster({})
        self._batches: dict[StoreId, _SourceBatch] = {}
        self._asked: dict[Fetch, StoreId] = {}
        self._sources: dict[StoreId, Backoff] = {}
        self._partitions: dict[TopicPartition, Backoff] = {}
        self._stopped_at: dict[TopicPartition, ObjectNumber] = {}  # the object that could not be fetched
        self._own = Backoff()
        self._after: TopicPartition | None = None

    @property
    def active(self) -> bool:
        """True if any batch is under way."""
        return bool(self._batches)

    @property
    def is_hopeless(self) -> bool:
        """True if the missing objects can't be fetched: no store should have them, or several attempts failed."""
        failures = [backoff.failures for backoff in (*self._sources.values(), *self._partitions.values(), self._own)]
        return max(failures) >= TRIES or not any(failures)

    def checked(self) -> set[ObjectNumber]:
        """The objects that are known to be there and are not reported yet."""
        return self.unreported.union(*(batch.there for batch in self._batches.values()))

    def reported(self, numbers: Collection[ObjectNumber]) -> None:
        """Forget finished objects. If the chain did not accept their report, they are planned again."""
        self.unreported.difference_update(numbers)

    def plan(self, state: ClusterState, behind: Sequence[TopicPartition], now_ms: int) -> None:
        """Begin a batch from each source that has none, if something is missing."""
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
        """The copies to begin now: `num.replica.fetchers` at once from each source."""
        requests = []
        for source, batch in self._batches.items():
            while batch.waiting and len(batch.copied) < self._config.num_replica_fetchers:
                request = Fetch(batch.waiting.popleft())
                batch.copied.add(request.wanted.number)
                self._asked[request] = source
                requests.append(request)
        return requests

    def stop(self) -> None:
        """Begin nothing more."""
        for source in list(self._batches):
            self._batches[source].waiting.clear()
            self._end_if_done(source)

    def fetched(self, request: Fetch, reply: Reply, now_ms: int) -> list[Note]:
        """Take the reply to a copy. The reply to a copy that began under an earlier registration is ignored."""
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
                self.lost_something |= isinstance(reply, AnotherLife)
                notes += self._own_failed(str(reply), now_ms)
            case _:
                raise TypeError(f"wanted a Fetched or an error, found {reply!r}")
        if isinstance(reply, FetchResult):
            for failure in reply.failures:
                if not failure.lacks_it:
                    notes += self._failed(self._sources, failure.source, failure.error, now_ms)
                    if failure.source == source:
                        batch.waiting.clear()  # to be planned again, from other sources if there are any
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
        """Leave a partition alone: without this object its log end can't rise, whatever comes after it."""
        key = wanted.topic_partition
        batch.waiting = deque(other for other in batch.waiting if other.topic_partition != key)
        if self._stopped_at.get(key) != wanted.number:
            self._stopped_at[key] = wanted.number
            self._partitions.pop(key, None)
        return self._failed(self._partitions, key, error, now_ms)

    def _failed(self, backoffs: dict[K, Backoff], key: K, error: str, now_ms: int) -> list[Note]:
        """Leave a source or a partition alone for a while. The first of several failures is worth a note."""
        backoff = backoffs.setdefault(key, Backoff())
        first = not backoff.failures
        if not backoff.waits(now_ms):
            backoff.failed(now_ms, self._config, self._dice)
        self.last_error = error
        return [Note("error", error)] if first else []

    def _own_failed(self, error: str, now_ms: int) -> list[Note]:
        """Copy nothing more for a while, because the store itself can't be written."""
        first = not self._own.failures
        if not self._own.waits(now_ms):
            self._own.failed(now_ms, self._config, self._dice)
        self.last_error = error
        self.stop()
        return [Note("error", error)] if first else []
