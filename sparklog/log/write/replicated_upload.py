"""Upload one object to several stores at the same time, and then its index. The bytes are encoded only once.

A store counts as a holder once it has published the object and the index in the same place as its registered
INCARNATION.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from sparklog.core.errors import KeyExists, OutcomeUnknown, SparklogError
from sparklog.core.types import StoreId
from sparklog.log.incarnation import check_incarnation
from sparklog.log.write.store_lanes import StoreLane, StoreLanes, most_hopeful
from sparklog.storage.keys import index_key
from sparklog.storage.object_store import Bytes


@dataclass(slots=True, eq=False)
class _Copy:
    """The copy of the object on one store. `steps` uploads it, one part with each step.

    `taken`: the number of parts that the store has taken. `waiting_bytes`: the size of those that it has still to take.
    `part`: the one for its next step, or None if it has taken them all. `done`: the store has the object and its index,
    durably. `doubt`: an error after which the store may or may not have them. If no other store has them for sure, the
    object must be uploaded again under another key.
    """

    lane: StoreLane
    waiting_bytes: int
    steps: Generator[None] = field(init=False)
    taken: int = 0
    part: Bytes | None = None
    done: bool = False
    doubt: SparklogError | None = None


class ReplicatedUpload:
    """Uploads one object. Call `write` any number of times, then `publish`, then `holders`; or `abort` at any time.

    With `here`, which needs a single store, the calling thread does all work. Otherwise each store has a thread for it,
    and `publish` returns at once. With `backlog_bytes`, each part is dropped once every store has taken it, and `write`
    waits while any store that was not given up has still to take more than that. Without, `write` never waits, and all
    parts are kept, so that `begin` can upload them again. `held_bytes` is the size of the parts in memory.
    """

    def __init__(
        self, lanes: StoreLanes, stores: Sequence[StoreId], key: str, *, here: bool, backlog_bytes: int | None = None
    ) -> None:
        self.held_bytes = 0
        self._here = here
        self._lanes = lanes
        self._stores = stores
        self._backlog_bytes = backlog_bytes
        self._parts: list[Bytes | None] = []  # None: it was dropped
        self._dropped_parts = 0
        self._index: Bytes | None = None
        self._is_dropped = False
        self.begin(key)

    def begin(self, key: str) -> None:
        """Begin to upload under this key, with the parts that were written so far."""
        self._copies = [_Copy(lane, self.held_bytes) for lane in self._lanes.of(self._stores)]
        for copy in self._copies:
            copy.steps = self._upload(copy, key)
        self._continue()

    def continue_in_background(self) -> None:
        """Let each store do all further work in a thread, instead of the calling thread."""
        if self._here:
            self._here = False
            self._continue()

    def write(self, body: Bytes) -> None:
        """Append bytes, which must not change until every store has taken them. Raises an error if no store is left."""
        size_bytes = memoryview(body).nbytes
        with self._lanes.changed:
            self._parts.append(body)
            self.held_bytes += size_bytes
            for copy in self._copies:
                copy.waiting_bytes += size_bytes
            self._lanes.changed.notify_all()
        if self._here:
            self._continue()
        elif self._backlog_bytes is not None:
            self._lanes.wait(self._copies, self._has_room, self._has_room)
        self._check_any()

    def publish(self, index: Bytes) -> None:
        """Let the stores complete the object, then put `index` beside it."""
        with self._lanes.changed:
            self._index = index
            self._lanes.changed.notify_all()
        if self._here:
            self._continue()

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
        self._lanes.wait(self._copies, _is_settled, _is_done)
        with self._lanes.changed:
            holders = frozenset(copy.lane.store for copy in self._copies if copy.done)
            doubts = [(copy.lane, copy.doubt) for copy in self._copies if copy.doubt is not None]
        if not holders:
            for lane, doubt in doubts:
                if lane.failure is None:
                    raise doubt
            self._check_any()
        for lane, doubt in doubts:
            self._lanes.give_up(lane, doubt)
        self._drop()
        return holders

    def abort(self) -> None:
        """Drop what no store has published yet. May be called at any time, even twice.

        If the stores have threads of their own, these drop it, and this call returns at once.
        """
        self._drop()
        if self._here:
            for copy in self._copies:
                copy.steps.close()

    def _continue(self) -> None:
        """Upload to each store: as far as there are parts, or in a thread to the end."""
        for copy in self._copies:
            if copy.lane.failure is None:
                self._lanes.perform(copy.lane, partial(self._run, copy), here=self._here)

    def _check_any(self) -> None:
        """Raise one error for all stores if each of them was given up."""
        failures = [(copy.lane.store, copy.lane.failure) for copy in self._copies if copy.lane.failure is not None]
        if len(failures) == len(self._copies):
            raise most_hopeful([(store, failure) for store, failure in failures])

    def _has_room(self, copy: _Copy) -> bool:
        assert self._backlog_bytes is not None
        return copy.lane.failure is None and copy.waiting_bytes <= self._backlog_bytes

    def _drop(self) -> None:
        """Free the parts: the thread of a store that hangs must not keep them in memory."""
        with self._lanes.changed:
            self._is_dropped = True
            self._parts, self.held_bytes = [], 0
            self._lanes.changed.notify_all()

    # ---- one store, in its thread -------------------------------------------------------------------

    def _upload(self, copy: _Copy, key: str) -> Generator[None]:
        """Upload to one store: a step writes the next part, and the last one publishes."""
        store = self._lanes.opened(copy.lane)
        upload = store.upload(key)
        doubt = None
        try:
            while copy.part is not None:
                upload.write(copy.part)
                self._note_taken(copy)
                yield
            upload.publish()
            assert self._index is not None
            store.put_if_absent(index_key(key), self._index)
            check_incarnation(store, copy.lane.incarnation, (key,))
        except (KeyExists, OutcomeUnknown) as error:
            doubt = error
        finally:
            with suppress(Exception):  # `remove_abandoned` drops the upload later
                upload.abort()
        with self._lanes.changed:
            copy.doubt = doubt
            copy.done = doubt is None and copy.lane.failure is None
            self._lanes.changed.notify_all()

    def _run(self, copy: _Copy) -> None:
        """Perform the steps of a store: here as many as there are parts, in its thread all of them."""
        while self._has_next_step(copy):
            next(copy.steps, None)
        if not self._here:
            copy.steps.close()

    def _has_next_step(self, copy: _Copy) -> bool:
        """Set the part for the next step. In a store's thread, wait for it. False if there is none, or no more."""
        with self._lanes.changed:
            while not self._is_dropped and copy.lane.failure is None and not _is_settled(copy):
                is_whole = copy.taken == len(self._parts)
                if not is_whole or self._index is not None:
                    copy.part = None if is_whole else self._parts[copy.taken]
                    return True
                if self._here:
                    return False
                self._lanes.changed.wait()
        return False

    def _note_taken(self, copy: _Copy) -> None:
        assert copy.part is not None
        with self._lanes.changed:
            copy.waiting_bytes -= memoryview(copy.part).nbytes
            copy.taken += 1
            copy.part = None
            if self._backlog_bytes is not None and not self._is_dropped:
                self._drop_taken()
            self._lanes.changed.notify_all()

    def _drop_taken(self) -> None:
        """Drop the parts that every store has taken."""
        taken = min((copy.taken for copy in self._copies if copy.lane.failure is None), default=0)
        for at in range(self._dropped_parts, taken):
            self.held_bytes -= memoryview(self._parts[at] or b"").nbytes
            self._parts[at] = None
        self._dropped_parts = max(self._dropped_parts, taken)


def _is_done(copy: _Copy) -> bool:
    return copy.done


def _is_settled(copy: _Copy) -> bool:
    return copy.done or copy.doubt is not None
