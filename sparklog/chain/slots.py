"""The race for a slot: whoever wins slot n has the truth at n.

put-if-absent ── created ──► mark absent ──► WON
    │  │                     mark present ─► Voided
    │  └─ exists ──► read the slot: own nonce ──► WON (after the mark check)
    │                               other ──────► LOST: its body is the truth at n
    └─ unknown ──► the same bytes again, then read back, until the deadline
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from sparklog.chain.clock import Deadline
from sparklog.chain.entry import Entry, decode_entry, encode_entry
from sparklog.chain.void_marks import check_not_void
from sparklog.core.errors import (
    KeyExists,
    KeyNotFound,
    Landed,
    OutcomeUnknown,
    RequestTimedOut,
    SparklogError,
    StoreUnavailable,
)
from sparklog.storage.keys import entry_key
from sparklog.storage.object_store import ObjectStore

FIRST_PAUSE_MS = 10
LONGEST_PAUSE_MS = 2_000


class Won(msgspec.Struct, frozen=True):
    """The entry is in its slot, durably."""

    body: bytes


class Lost(msgspec.Struct, frozen=True):
    """Somebody else's entry is in the slot."""

    body: bytes


def claim_slot(store: ObjectStore, entry: Entry, deadline: Deadline) -> Won | Lost:
    """Put `entry` into its slot, or learn who was first.

    Raises Voided (the outcome is unknown until the state was reloaded), OutcomeUnknown (the deadline passed with
    the slot unread), RequestTimedOut (it passed and nothing was ever sent that could land), or the store's own
    error if it surely wrote nothing.
    """
    body = encode_entry(entry)
    key = entry_key(entry.n)
    in_doubt = False
    for pause_ms in pauses():
        try:
            store.put_if_absent(key, body)
            return _certain(Won(body), store, entry)
        except KeyExists:
            try:
                return _whose(store, entry, body)
            except KeyNotFound:
                pass  # a stale answer, or a write that was taken back: whoever put it must show up
            except StoreUnavailable:
                in_doubt = True
        except OutcomeUnknown:
            in_doubt = True
        except StoreUnavailable:
            pass
        except SparklogError as error:
            if in_doubt:
                raise _unknown(key, deadline) from error
            raise
        if deadline.passed():
            if in_doubt:
                raise _unknown(key, deadline)
            raise RequestTimedOut(f"{key} at {store.url} could not be written in {deadline.timeout_ms} ms")
        deadline.clock.pause(pause_ms)
    raise AssertionError("pauses never end")


def _whose(store: ObjectStore, entry: Entry, body: bytes) -> Won | Lost:
    found = bytes(store.get(entry_key(entry.n)))
    if found == body:
        return _certain(Won(body), store, entry)
    check_not_void(store, entry.n)
    # A damaged entry is an error here, before anything is decided from it.
    decode_entry(entry.n, found)
    return Lost(found)


def _certain(won: Won, store: ObjectStore, entry: Entry) -> Won:
    try:
        check_not_void(store, entry.n)
    except StoreUnavailable as error:
        raise OutcomeUnknown(
            f"entry {entry.n} was written to {store.url}, but whether its block still counts can't be read: {error}"
        ) from error
    return won


def _unknown(key: str, deadline: Deadline) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{key} was sent, but who owns it could not be read in {deadline.timeout_ms} ms", landed=Landed.UNKNOWN
    )


def pauses() -> Iterator[float]:
    """Growing, jittered pauses in milliseconds, without end."""
    longest = float(FIRST_PAUSE_MS)
    while True:
        yield random.uniform(longest / 2, longest)
        longest = min(longest * 2, LONGEST_PAUSE_MS)
