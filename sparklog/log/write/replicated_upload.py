"""Upload one object to several stores at the same time, and then its index. The bytes are encoded only once.

A store counts as a holder once it has published the object and the index in the same place as its registered
INCARNATION.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sparklog.core.errors import KeyExists, OutcomeUnknown, SparklogError
from sparklog.core.types import StoreId
from sparklog.log.incarnation import check_incarnation
from sparklog.log.write.store_lanes import StoreLane, StoreLanes, most_hopeful
from sparklog.storage.keys import index_key
from sparklog.storage.object_store import Bytes, ObjectStore, Upload


@dataclass(slots=True, eq=False)
class _Copy:
    """The copy of the object on one store. `waiting_bytes`: bytes that the store has still to take.

    `done`: the store has the object and its index, durably. `doubt`: an error after which the store may or may not have
    them. If no other store has them for sure, the object must be uploaded again under another key.
    """

    lane: StoreLane
    upload: Upload | None = None
    waiting_bytes: int = 0
    done: bool = False
    doubt: SparklogError | None = None


class ReplicatedUpload:
    """Uploads one object. Call `write` any number of times, then `publish`, then `holders`; or `abort` at any time.

    With `here`, which needs a single store, the calling thread does all work. Otherwise the stores' own threads do it:
    `publish` returns at once, and `write` waits only while any store that was not given up has still to take more than
    `backlog_bytes` (None: it never waits).
    """

    def __init__(
        self, lanes: StoreLanes, stores: Sequence[StoreId], key: str, *, here: bool, backlog_bytes: int | None = None
    ) -> None:
        self._here = here
        self._lanes = lanes
        self._key = key
        self._backlog_bytes = backlog_bytes
        self._copies = [_Copy(lane) for lane in lanes.of(stores)]

    def continue_in_background(self) -> None:
        """Let the stores' own threads do all further work, instead of the calling thread."""
        for copy in self._copies:
            if copy.upload is not None:
                copy.lane.adopt(copy.upload)
        self._here = False

    def write(self, body: Bytes) -> None:
        """Append bytes, which must not change until every store has taken them. Raises an error if no store is left."""
        size_bytes = memoryview(body).nbytes
        for copy in self._live():
            with self._lanes.changed:
                copy.waiting_bytes += size_bytes
            copy.lane.perform(partial(self._write, copy, body, size_bytes, self._here), here=self._here)
        if self._backlog_bytes is not None:
            self._lanes.wait(self._copies, self._has_room, self._has_room)
        self._check_any()

    def publish(self, index: Bytes) -> None:
        """Let the stores complete the object, then put `index` beside it."""
        for copy in self._live():
            copy.lane.perform(partial(self._publish, copy, index), here=self._here)

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
            doubts = [copy for copy in self._copies if copy.doubt is not None]
        if not holders:
            for copy in doubts:
                if copy.doubt is not None and copy.lane.failure is None:
                    raise copy.doubt
            self._check_any()
        for copy in doubts:
            if copy.doubt is not None:
                copy.lane.give_up(copy.doubt)
        return holders

    def abort(self) -> None:
        """Drop what was written. Does nothing after `publish`.

        If the stores' own threads do the upload, they also drop it, and this call returns at once.
        """
        for copy in self._live():
            copy.lane.perform(partial(self._abort, copy), here=self._here)

    def _live(self) -> list[_Copy]:
        return [copy for copy in self._copies if copy.lane.failure is None]

    def _check_any(self) -> None:
        """Raise one error for all stores if each of them was given up."""
        failures = [(copy.lane.store, copy.lane.failure) for copy in self._copies if copy.lane.failure is not None]
        if len(failures) == len(self._copies):
            raise most_hopeful([(store, failure) for store, failure in failures])

    def _has_room(self, copy: _Copy) -> bool:
        assert self._backlog_bytes is not None
        return copy.lane.failure is None and copy.waiting_bytes <= self._backlog_bytes

    # ---- steps, in the lane of a copy ---------------------------------------------------------------

    def _write(self, copy: _Copy, body: Bytes, size_bytes: int, here: bool, store: ObjectStore) -> None:
        if copy.upload is None:
            copy.upload = copy.lane.opened(store.upload(self._key), here=here)
        copy.upload.write(body)
        with self._lanes.changed:
            copy.waiting_bytes -= size_bytes
            self._lanes.changed.notify_all()

    def _publish(self, copy: _Copy, index: Bytes, store: ObjectStore) -> None:
        assert copy.upload is not None
        try:
            copy.upload.publish()
            copy.lane.ended(copy.upload)
            store.put_if_absent(index_key(self._key), index)
        except (KeyExists, OutcomeUnknown) as error:
            self._abort(copy, store)
            with self._lanes.changed:
                copy.doubt = error
                self._lanes.changed.notify_all()
            return
        check_incarnation(store, copy.lane.incarnation, (self._key,))
        with self._lanes.changed:
            copy.done = copy.lane.failure is None
            self._lanes.changed.notify_all()

    def _abort(self, copy: _Copy, store: ObjectStore) -> None:
        if copy.upload is not None:
            copy.lane.ended(copy.upload)
            copy.upload.abort()


def _is_done(copy: _Copy) -> bool:
    return copy.done


def _is_settled(copy: _Copy) -> bool:
    return copy.done or copy.doubt is not None
