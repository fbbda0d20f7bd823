"""Upload one object to several stores at the same time, and then its index. The bytes are encoded only once.

A store counts as a holder once it has published the object and the index in the same place as its registered
INCARNATION.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress

from sparklog.core.errors import KeyExists, OutcomeUnknown, SparklogError
from sparklog.core.types import StoreId
from sparklog.log.incarnation import check_incarnation
from sparklog.log.write.store_lanes import StoreLane, StoreLanes, StoreWork, most_hopeful
from sparklog.storage.keys import index_key
from sparklog.storage.object_store import Bytes


class ReplicatedUpload:
    """Uploads one object. Call `write` any number of times, then `publish`, then `holders`; or `abort` at any time.

    With `here`, which needs a single store, the calling thread does all work. Otherwise the stores' threads do it, and
    `publish` returns at once. With `backlog_bytes`, each part is freed once every store has taken it, and `write` waits
    while any store that was not given up has still to take more than that. Without, `write` never waits, and all parts
    are kept, so that `begin` can upload them again.
    """

    def __init__(
        self, lanes: StoreLanes, stores: Sequence[StoreId], key: str, *, here: bool, backlog_bytes: int | None = None
    ) -> None:
        self._here = here
        self._lanes = lanes
        self._stores = stores
        self._backlog_bytes = backlog_bytes
        self._kept: list[Bytes] = []
        self._kept_bytes = 0
        self._index: Bytes | None = None
        self._copies: list[_Copy] = []
        self.begin(key)

    def begin(self, key: str) -> None:
        """Begin to upload under this key, with the parts that are kept."""
        self._copies = [_Copy(self._lanes, lane, key, self._kept, self._index) for lane in self._lanes.of(self._stores)]
        for copy in self._copies:
            self._lanes.begin(copy, here=self._here)

    def continue_in_background(self) -> None:
        """Let the stores' threads do all further work, instead of the calling thread."""
        if self._here:
            self._here = False
            for copy in self._copies:
                self._lanes.continue_in_thread(copy)

    @property
    def held_bytes(self) -> int:
        """The size of the parts in memory."""
        waiting = (copy.waiting_bytes for copy in self._copies if copy.lane.failure is None)
        return max(self._kept_bytes, max(waiting, default=0))

    def write(self, body: Bytes) -> None:
        """Append bytes, which must not change until every store has taken them. Raises an error if no store is left."""
        if self._backlog_bytes is None:
            self._kept.append(body)
            self._kept_bytes += memoryview(body).nbytes
        with self._lanes.lock:
            for copy in self._copies:
                copy.append(body)
            self._lanes.changed.notify_all()
        self._advance()
        if self._backlog_bytes is not None:
            self._lanes.wait(self._copies, self._has_room, self._has_room)
        self._check_any()

    def publish(self, index: Bytes) -> None:
        """Let the stores complete the object, then put `index` beside it."""
        with self._lanes.lock:
            self._index = index
            for copy in self._copies:
                copy.index = index
            self._lanes.changed.notify_all()
        self._advance()

    @property
    def is_over(self) -> bool:
        """True if `holders` has nothing to wait for."""
        return all(_is_settled(copy) or copy.lane.failure is not None for copy in self._copies)

    def holders(self) -> frozenset[StoreId]:
        """Wait for the stores, and return those that hold the object: at least one.

        If no store holds it for sure but one may have it, raises OutcomeUnknown or KeyExists: upload the object again
        under another key. If no store can have it, raises one error for all stores, which is retriable if any of their
        errors is.
        """
        self._lanes.wait(self._copies, _is_settled, lambda copy: copy.done)
        with self._lanes.lock:
            holders = frozenset(copy.lane.store for copy in self._copies if copy.done)
            doubts = [(copy.lane, copy.doubt) for copy in self._copies if copy.doubt is not None]
        if not holders:
            for lane, doubt in doubts:
                if lane.failure is None:
                    raise doubt
            self._check_any()
        for lane, doubt in doubts:
            self._lanes.give_up(lane, doubt)
        self._kept, self._kept_bytes = [], 0
        return holders

    def abort(self) -> None:
        """Drop what no store has published yet. May be called at any time, even twice.

        If the stores' threads do the work, they also drop it, and this call returns at once.
        """
        for copy in self._copies:
            self._lanes.drop(copy)
        self._kept, self._kept_bytes = [], 0

    def _advance(self) -> None:
        if self._here:
            for copy in self._copies:
                self._lanes.advance(copy)

    def _check_any(self) -> None:
        """Raise one error for all stores if each of them was given up."""
        failures = [(copy.lane.store, copy.lane.failure) for copy in self._copies if copy.lane.failure is not None]
        if len(failures) == len(self._copies):
            raise most_hopeful([(store, failure) for store, failure in failures])

    def _has_room(self, copy: _Copy) -> bool:
        assert self._backlog_bytes is not None
        return copy.lane.failure is None and copy.waiting_bytes <= self._backlog_bytes


class _Copy(StoreWork):
    """The copy of the object on one store: takes parts until `index` is set, then publishes the object and the index.

    `waiting_bytes`: the size of the parts that the store has still to take. `done`: the store has the object and its
    index, durably. `doubt`: an error after which the store may or may not have them. If no other store has them for
    sure, the object must be uploaded again under another key.
    """

    def __init__(
        self, lanes: StoreLanes, lane: StoreLane, key: str, parts: Iterable[Bytes], index: Bytes | None
    ) -> None:
        super().__init__(lanes, lane)
        self._key = key
        self._parts: deque[Bytes] = deque()
        self.waiting_bytes = 0
        self.index = index
        self.done = False
        self.doubt: SparklogError | None = None
        for part in parts:
            self.append(part)

    def append(self, part: Bytes) -> None:
        """Add a part at the end, unless the store was given up. Call with `StoreLanes.lock` held."""
        if not self.is_given_up:
            self._parts.append(part)
            self.waiting_bytes += memoryview(part).nbytes

    def perform(self) -> Generator[None]:
        store = self.lanes.opened(self.lane)
        upload = store.upload(self._key)
        doubt = None
        try:
            while True:
                with self.lanes.lock:
                    if self.is_given_up:  # parts that it had still to take are gone: don't publish without them
                        return
                    part = self._parts[0] if self._parts else None
                    index = self.index
                if part is not None:
                    upload.write(part)
                    self._note_taken(part)
                elif index is None:
                    yield
                else:
                    break
            try:
                upload.publish()
                self._note_progress()
                store.put_if_absent(index_key(self._key), index)
                self._note_progress()
            except (KeyExists, OutcomeUnknown) as error:
                doubt = error
            else:
                check_incarnation(store, self.lane.incarnation, (self._key,))
        finally:
            with suppress(Exception):  # `remove_abandoned` drops the upload later
                upload.abort()
        with self.lanes.lock:
            self.doubt = doubt
            self.done = doubt is None and not self.is_given_up
            self.lanes.note_progress()

    def is_ready(self) -> bool:
        return bool(self._parts) or self.index is not None

    def free(self) -> None:
        self._parts.clear()
        self.waiting_bytes = 0

    def _note_progress(self) -> None:
        with self.lanes.lock:
            self.lanes.note_progress()

    def _note_taken(self, part: Bytes) -> None:
        with self.lanes.lock:
            if not self.is_given_up:
                self._parts.popleft()
                self.waiting_bytes -= memoryview(part).nbytes
            self.lanes.note_progress()


def _is_settled(copy: _Copy) -> bool:
    return copy.done or copy.doubt is not None
