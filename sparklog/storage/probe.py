"""Checks a store by using it as sparklog does. Emulators and proxies differ: some let two racing writers both win.

Every check works under `probe/<id>-…` and removes its objects. A store that fails a check cannot hold a log: two
writers could both believe that an entry is theirs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from sparklog.core.errors import Damaged, KeyExists, KeyNotFound, OutcomeUnknown, StoreUnfit
from sparklog.host.deadline import Deadline
from sparklog.storage.keys import PROBES
from sparklog.storage.object_store import ObjectStore, Upload

WRITERS: Final = 8
_SMALL: Final = b"0123456789abcdef"
_MANY: Final = 12
_MEET_S: Final = 60.0  # longest time that the writers of a race wait for each other


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of one check: `fault` is "" if the store passed, otherwise it describes the fault."""

    check: str
    fault: str

    @property
    def passed(self) -> bool:
        return not self.fault


@dataclass(frozen=True, slots=True)
class Races:
    """One kind of race, run in `fewest` to `most` rounds.

    After the first `fewest` rounds, no round begins later than `until_ms` after the start of the probe. `check` is the
    name of the check in its result. `place` follows the probe's id in the keys of the race. `streamed`: the writers use
    `upload` instead of `put_if_absent`.
    """

    check: str
    place: str
    size_bytes: int
    streamed: bool
    fewest: int
    most: int
    until_ms: int = 0


_PUT: Final = ("of writers that race for a key one wins", "-put")
_UPLOAD: Final = ("of streamed uploads that race for a key one wins", "-upload")
_LONG: Final = ("of writers that race for a key with long bodies one wins", "-long")
_LARGE: Final = ("of large uploads that race for a key one wins", "-large")
# A server that looks for the key first and receives the body afterwards lets two writers win. The longer the body, the
# more often: in 2 of 100 rounds with a few bytes, in 9 of 10 with 2 MiB (versitygw 1.7, see docs/stores.md).
_LONG_BYTES: Final = 2 << 20  # one request
_PARTS_BYTES: Final = (8 << 20) + 1  # more than any adapter puts in one request
_LARGE_BYTES: Final = 24 << 20
AT_INIT: Final = (Races(*_PUT, len(_SMALL), False, 6, 6), Races(*_UPLOAD, len(_SMALL), True, 6, 6))
AT_INIT_WITH_THE_BODY: Final = (
    *AT_INIT,
    Races(*_LONG, _LONG_BYTES, False, 1, 8, 1_500),
    Races(*_LARGE, _PARTS_BYTES, True, 0, 3, 2_200),  # skipped on a slow link
)
THOROUGH: Final = (
    Races(*_PUT, len(_SMALL), False, 40, 40),
    Races(*_UPLOAD, len(_SMALL), True, 40, 40),
    Races(*_LONG, _LONG_BYTES, False, 2, 40, 12_000),
    Races(*_LARGE, _LARGE_BYTES, True, 2, 6, 25_000),
)


def probe(store: ObjectStore, probe_id: str, *, thorough: bool = False) -> list[Checked]:
    """Run every check, in order, and return the results. All keys begin with `probe/<probe_id>`.

    `probe_id` is a new id of 32 hex digits. `thorough` runs more races, some with larger bodies. An error that says
    nothing about the store's promises (unreachable, read-only) is raised unchanged.
    """
    place = f"{PROBES}{probe_id}"
    races = THOROUGH if thorough else AT_INIT_WITH_THE_BODY if _decides_with_the_body(store) else AT_INIT
    until = {race: Deadline(race.until_ms) for race in races}
    try:
        return [
            Checked("a new object is there at once, whole", _read_after_write(store, f"{place}-read")),
            *(Checked(race.check, _run(race, until[race], store, f"{place}{race.place}")) for race in races),
            Checked("keys are listed at once, all, and in order", _listing(store, f"{place}-list-")),
            Checked("a deleted object is gone", _delete(store, f"{place}-delete")),
        ]
    finally:
        for leftover in list(store.list_keys(f"{place}-")):
            store.delete(leftover.key)


def _decides_with_the_body(store: ObjectStore) -> bool:
    """True if the store's server picks the winner of a race while it receives the bodies.

    In other stores, a link or rename decides.
    """
    return store.url.startswith(("s3://", "gs://", "abfs://"))


def check_store(store: ObjectStore, probe_id: str) -> None:
    """Raise StoreUnfit if the store can't hold a log; the error names the failed checks. See `probe`."""
    failed = [checked for checked in probe(store, probe_id) if not checked.passed]
    if failed:
        named = "; ".join(f"wanted: {checked.check}, found: {checked.fault}" for checked in failed)
        raise StoreUnfit(f"the store at {store.url} can't hold a log: {named}")


def _read_after_write(store: ObjectStore, key: str) -> str:
    store.put_if_absent(key, _SMALL)
    if bytes(store.get(key)) != _SMALL or store.size(key) != len(_SMALL):
        return "a body or size other than what was written"
    ranges = [(3, 9), (0, 16), (9, 9)]
    if [bytes(body) for body in store.get_ranges(key, ranges)] != [_SMALL[start:end] for start, end in ranges]:
        return "bytes in a ranged read other than those written there"
    try:
        store.get_ranges(key, [(8, 24)])
    except Damaged:
        return ""
    return "a ranged read beyond the end of the object that seemed to succeed"


def _run(races: Races, until: Deadline, store: ObjectStore, prefix: str) -> str:
    """Run the rounds of one kind of race. Return the fault of the first faulty round, or "" if no round is faulty.

    A round is faulty if several writers win, or if the stored body is not that of the writer that won; without a
    winner, if the writer of the stored body got KeyExists. After the first `races.fewest` rounds, no round begins later
    than `until`.
    """
    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(races.most):
            if number >= races.fewest and until.passed():
                break
            race = _race_uploads if races.streamed else _race_puts
            fault = race(store, pool, f"{prefix}-{number}", races.size_bytes)
            if fault:
                return f"{fault} (round {number + 1})"
    return ""


def _race_puts(store: ObjectStore, pool: ThreadPoolExecutor, key: str, size_bytes: int) -> str:
    return _race(store, pool, key, size_bytes, lambda writer: store.put_if_absent(key, _body_of(writer, size_bytes)))


def _race_uploads(store: ObjectStore, pool: ThreadPoolExecutor, key: str, size_bytes: int) -> str:
    with ExitStack() as ended:
        uploads: list[Upload] = [ended.enter_context(store.upload(key)) for _ in range(WRITERS)]
        written = [pool.submit(upload.write, _body_of(writer, size_bytes)) for writer, upload in enumerate(uploads)]
        wait(written)  # an upload must not be aborted while a thread still writes to it
        for write in written:
            write.result()
        return _race(store, pool, key, size_bytes, lambda writer: uploads[writer].publish())


def _body_of(writer: int, size_bytes: int) -> bytes:
    return bytes([writer + 1]) * size_bytes


def _race(
    store: ObjectStore, pool: ThreadPoolExecutor, key: str, size_bytes: int, write: Callable[[int], object]
) -> str:
    start = threading.Barrier(WRITERS, timeout=_MEET_S)

    def won(writer: int) -> bool | None:
        """True if this writer won, False if it got KeyExists, None if it got OutcomeUnknown."""
        start.wait()
        try:
            write(writer)
        except KeyExists:
            return False
        except OutcomeUnknown:
            return None
        return True

    outcomes = list(pool.map(won, range(WRITERS)))
    winners = [writer for writer, outcome in enumerate(outcomes) if outcome]
    try:
        body = store.get(key)
    except KeyNotFound:
        return f"no object, although {len(winners)} of {WRITERS} writers got the answer that they created it"
    owner = body[0] - 1 if len(body) == size_bytes and body == bytes(body[:1]) * size_bytes else None
    if owner is None:
        return f"{len(body)} bytes of several writers instead of {size_bytes} of one"
    if len(winners) > 1:
        return f"{len(winners)} of {WRITERS} writers got the answer that they created the object"
    if outcomes[owner] is False or winners not in ([], [owner]):
        return "the object is not that of the writer whose write was acknowledged"
    return ""


def _listing(store: ObjectStore, prefix: str) -> str:
    keys = [f"{prefix}{number:02}" for number in range(_MANY)]
    for key in reversed(keys):
        store.put_if_absent(key, b"")
    listed = [stored.key for stored in store.list_keys(prefix)]
    if listed != keys:
        return f"{len(listed)} of {_MANY} keys, or not in their order"
    after_last = store.first_key_after(PROBES, keys[-1])  # another probe's key, if any
    if store.first_key_after(PROBES, keys[4]) != keys[5] or (after_last and after_last.startswith(prefix)):
        return "a key other than the next one when asked for the first key after another"
    return ""


def _delete(store: ObjectStore, key: str) -> str:
    store.put_if_absent(key, _SMALL)
    store.delete(key)
    if any(_there(store, key)):
        return "it is still there after it was deleted"
    store.put_if_absent(key, b"again")
    return "" if bytes(store.get(key)) == b"again" else "the old body after it was written again"


def _there(store: ObjectStore, key: str) -> Iterator[bool]:
    """Yield True if the key is still there, else False, by three ways to ask: get, size, first_key_after."""
    for ask in (store.get, store.size):
        try:
            ask(key)
        except KeyNotFound:
            yield False
        else:
            yield True
    yield store.first_key_after(PROBES, key[:-1]) == key
