"""Tries what sparklog asks of a store on the store itself: emulators and proxies differ, and some answer 200 to both.

Every check works under `probe/<id>-…` and removes what it wrote. A store that fails one can not hold a log: two writers
would both believe that an entry is theirs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from sparklog.core.errors import Damaged, KeyExists, KeyNotFound, OutcomeUnknown, SparklogError, StoreUnfit
from sparklog.storage.keys import PROBES
from sparklog.storage.object_store import ObjectStore

WRITERS: Final = 8
ROUNDS: Final = 6  # of each kind of race at init: a server that lets two win does so in more than half of them
THOROUGH_ROUNDS: Final = 40
LARGE_BYTES: Final = 24 << 20  # more than any adapter puts in one request
_SMALL: Final = b"0123456789abcdef"
_MANY: Final = 12


@dataclass(frozen=True, slots=True)
class Checked:
    """One check: `found` is "" if the store passed, else what it did instead."""

    check: str
    found: str

    @property
    def passed(self) -> bool:
        return not self.found


def probe(store: ObjectStore, probe_id: str, *, thorough: bool = False) -> list[Checked]:
    """Every check, in order, under keys that nobody else uses. `probe_id` is a new id of 32 hex digits.

    An error that is no verdict on the store (it can't be reached, it may not be written) is raised as it is.
    `thorough` races more often, and with bodies so large that adapters write them in parts.
    """
    place = f"{PROBES}{probe_id}"
    rounds = THOROUGH_ROUNDS if thorough else ROUNDS
    checks: list[tuple[str, Callable[[], str]]] = [
        ("a new object is there at once, whole", lambda: _read_after_write(store, f"{place}-read")),
        ("of writers that race for a key one wins", lambda: _races(store, f"{place}-put", rounds, len(_SMALL), False)),
        (
            "of streamed uploads that race for a key one wins",
            lambda: _races(store, f"{place}-upload", rounds, len(_SMALL), True),
        ),
        ("keys are listed at once, all, and in order", lambda: _listing(store, f"{place}-list-")),
        ("a deleted object is gone", lambda: _delete(store, f"{place}-delete")),
    ]
    if thorough:
        large = f"{place}-large"
        checks.append(
            ("of large uploads that race for a key one wins", lambda: _races(store, large, 2, LARGE_BYTES, True))
        )
    try:
        return [Checked(check, run()) for check, run in checks]
    finally:
        for each in list(store.list_keys(f"{place}-")):
            store.delete(each.key)


def check_store(store: ObjectStore, probe_id: str) -> None:
    """Refuse a store that can't hold a log. Raises StoreUnfit that names what failed, and what reaching it raises."""
    failed = [each for each in probe(store, probe_id) if not each.passed]
    if failed:
        named = "; ".join(f"wanted: {each.check}, found: {each.found}" for each in failed)
        raise StoreUnfit(f"the store at {store.url} can't hold a log: {named}")


def _read_after_write(store: ObjectStore, key: str) -> str:
    store.put_if_absent(key, _SMALL)
    if bytes(store.get(key)) != _SMALL or store.size(key) != len(_SMALL):
        return "another body or size than was written"
    ranges = [(3, 9), (0, 16), (9, 9)]
    if [bytes(each) for each in store.get_ranges(key, ranges)] != [_SMALL[start:end] for start, end in ranges]:
        return "other bytes in a ranged read than were written there"
    try:
        store.get_ranges(key, [(8, 24)])
    except Damaged:
        return ""
    return "a ranged read beyond the end of the object that seemed to succeed"


def _races(store: ObjectStore, prefix: str, rounds: int, size_bytes: int, streamed: bool) -> str:
    """The first round in which not exactly one writer won, or its body is not what is there."""
    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(rounds):
            found = _race(store, pool, f"{prefix}-{number}", size_bytes, streamed)
            if found:
                return f"{found} (round {number + 1} of {rounds})"
    return ""


def _race(store: ObjectStore, pool: ThreadPoolExecutor, key: str, size_bytes: int, streamed: bool) -> str:
    start = threading.Barrier(WRITERS)

    def write(writer: int) -> bool | None:
        """Whether this writer won, None if it can't know."""
        body = bytes([writer + 1]) * size_bytes
        start.wait()
        try:
            if streamed:
                with store.upload(key) as upload:
                    upload.write(body)
                    upload.publish()
            else:
                store.put_if_absent(key, body)
        except KeyExists:
            return False
        except OutcomeUnknown:
            return None
        return True

    told = list(pool.map(write, range(WRITERS)))
    winners = [writer for writer, won in enumerate(told) if won]
    body = store.get(key)
    owner = body[0] - 1 if len(body) == size_bytes and body == bytes(body[:1]) * size_bytes else None
    if owner is None:
        return f"{len(body)} bytes of several writers instead of {size_bytes} of one"
    if len(winners) > 1:
        return f"{len(winners)} of {WRITERS} writers were told that they had created the object"
    if winners != [owner] and told[owner] is not None:
        return "the object is not the one of the writer who was told that it had created it"
    return ""


def _listing(store: ObjectStore, prefix: str) -> str:
    keys = [f"{prefix}{number:02}" for number in range(_MANY)]
    for key in reversed(keys):
        store.put_if_absent(key, b"")
    found = [each.key for each in store.list_keys(prefix)]
    if found != keys:
        return f"{len(found)} of {_MANY} keys, or not in their order"
    behind_last = store.first_key_after(PROBES, keys[-1])  # another probe's, if any
    if store.first_key_after(PROBES, keys[4]) != keys[5] or (behind_last and behind_last.startswith(prefix)):
        return "another key than the next one when asked for the first behind a key"
    return ""


def _delete(store: ObjectStore, key: str) -> str:
    store.put_if_absent(key, _SMALL)
    store.delete(key)
    if any(_there(store, key)):
        return "it still there after it was deleted"
    store.put_if_absent(key, b"again")
    return "" if bytes(store.get(key)) == b"again" else "the old body when it was written again"


def _there(store: ObjectStore, key: str) -> Iterator[bool]:
    """Whether the key is still there, by each way of asking."""
    for ask in (store.get, store.size):
        try:
            ask(key)
        except KeyNotFound:
            yield False
        else:
            yield True
    yield store.first_key_after(PROBES, key[:-1]) == key


def failure_of(error: SparklogError) -> Checked:
    """A store that could not be probed at all, as a row beside the others."""
    return Checked("it answers, and can be written", str(error))
