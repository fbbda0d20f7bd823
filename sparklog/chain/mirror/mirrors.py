"""Mirrors of the metadata chain: chooses the stores for them, and copes with stores that fail or hang.

Before an entry is acknowledged, as many mirrors as `metadata.copies` asks for must have it, with all entries before it.

The stores are chosen again for each entry, from those that are registered, not fenced, and elsewhere than the chain
itself. Those registered longest ago are tried first; silent ones come later, and those that failed or hung lately come
last. Processes may choose different stores: each process completes the mirrors on the stores that it has chosen. Each
store has its own daemon thread, because a store may never answer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from sparklog.chain.chain_requests import MirrorEntry
from sparklog.chain.mirror.mirror import Mirror
from sparklog.chain.mirror.mirror_wait import TooFewStores
from sparklog.chain.owner import check_owner
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.describe.readable import counted, duration
from sparklog.core.errors import InconsistentClusterId, NotEnoughReplicasAfterAppend, RequestTimedOut, SparklogError
from sparklog.core.state import ClusterState, Store
from sparklog.core.types import StoreId
from sparklog.host.clock import SystemClock, WaitingClock
from sparklog.host.recent_failures import RecentFailures
from sparklog.storage.object_store import ObjectStore

PATIENCE_MS: Final = 2_000  # for a store that does not answer, while another store can take its place
SNAPSHOT_WAIT_MS: Final = 30_000

OpenStore = Callable[[ClusterState, StoreId], ObjectStore]

_log = logging.getLogger("sparklog")
_SYSTEM = SystemClock()


class _MirrorWorker:
    """One mirror and its thread, which runs one call of `Mirror.extend` at a time. `error`: that of the last call."""

    def __init__(self, store: StoreId, mirror: Mirror) -> None:
        self.store = store
        self.mirror = mirror
        self.error: BaseException | None = None
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """True if a task is running. False in a forked child, where the thread does not exist."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, request: MirrorEntry, changed: threading.Condition) -> None:
        self.error = None

        def run() -> None:
            try:
                self.mirror.extend(request)
            except BaseException as error:
                self.error = error
            with changed:
                self._thread = None
                changed.notify_all()

        thread = self._thread = threading.Thread(target=run, name=f"sparklog-mirror-{self.store}", daemon=True)
        thread.start()


class Mirrors:
    """The mirrors of one chain. `is_elsewhere` is true for a store at another place than the chain. Thread-safe.

    `check_incarnation` raises unless a store has its registered INCARNATION.
    """

    def __init__(
        self,
        source: ObjectStore,
        open_store: OpenStore,
        is_elsewhere: Callable[[Store], bool],
        check_incarnation: Callable[[ObjectStore, Store], None] = lambda target, store: None,
        clock: WaitingClock = _SYSTEM,
    ) -> None:
        self._source = source
        self._open = open_store
        self._is_elsewhere = is_elsewhere
        self._check_incarnation = check_incarnation
        self._clock = clock
        self._workers: dict[tuple[StoreId, int], _MirrorWorker] = {}
        self._failures = RecentFailures(clock.monotonic_ms)  # of workers
        self._changed = threading.Condition()

    def wanted(self, state: ClusterState) -> int:
        """Return the number of mirrors that must have an entry before it is acknowledged.

        It is `metadata.copies`, or the number of stores elsewhere than the chain if that is smaller. For an entry that
        lowers `metadata.copies`, the value before it counts, so that a restore learns of the change. A fenced store
        counts, although it can't have a mirror. So with too few other stores, no entry is acknowledged until a new
        store is registered or the fenced store is removed.
        """
        copies = state.copies_wanted
        return copies and min(copies, sum(map(self._is_elsewhere, state.stores.values())))

    def perform(self, request: MirrorEntry) -> None:
        """Put an entry on mirrors, with the earlier entries that they lack. Return once enough mirrors have it.

        Raises InconsistentClusterId if another chain owns a store, and NotEnoughReplicasAfterAppend if too few mirrors
        have it.
        """
        state = request.head.state
        wanted = self.wanted(state)
        patience_ms = min(PATIENCE_MS, effective_cluster(state.config).replica_lag_time_max_ms)
        failures: dict[StoreId, str] = {}
        workers = self._in_order(state, failures)
        running: dict[StoreId, tuple[_MirrorWorker, int]] = {}  # with the time at which patience ends
        whole = 0
        with self._changed:
            while True:
                for store, (worker, until_ms) in list(running.items()):
                    if not worker.busy:
                        del running[store]
                        whole += self._ended(worker, request, failures)
                    elif self._clock.monotonic_ms() >= until_ms:
                        del running[store]
                        failures[store] = RequestTimedOut(f"no answer in {duration(patience_ms)}").message
                        self._failures.note(worker)
                if whole >= wanted:
                    return
                while workers and len(running) < wanted - whole:
                    worker = workers.pop(0)
                    if worker.busy:
                        failures[worker.store] = "it has not answered yet"
                        continue
                    running[worker.store] = worker, self._clock.monotonic_ms() + patience_ms
                    worker.begin(request, self._changed)
                if not running:
                    raise self._too_few(state, whole, wanted, failures)
                first_ms = min(until_ms for _, until_ms in running.values())
                if all(worker.busy for worker, _ in running.values()):
                    self._clock.wait(self._changed, max(1, first_ms - self._clock.monotonic_ms()))

    def snapshot(self, n: int) -> None:
        """Put the snapshot of entry `n` on the mirrors that this process knows to be whole. Failures are only logged.

        Leaves out a mirror that is being extended. Waits at most SNAPSHOT_WAIT_MS for each of the others.
        """
        workers = list(self._workers.values())  # other threads may add some
        mirrors = [worker.mirror for worker in workers if worker.mirror.whole_to is not None and not worker.busy]
        threads = [
            threading.Thread(target=_mirror_snapshot, args=(mirror, n), name="sparklog-mirror-snapshot", daemon=True)
            for mirror in mirrors
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SNAPSHOT_WAIT_MS / 1000)

    def _ended(self, worker: _MirrorWorker, request: MirrorEntry, failures: dict[StoreId, str]) -> bool:
        """Return True if the worker's task, which has ended, made the mirror whole up to the requested entry.

        If the task failed, its error is added to `failures`, and the store is tried last for FAILED_FOR_MS. But
        InconsistentClusterId and interrupts are raised.
        """
        error = worker.error
        if error is None:
            return worker.mirror.whole_to is not None and worker.mirror.whole_to >= request.head.n
        if isinstance(error, InconsistentClusterId):
            raise error
        if not isinstance(error, Exception):
            raise error
        failures[worker.store] = str(error)
        self._failures.note(worker)
        return False

    def _too_few(
        self, state: ClusterState, whole: int, wanted: int, failures: dict[StoreId, str]
    ) -> NotEnoughReplicasAfterAppend:
        written = (
            f"entry {state.n} of the metadata chain is written, and has copies on {whole} of the "
            f"{counted(wanted, 'store')} that must have one (metadata.copies): "
        )
        reasons = "; ".join(f"store {store}: {why}" for store, why in sorted(failures.items()))
        if sum(self._is_elsewhere(store) and not store.fenced for store in state.stores.values()) >= wanted:
            return NotEnoughReplicasAfterAppend(written + reasons)
        text = "no other store is registered and not fenced: add one, or move replicas off those that are fenced and "
        return TooFewStores(f"{written}{reasons}{'; ' if reasons else ''}{text}remove them")

    def _in_order(self, state: ClusterState, failures: dict[StoreId, str]) -> list[_MirrorWorker]:
        """Return the workers of the stores that may have a mirror, in the order to try them.

        The error of a store that can't be opened is added to `failures`.
        """
        workers = []
        for store in sorted(state.stores.values(), key=lambda store: (not store.reachable, store.registration)):
            if store.fenced or not self._is_elsewhere(store):
                continue
            try:
                workers.append(self._worker(state, store))
            except SparklogError as error:  # it can't even be opened
                failures[store.store] = str(error)
        return sorted(workers, key=lambda worker: (self._failures.is_recent(worker), worker.busy))

    def _check_owners(self, state: ClusterState) -> None:
        """Raise InconsistentClusterId if another chain owns a store. Stores that don't answer are skipped."""
        for store in filter(self._is_elsewhere, state.stores.values()):
            try:
                check_owner(self._open(state, store.store), len(state.ancestors))
            except InconsistentClusterId:
                raise
            except SparklogError:
                continue

    def _worker(self, state: ClusterState, store: Store) -> _MirrorWorker:
        key = store.store, store.registration  # after a loss the mirror may be gone, too
        worker = self._workers.get(key)
        if worker is None:
            target = self._open(state, store.store)
            mirror = Mirror(self._source, target, state.chain_id, store, self._check_incarnation, self._check_owners)
            worker = self._workers.setdefault(key, _MirrorWorker(store.store, mirror))
        return worker


def _mirror_snapshot(mirror: Mirror, n: int) -> None:
    try:
        mirror.copy_snapshot(n)
    except Exception as error:  # nothing is lost: the mirror has the older snapshot and all entries since
        _log.warning("the snapshot of entry %d was not copied: %s", n, error)
