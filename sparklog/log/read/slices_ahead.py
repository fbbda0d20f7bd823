"""Fetches the first bytes of the next slices of a range while one slice is read: for a scan, and for a consumer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from sparklog.core.errors import SparklogError
from sparklog.core.reading.plan import RangeToRead, SliceToRead
from sparklog.core.types import OffsetRange, StoreId
from sparklog.log.cluster_stores import Stores
from sparklog.log.message_decoder import LARGEST_BATCH_BYTES
from sparklog.log.read.object_reader import FIRST_READS, read_first
from sparklog.log.read.ranged_reads import RANGED_READ_BYTES
from sparklog.log.read.read_ahead import Coming, in_background
from sparklog.storage.keys import data_key
from sparklog.storage.object_store import ObjectStore

SLICES_AHEAD: Final = 6
BYTES_AHEAD: Final = FIRST_READS * RANGED_READ_BYTES


class Fetched(NamedTuple):
    """The first bytes of a slice that is read later, fetched from `store`, which is the first holder to try."""

    store: ObjectStore
    bodies: list[memoryview]


class _PendingFetch(NamedTuple):
    """A fetch of the first bytes of a slice from the store `store_id`: running, waiting for a thread, or done."""

    store_id: StoreId
    fetched: Coming[Fetched]


class SlicesAhead:
    """Fetches the first bytes of the next slices (`read_first`) while one slice is read.

    Fetches only from stores that answer slowly but serve many reads at once (`read_ahead` > 0), and no batch that has
    more than `most_batch_bytes` as stored.
    """

    def __init__(
        self,
        plan: RangeToRead,
        stores: Stores,
        columns: Sequence[str],
        most_batch_bytes: int = LARGEST_BATCH_BYTES,
    ) -> None:
        self._plan = plan
        self._most_batch_bytes = most_batch_bytes
        self._stores = stores
        self._columns = columns
        self._coming: dict[int, _PendingFetch] = {}

    def begin(self, most_bytes: int) -> int:
        """Begin to fetch the first bytes of the first slice. Return their maximum size, or 0 if nothing is fetched.

        Nothing is fetched if that size exceeds `most_bytes`, or if the store answers fast. Never raises an error of a
        store.
        """
        if not self._plan.slices:
            return 0
        size_bytes = min(self._plan.slices[0].slice.length, BYTES_AHEAD)
        if size_bytes > most_bytes:
            return 0
        self._begin(0, 1)
        return size_bytes if self._coming else 0

    def come_to(self, number: int) -> Fetched | None:
        """Return the first bytes of slice `number`, and begin to fetch those of the next slices.

        Waits for the fetch of this slice if it is not done. Returns None if no fetch was begun, if it failed, or if it
        is not done and its store has failed meanwhile. The caller then reads the slice itself.
        """
        self._begin(number + 1, SLICES_AHEAD)
        coming = self._coming.pop(number, None)
        return None if coming is None else self._fetched(coming)

    def _fetched(self, coming: _PendingFetch) -> Fetched | None:
        if self._stores.has_failed(coming.store_id) and not coming.fetched.done():
            coming.fetched.cancel()
            return None
        try:
            return coming.fetched.result()
        except SparklogError as error:
            self._stores.note_failure(coming.store_id, error)
            return None

    def close(self) -> None:
        """Cancel the fetches whose results were not taken."""
        for fetch in self._coming.values():
            fetch.fetched.cancel()

    def _begin(self, number: int, most: int) -> None:
        slices = self._plan.slices
        size_bytes = 0
        for index in range(number, min(number + most, len(slices))):
            part = slices[index]
            size_bytes += min(part.slice.length, BYTES_AHEAD)
            if size_bytes > BYTES_AHEAD and index > number:
                return
            holders = self._stores.holding(part)
            if not holders:
                return  # the reader reports this once it has read all records before it
            try:
                store = self._stores.get(holders[0])
            except SparklogError:
                continue  # the reader asks the next holder
            if index not in self._coming and store.read_ahead > 0:
                self._coming[index] = _PendingFetch(holders[0], in_background(partial(self._fetch, store, part)))

    def _fetch(self, store: ObjectStore, part: SliceToRead) -> Fetched:
        key = data_key(part.object.object, self._plan.topic)
        offsets = OffsetRange(self._plan.start, self._plan.end)
        most_bytes = self._most_batch_bytes
        return Fetched(store, read_first(store, key, part.object, part.slice, offsets, self._columns, most_bytes))
