"""Whether each store of a cluster is the registered one, can be written, and still has its objects.

Stores are asked side by side, each in threads of its own that end with the process: one that does not answer is
reported at the deadline, and holds nobody up.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

import msgspec

from sparklog.client.bootstrap import Incarnation
from sparklog.client.connection import Connection
from sparklog.core.errors import KeyNotFound, OutcomeUnknown, RequestTimedOut, SparklogError, StoreUnavailable
from sparklog.core.object_samples import ObjectSample, sampled_objects
from sparklog.core.readable import counted, duration, exact_amount
from sparklog.core.state import ClusterState
from sparklog.core.storage_settings import METADATA_STORE
from sparklog.core.types import StoreId
from sparklog.storage.deadline import Deadline
from sparklog.storage.keys import INCARNATION, PROBES, data_key, index_key
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import join_url

T = TypeVar("T")

DEADLINE_MS: Final = 20_000
CALL_TIMEOUT_MS: Final = 8_000  # of one call to a server, so that its threads end soon after the deadline
MOST_SAMPLES: Final = 100
_SAMPLERS: Final = 8
_PROBE: Final = b"sparklog cluster health\n" * 200  # more than file systems keep beside a name


@dataclass(slots=True)
class StoreHealth:
    """What was found of one store so far. `problems` is empty if all is well."""

    store: str
    url: str
    problems: list[str] = field(default_factory=list)
    free_bytes: int | None = None
    sampled: set[int] = field(default_factory=set)  # numbers of the objects that were looked for
    bad_objects: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """All stores, and how many of the cluster's `objects` were looked for."""

    stores: list[StoreHealth]
    objects: int

    @property
    def sampled(self) -> int:
        """How many objects were looked for on at least one store."""
        return len(set().union(*(each.sampled for each in self.stores)))


def in_time(call: Callable[[], T], deadline_ms: int, what: str) -> T:
    """What `call` gives, or RequestTimedOut: then it goes on in a thread that ends with the process."""
    given: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            given.append(call())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(deadline_ms / 1000)
    if raised:
        raise raised[0]
    if not given:
        raise RequestTimedOut(f"{what}: no answer in {duration(deadline_ms)}")
    return given[0]


def check_stores(connection: Connection, state: ClusterState) -> ClusterHealth:
    """Ask every store and the place of the chain, at the same time, for `DEADLINE_MS` at most."""
    samples = sampled_objects(state, MOST_SAMPLES)
    stores = connection.hasty_stores(state, CALL_TIMEOUT_MS)
    checks = []
    for each in state.stores.values():
        held = [sample for sample in samples if _is_held(sample, each.store)]
        found = StoreHealth(str(each.store), join_url(connection.url, each.url))
        checks.append(_Check(found, partial(stores.get, each.store), each.incarnation, held))
    root = connection.follower.store
    if root.url not in {check.found.url for check in checks}:
        checks.append(_Check(StoreHealth(METADATA_STORE, root.url), lambda: root, None, []))
    deadline = Deadline(DEADLINE_MS)
    threads = [_begin(check.run) for check in checks]
    for check, thread in zip(checks, threads, strict=True):
        thread.join(deadline.left_s())
        check.end(late=thread.is_alive())
    return ClusterHealth([check.found for check in checks], len(state.objects) - len(state.retired))


def _is_held(sample: ObjectSample, store: StoreId) -> bool:
    return any(holder.store == store for holder in sample.object.object.holders)


def _begin(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run, name="sparklog-health", daemon=True)
    thread.start()
    return thread


class _Check:
    """The check of one store, which may still be at work when it is asked for its result."""

    def __init__(
        self,
        found: StoreHealth,
        open_: Callable[[], ObjectStore],
        incarnation: str | None,
        samples: list[ObjectSample],
    ) -> None:
        self.found = found
        self._open = open_
        self._incarnation = incarnation
        self._samples = samples
        self._lock = threading.Lock()
        self._over = False

    def run(self) -> None:
        """Ask one thing after the other. Nothing is written to what is not the store that was registered."""
        with self._noted():
            store = self._open()
            if self._incarnation is not None and (problem := _mark_of_another(store, self._incarnation)):
                self._note(problem)
                return
            with self._noted():
                self._note_space(store.free_bytes())
            with self._noted():
                self._note(_write(store))
            samples = iter(self._samples)
            most = min(_SAMPLERS, len(self._samples))
            threads = [_begin(lambda: self._look_for(store, samples)) for _ in range(most)]
            for thread in threads:
                thread.join()

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Whatever is raised inside is a problem of the store, also what nobody expected."""
        try:
            yield
        except SparklogError as error:
            self._note(str(error))
        except Exception as error:
            self._note(_unexpected(error))

    def end(self, *, late: bool) -> None:
        """From now on the result stays as it is."""
        with self._lock:
            self._over = True
            if late:
                self.found.problems.append(f"no answer in {duration(DEADLINE_MS)}")
            elif not self.found.problems and (left := len(self._samples) - len(self.found.sampled)):
                self.found.problems.append(f"{counted(left, 'sampled object')} could not be looked for")

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
                        self.found.sampled.add(sample.object.number)
                        self.found.bad_objects += bad

    def _note(self, problem: str) -> None:
        with self._lock:
            if problem and problem not in self.found.problems and not self._over:
                self.found.problems.append(problem)

    def _note_space(self, free_bytes: int | None) -> None:
        with self._lock:
            if not self._over:
                self.found.free_bytes = free_bytes


def _unexpected(error: Exception) -> str:
    return f"the check itself failed with {error!r}"


def _mark_of_another(store: ObjectStore, wanted: str) -> str:
    """What is wrong with the mark that says which store this is."""
    try:
        mark = msgspec.json.decode(store.get(INCARNATION), type=Incarnation)
    except KeyNotFound:
        return f"nothing there: no {INCARNATION} at {store.url}"
    except msgspec.DecodeError as error:
        return f"{INCARNATION} at {store.url} is not sparklog's: {error}"
    if mark.incarnation != wanted:
        return f"another store: wanted incarnation {wanted}, found {mark.incarnation} at {store.url}"
    return ""


def _write(store: ObjectStore) -> str:
    """What is wrong with a small object that is written, read back, and removed again."""
    key = f"{PROBES}{uuid.uuid4().hex}-health"
    try:
        store.put_if_absent(key, _PROBE)
        same = bytes(store.get(key)) == _PROBE
    except (OutcomeUnknown, StoreUnavailable):
        with suppress(SparklogError):
            store.delete(key)
        raise
    store.delete(key)
    return "" if same else f"{key} at {store.url} was read back with other bytes than were written"


def _problems_of(store: ObjectStore, sample: ObjectSample) -> Iterable[str]:
    """What is wrong with an object or its index on a store. Their bytes are not read."""
    named, piece = sample.object.object, sample.slice
    key = data_key(named, sample.topic)
    place = f"{sample.topic}-{piece.partition} offsets [{piece.start}, {piece.end})"
    for each, wanted, role in (
        (key, named.size_bytes, ""),
        (index_key(key), named.index_size_bytes, " (an index: readers rebuild it from its object)"),
    ):
        try:
            found = store.size(each)
        except KeyNotFound:
            yield f"{place}: {each} is not there{role}"
        except SparklogError as error:
            yield f"{place}: {error}"
        except Exception as error:
            yield f"{place}: {_unexpected(error)}"
        else:
            if found != wanted:
                yield f"{place}: {each} has {exact_amount(found)}, wanted {exact_amount(wanted)}{role}"
