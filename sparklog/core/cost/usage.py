"""The work of a day as numbers: entries of the chain, objects, bytes. client/describe/counted_day.py counts it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from sparklog.core.cost.request_costs import NONE, Requests, stored
from sparklog.core.types import NewObject, StoreId


class WrittenObjects(msgspec.Struct, frozen=True):
    """Totals of objects that were uploaded to each of their holders: appends by their writers, segments by jobs.

    `size_bytes` and `requests` count each copy. `between_zones_bytes` counts only the copies in other zones than that
    of the first holder.
    """

    objects: int = 0
    slices: int = 0
    object_bytes: int = 0  # counting each object once
    size_bytes: int = 0
    between_zones_bytes: int = 0
    requests: Requests = NONE

    def __add__(self, other: WrittenObjects) -> WrittenObjects:
        return WrittenObjects(
            self.objects + other.objects,
            self.slices + other.slices,
            self.object_bytes + other.object_bytes,
            self.size_bytes + other.size_bytes,
            self.between_zones_bytes + other.between_zones_bytes,
            self.requests + other.requests,
        )

    def times(self, factor: float) -> WrittenObjects:
        """These numbers times `factor`."""
        return WrittenObjects(
            round(factor * self.objects),
            round(factor * self.slices),
            round(factor * self.object_bytes),
            round(factor * self.size_bytes),
            round(factor * self.between_zones_bytes),
            self.requests.times(factor),
        )


class EntryWork(msgspec.Struct, frozen=True):
    """The work that led to `entries` entries of the chain. `size_bytes`: the size of these entries.

    `planned`: the number of entries that no coordinator wrote; their authors had to read the end of the chain first.
    `bodies`: the requests that stored the bodies of large appends, which are objects outside the chain's entries.
    """

    entries: int = 0
    size_bytes: int = 0
    planned: int = 0
    appended: WrittenObjects = WrittenObjects()
    rewritten: WrittenObjects = WrittenObjects()  # by roll and compaction
    bodies: Requests = NONE  # of large appends, beside the chain
    job_runs: int = 0

    def __add__(self, other: EntryWork) -> EntryWork:
        return EntryWork(
            self.entries + other.entries,
            self.size_bytes + other.size_bytes,
            self.planned + other.planned,
            self.appended + other.appended,
            self.rewritten + other.rewritten,
            self.bodies + other.bodies,
            self.job_runs + other.job_runs,
        )

    def times(self, factor: float) -> EntryWork:
        """This work times `factor`."""
        return EntryWork(
            round(factor * self.entries),
            round(factor * self.size_bytes),
            round(factor * self.planned),
            self.appended.times(factor),
            self.rewritten.times(factor),
            self.bodies.times(factor),
            round(factor * self.job_runs),
        )


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The work of a cluster from `from_ms` to `to_ms`, at most a day, and its present size.

    `sampled`: the number of entries read, evenly spread; the others are assumed to be like them. `copies` is the number
    of copies of the chain, `agents` the number of agents that are up. `snapshot_every`: the number of entries from one
    snapshot to the next. `fetch_wait_ms`: the setting `replica.fetch.wait.max.ms`. `rolled`: roll has run at least
    once.
    """

    from_ms: int
    to_ms: int
    work: EntryWork
    sampled: int
    stored_bytes: Mapping[StoreId, int]
    metadata_bytes: int
    copies: int
    agents: int
    coordinator_in_force: bool
    snapshot_every: int
    fetch_wait_ms: int
    rolled: bool

    @property
    def period_ms(self) -> int:
        """The length of the counted time in milliseconds."""
        return max(1, self.to_ms - self.from_ms)


def written(objects: Iterable[NewObject], slices: int, zones: Mapping[StoreId, str]) -> WrittenObjects:
    """The totals for these objects, with a copy on each of their holders.

    `slices`: the number of slices in the objects. `zones`: the zone of each store.
    """
    total = WrittenObjects(slices=slices)
    for object_ in objects:
        elsewhere = [
            holder
            for holder in object_.holders[1:]
            if zones.get(holder.store, "") != zones.get(object_.holders[0].store, "")
        ]
        total += WrittenObjects(
            1,
            0,
            object_.total_bytes,
            len(object_.holders) * object_.total_bytes,
            len(elsewhere) * object_.total_bytes,
            stored(object_.size_bytes).times(len(object_.holders)),
        )
    return total
