"""Checks that each store of a cluster is the registered one, can be written, and still has its objects.

All stores are checked in parallel, each in daemon threads of its own. A store that does not answer is reported at the
deadline, and does not delay the checks of the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from sparklog.client.connection import Connection
from sparklog.client.stores.store_look import look_at
from sparklog.core.config.storage import METADATA_STORE
from sparklog.core.describe.readable import counted, duration, exact_amount
from sparklog.core.errors import KeyNotFound, RequestTimedOut, SparklogError, StoreReadOnly
from sparklog.core.maintenance.object_samples import ObjectSample, live_slices, sampled_objects
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber, StoreId
from sparklog.host.daemon import in_daemon
from sparklog.host.deadline import Deadline
from sparklog.host.dice import new_id
from sparklog.storage.keys import (
    APPENDS,
    CHUNKS,
    COMMANDS,
    LOG,
    PROBES,
    SNAPSHOTS,
    TOPICS,
    VOID,
    append_key,
    data_key,
    entry_block,
    entry_block_prefix,
    index_key,
    parse_data_key,
)
from sparklog.storage.local.store import LocalStore
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import registered_url

T = TypeVar("T")

DEADLINE_MS: Final = 20_000
CALL_TIMEOUT_MS: Final = 8_000  # for one call to a server, so that threads end soon after the deadline
MOST_SAMPLES: Final = 100
GIVEN_BACK: Final = "its space for commits was given back: sparklog store reserve keeps it again, once there is room"
_SAMPLERS: Final = 8
_THREADS: Final = "sparklog-health"
_PROBE: Final = b"sparklog cluster health\n" * 200  # more than a file system stores in an inode


@dataclass(slots=True)
class StoreHealth:
    """The findings about one store so far. `problems` and `bad_objects` are empty if all is well.

    `remarks`: findings that make no read or write fail. `free_bytes`: None if unknown. `appends_untried`: true for a
    disk without any append object, so that the trial write was made in another folder.
    """

    store: str
    url: str
    problems: list[str] = field(default_factory=list)
    free_bytes: int | None = None
    sampled: set[int] = field(default_factory=set)  # numbers of the objects that were looked for
    bad_objects: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    appends_untried: bool = False


@dataclass(frozen=True, slots=True)
class _BadObject:
    """A finding about a sampled object or its index. `is_remark`: it makes no read or write fail."""

    sample: ObjectSample
    what: str
    is_remark: bool


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """The health of all stores. `objects`: number of objects in the cluster, without retired ones."""

    stores: list[StoreHealth]
    objects: int

    @property
    def sampled(self) -> int:
        """Number of objects that were looked for on at least one store."""
        return len(set().union(*(store.sampled for store in self.stores)))


def in_time(call: Callable[[], T], deadline_ms: int, what: str) -> T:
    """Run `call` in a daemon thread, and return its result or raise its error.

    Raises RequestTimedOut after `deadline_ms`, although the call may still be running. `what`: the subject of the text
    of this error.
    """
    outcome = in_daemon(call, "sparklog-call")
    wait((outcome,), deadline_ms / 1000)
    if not outcome.done():
        raise RequestTimedOut(f"{what}: no answer in {duration(deadline_ms)}")
    return outcome.result()


def check_stores(connection: Connection, state: ClusterState) -> ClusterHealth:
    """Check every store and the place of the chain, in parallel, within `DEADLINE_MS`."""
    samples, n = sampled_objects(state, MOST_SAMPLES), EntryNumber(state.n)
    stores = connection.hasty_stores(state, CALL_TIMEOUT_MS)
    checks = []
    for registered in state.stores.values():
        held = [sample for sample in samples if _is_held(sample, registered.store)]
        health = StoreHealth(str(registered.store), registered_url(connection.url, registered.url))
        folders = _data_folders(held)
        checks.append(_Check(health, partial(stores.get, registered.store), registered.incarnation, n, held, folders))
    root = connection.follower.store
    at_root = next((check for check in checks if check.health.url == root.url), None)
    if at_root is None:
        at_root = _Check(StoreHealth(METADATA_STORE, root.url), lambda: root, None, n, [], [])
        checks.append(at_root)
    at_root.folders += _metadata_folders(n)
    deadline = Deadline(DEADLINE_MS)
    runs = [in_daemon(check.run, _THREADS) for check in checks]
    for check, run in zip(checks, runs, strict=True):
        wait((run,), deadline.left_s())
        check.end(late=not run.done())
    if any(check.bad for check in checks):
        connection.follower.catch_up()  # a roll or a delete may have run since the sample was drawn
        for check in checks:
            check.report_objects(connection.follower.state)
    return ClusterHealth([check.health for check in checks], len(state.objects) - len(state.retired))


def _is_held(sample: ObjectSample, store: StoreId) -> bool:
    return store in sample.stores


def _data_folders(samples: list[ObjectSample]) -> list[str]:
    """The folders that must be writable: for writers those of append objects, for rolls those of sampled objects."""
    keys = (data_key(sample.object.object, sample.topic) for sample in samples)
    appends = [f"{APPENDS}{digits:02x}/" for digits in range(256)]
    return sorted({APPENDS, TOPICS, *appends, *(f"{key.rpartition('/')[0]}/" for key in keys)})


def _metadata_folders(n: EntryNumber) -> list[str]:
    return [LOG, entry_block_prefix(entry_block(n + 1)), SNAPSHOTS, CHUNKS, COMMANDS, VOID]


class _Check:
    """The check of one store, which may still be running when its result is read."""

    def __init__(
        self,
        health: StoreHealth,
        open_: Callable[[], ObjectStore],
        incarnation: str | None,
        n: EntryNumber,
        samples: list[ObjectSample],
        folders: list[str],
    ) -> None:
        self.health = health
        self.folders = folders
        self.bad: list[_BadObject] = []
        self._n = n
        self._open = open_
        self._incarnation = incarnation
        self._samples = samples
        self._lock = threading.Lock()
        self._over = False

    def run(self) -> None:
        """Run the checks, and note their findings. If the store is not the registered one, nothing is written to it."""
        with self._noted():
            store = self._open()
            look = look_at(store, self._incarnation)
            self._note(look.problem)
            self._note_space(look.free_bytes)
            if look.problem:
                return
            if isinstance(store, LocalStore) and store.reserve.size_bytes() == 0:
                self._note_remark(GIVEN_BACK)
            with self._noted():
                key = _probe_key(store, self._n)
                self._note(_write(store, key))
                self._note_untried(isinstance(store, LocalStore) and not key.startswith(APPENDS))
            with self._noted():
                if not any(StoreReadOnly.code in problem for problem in self.health.problems):  # not the whole disk
                    self._note(_unwritable(store, self.folders))
            samples = iter(self._samples)
            most = min(_SAMPLERS, len(self._samples))
            wait([in_daemon(lambda: self._look_for(store, samples), _THREADS) for _ in range(most)])

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Note an error raised in the block, of any type, as a problem of the store instead of raising it."""
        try:
            yield
        except SparklogError as error:
            self._note(str(error))
        except Exception as error:
            self._note(_unexpected(error))

    def end(self, *, late: bool) -> None:
        """End the check: threads that still run no longer change `health`.

        `late`: true if the check has not ended by the deadline, which is a problem of the store.
        """
        with self._lock:
            self._over = True
            if late:
                self.health.problems.append(f"no answer in {duration(DEADLINE_MS)}")
            elif not self.health.problems and (left := len(self._samples) - len(self.health.sampled)):
                self.health.problems.append(f"{counted(left, 'sampled object')} could not be looked for")

    def report_objects(self, state: ClusterState) -> None:
        """Add the findings to `health`, but only those about objects that `state` still names.

        `state` is newer than the findings: an object that was deleted meanwhile is no problem.
        """
        for bad in self.bad:
            if slices := live_slices(state, bad.sample.object.number):
                piece = bad.sample.slice
                more = f" and {counted(slices - 1, 'more slice')}" if slices > 1 else ""
                place = f"{bad.sample.topic}-{piece.partition} offsets [{piece.start}, {piece.end}){more}"
                (self.health.remarks if bad.is_remark else self.health.bad_objects).append(f"{place}: {bad.what}")

    def _look_for(self, store: ObjectStore, samples: Iterator[ObjectSample]) -> None:
        while not self._over:
            with self._lock:
                sample = next(samples, None)
            if sample is None:
                return
            with self._noted():
                bad = list(_problems_of(store, sample))
                with self._lock:
                    if not self._over:
                        self.health.sampled.add(sample.object.number)
                        self.bad += bad

    def _note(self, problem: str) -> None:
        with self._lock:
            if problem and problem not in self.health.problems and not self._over:
                self.health.problems.append(problem)

    def _note_remark(self, remark: str) -> None:
        with self._lock:
            if not self._over:
                self.health.remarks.append(remark)

    def _note_untried(self, appends_untried: bool) -> None:
        with self._lock:
            if not self._over:
                self.health.appends_untried = appends_untried

    def _note_space(self, free_bytes: int | None) -> None:
        with self._lock:
            if not self._over:
                self.health.free_bytes = free_bytes


def _unexpected(error: Exception) -> str:
    return f"the check itself failed with {error!r}"


def _probe_key(store: ObjectStore, n: EntryNumber) -> str:
    """The key of a trial write. On a disk, it is in the directory of an existing append object, if there is one.

    So the write creates no directory: if root created one, writers could not write there. If the object is left behind,
    it looks like an orphan, which vacuum removes. In all other cases the key is under PROBES.
    """
    drawn = new_id()
    existing = store.first_key_after(APPENDS, APPENDS) if isinstance(store, LocalStore) else None
    name = None if existing is None else parse_data_key(existing)
    return f"{PROBES}{drawn}-health" if name is None else append_key(n, name.upload_id[:2] + drawn[2:])


def _write(store: ObjectStore, key: str) -> str:
    """Write a small object, read it back and remove it. Returns a text if the bytes differ, else "".

    Raises the store's errors.
    """
    try:
        store.put_if_absent(key, _PROBE)
        same = bytes(store.get(key)) == _PROBE
    except BaseException:
        with suppress(SparklogError):
            store.delete(key)
        raise
    store.delete(key)
    return "" if same else f"{key} at {store.url} was read back with other bytes than were written"


def _unwritable(store: ObjectStore, folders: list[str]) -> str:
    """A text about directories of a disk in which this user may not write (root may have created them); "" if none."""
    paths = store.unwritable(folders) if isinstance(store, LocalStore) else []
    if not paths:
        return ""
    more = f" and {counted(len(paths) - 1, 'more directory')}" if len(paths) > 1 else ""
    return f"{StoreReadOnly.code}: the user of this process may not write in {paths[0]}{more}"


def _problems_of(store: ObjectStore, sample: ObjectSample) -> Iterable[_BadObject]:
    """Yield the findings about an object and its index on a store. Checks their sizes, and reads their last bytes."""
    named = sample.object.object
    data = data_key(named, sample.topic)
    for key, wanted, is_index in ((data, named.size_bytes, False), (index_key(data), named.index_size_bytes, True)):
        try:
            lost = _lost(store, key, wanted)
        except SparklogError as error:
            yield _BadObject(sample, str(error), is_remark=False)
        except Exception as error:
            yield _BadObject(sample, _unexpected(error), is_remark=False)
        else:
            if lost:
                rebuilt = " (an index: readers rebuild it from its object; sparklog job recovery --full puts it back)"
                yield _BadObject(sample, lost + rebuilt * is_index, is_remark=is_index)


def _lost(store: ObjectStore, key: str, wanted: int) -> str:
    """A text if the object is not there or has another size than `wanted`, else "". Raises if it can't be read."""
    try:
        size_bytes = store.size(key)
        if size_bytes == wanted:
            store.get_ranges(key, [(max(wanted - 1, 0), wanted)])
            return ""
    except KeyNotFound:
        return f"{key} is not there"
    return f"{key} has {exact_amount(size_bytes)}, wanted {exact_amount(wanted)}"
