"""Follow the metadata chain: open it, catch up, and hold the newest head that this process knows.

Catching up, committing and the like are machines: generators without I/O that yield requests (`core/machine.py`).
`Follower.perform` performs these requests on the chain's store.

Opening reads the newest snapshot and the entries after it. Catching up costs one request for the next entry and one for
its block's void mark. A head is an immutable value: a reader can use it for as long as it likes and never waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from sparklog.chain.chain_requests import (
    ChainMachine,
    Get,
    GetMany,
    LoadSnapshot,
    MirrorEntry,
    Now,
    Pause,
    Put,
    Reply,
    Request,
)
from sparklog.chain.damaged_chain import damage
from sparklog.chain.entry import Entry
from sparklog.chain.follow.catch_up import READ_WIDTH, caught_up
from sparklog.chain.follow.read_entries import read_entries, results_in
from sparklog.chain.follow.same_chain import same_chain
from sparklog.chain.head import Head
from sparklog.chain.mirror.mirrors import Mirrors
from sparklog.chain.snapshot import snapshot
from sparklog.chain.snapshot.chunks import Chunk
from sparklog.core.errors import ClusterNotFound, InconsistentClusterId, SparklogError
from sparklog.core.machine import run
from sparklog.core.records import CommandResult
from sparklog.core.state import ClusterState
from sparklog.core.tables.result_table import AppliedBy
from sparklog.core.types import CommandId, EntryNumber
from sparklog.host.clock import Clock, SystemClock
from sparklog.host.dice import jittered
from sparklog.storage.keys import LOG, entry_key, parse_entry_key
from sparklog.storage.object_store import ObjectStore, body_if_there

T = TypeVar("T")
CHECKS_OF_END = 4
ENTRIES_AT_ONCE = 256  # when entries are read again; each may be a MiB


class Follower:
    """The newest head of one chain in this process. `perform` does the I/O of the chain's machines (generators).

    Thread-safe. Create a new one after a fork.
    """

    def __init__(self, store: ObjectStore, clock: Clock | None = None, mirrors: Mirrors | None = None) -> None:
        self.store = store
        self.mirrors = mirrors  # the chain's mirrors on other stores; None if this process never commits, or in tests
        self.clock = clock or SystemClock()
        self.head = Head()
        self.snapshot_n = -1  # the newest known snapshot
        self.snapshot_time_ms: int | None = None  # when its entry was written
        self.known_chunks: dict[str, Chunk] = {}
        self.on_head: Callable[[], None] | None = None  # called in any thread that has read or committed
        self._publishing = threading.Lock()
        self._reading = threading.Lock()
        self._begun = self._ended = 0  # rounds of catching up

    @property
    def state(self) -> ClusterState:
        """The state of the newest known head, without reading anything."""
        return self.head.state

    @property
    def entry_hash(self) -> str:
        """The hash of the newest known entry."""
        return self.head.entry_hash

    def mirrors_wanted(self, state: ClusterState) -> int:
        """Return how many mirrors must have an entry before it is acknowledged. 0 if this process makes no mirrors."""
        return 0 if self.mirrors is None else self.mirrors.wanted(state)

    def open(self) -> None:
        """Load the newest snapshot and the entries after it. Raises ClusterNotFound, ChainDamaged."""
        self.catch_up()
        if self.head.n < 0:
            raise ClusterNotFound(
                f"no cluster at {self.store.url}; to make one, run 'sparklog cluster init'; if there was one, check "
                "that its disk is mounted (docs/replication.md, When the metadata is lost)"
            )
        self._check_end()

    def catch_up(self) -> Head:
        """Return a head with everything written before the call.

        Concurrent callers share a round of reading if it begins after their calls. Raises StoreUnavailable,
        ChainDamaged, UnsupportedVersion, and InconsistentClusterId if another cluster is at the address.
        """
        wanted = self._begun + 1
        with self._reading:
            if self._ended < wanted:
                self._begun += 1
                self._read_on()
                self._ended = self._begun
            return self.head

    def publish(self, head: Head) -> None:
        """Make `head` the newest known head, unless a newer one is known. Then call `on_head` in any case, if set."""
        with self._publishing:
            if head.n > self.head.n:
                self.head = head
        if self.on_head is not None:
            self.on_head()

    def replace(self, head: Head, equal: Head) -> None:
        """Replace `head` by `equal`, unless `head` is not the newest known head any more.

        `equal` has the same state, but its tables are divided into blocks in another way.
        """
        with self._publishing:
            if self.head is head:
                self.head = equal

    def learn_snapshot(self, manifest: snapshot.Manifest) -> None:
        """Remember this snapshot and its chunks if it is the newest known one. Forget the chunks of older ones."""
        with self._publishing:
            if manifest.n > self.snapshot_n:
                self.snapshot_n, self.known_chunks = manifest.n, snapshot.known_chunks(manifest)
                self.snapshot_time_ms = manifest.time_ms

    def results(self, applied: Sequence[AppliedBy]) -> Iterator[tuple[CommandId, CommandResult]]:
        """Return the results of these commands, read from their entries, in the order of the chain.

        Commands whose entries were deleted, because FLOOR has passed them, are left out. Raises StoreUnavailable,
        ChainDamaged.
        """
        wanted = {command.command_id for command in applied}
        for command, result in results_in(self.entries(command.n for command in applied)):
            if command.command_id in wanted:
                yield command.command_id, result

    def entries(self, numbers: Iterable[EntryNumber]) -> Iterator[Entry]:
        """Read those of these entries that still exist, in ascending order. Raises StoreUnavailable, ChainDamaged."""
        ascending = sorted(set(numbers))
        for at in range(0, len(ascending), ENTRIES_AT_ONCE):
            yield from self._run(read_entries(ascending[at : at + ENTRIES_AT_ONCE], self.store.url))

    def newest_state(self) -> ClusterState:
        """Catch up, and return the state, an immutable value."""
        return self.catch_up().state

    def is_same_chain(self) -> bool:
        """True if the store still has the chain that this object has read (`same_chain.py`).

        False if that chain is gone, if another chain is there, or if this object has read nothing yet. Raises the
        store's errors.
        """
        if self.head.n < 0:
            return False
        try:
            self._run(same_chain(self.head, self.store.url))
        except InconsistentClusterId:
            return False
        return True

    def perform(self, request: Request) -> Reply:
        """Perform a request yielded by a machine of the chain, and return the reply. A store's error is a reply too."""
        try:
            match request:
                case Put():
                    self.store.put_if_absent(request.key, request.body)
                    return None
                case Get():
                    return self.store.get(request.key)
                case GetMany():
                    return self._get_many(request)
                case LoadSnapshot():
                    return self._load_snapshot()
                case MirrorEntry() if self.mirrors is not None:
                    self.mirrors.perform(request)
                    return None
                case Pause():
                    self.clock.pause(jittered(request.longest_ms))
                    return None
                case _:
                    raise TypeError(f"wanted a request of a chain machine, found {request!r}")
        except SparklogError as error:
            return error

    def _read_on(self) -> None:
        self.publish(self._run(caught_up(self.head, self.store.url)))

    def _run(self, steps: ChainMachine[T]) -> T:
        """Run a machine: perform the requests that it yields, and return its outcome. Raises what it raises."""
        return run(steps, self._answered)

    def _answered(self, request: Request) -> tuple[Reply, Now]:
        return self.perform(request), Now(self.clock.now_ms(), self.clock.monotonic_ms(), "")

    def _get_many(self, request: GetMany) -> list[bytes | None]:
        if len(request.keys) == 1:
            return [body_if_there(self.store, request.keys[0])]
        with ThreadPoolExecutor(min(len(request.keys), READ_WIDTH)) as pool:
            return list(pool.map(partial(body_if_there, self.store), request.keys))

    def _load_snapshot(self) -> Head | None:
        loaded = snapshot.load_newest(self.store)
        if loaded is None:
            return None
        manifest, state = loaded
        self.learn_snapshot(manifest)
        return Head(state, manifest.entry_hash)

    def _check_end(self) -> None:
        """Raise ChainDamaged if the next entry is missing but later ones exist: a write there would fork the chain."""
        for _ in range(CHECKS_OF_END):  # a busy writer may always have added one more
            n = self.head.n
            beyond = self.store.first_key_after(LOG, entry_key(n))  # in any block: n + 1 may be the last of its block
            if beyond is None:
                return
            self.catch_up()
            if self.head.n == n:
                gap = f"it is missing, but entry {parse_entry_key(beyond)} is there"
                raise damage(entry_key(n + 1), gap, self.store.url)
