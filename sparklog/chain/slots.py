"""The race for a slot: whoever wins slot n has the truth at n.

put-if-absent ── created ──────────────► mark absent ──► WON
    │  │                                 mark present ─► Voided
    │  └─ exists ──► read the slot: own ─► the same
    │                             other ─► mark absent ──► LOST: its body is the truth at n
    └─ unknown, or not to be read ──► the same bytes again, until the deadline: OutcomeUnknown
"""

from __future__ import annotations

import msgspec

from sparklog.chain.clock import Deadline, pauses
from sparklog.chain.entry import Entry, decode_entry, encode_entry
from sparklog.chain.void_marks import check_not_void
from sparklog.core.errors import (
    ChainDamaged,
    KeyExists,
    Landed,
    OutcomeUnknown,
    RequestTimedOut,
    SparklogError,
    StoreUnavailable,
)
from sparklog.core.readable import duration
from sparklog.storage.keys import entry_key
from sparklog.storage.object_store import ObjectStore

DAMAGED_READS = 3  # until damage is believed to be in the store, not on the way from it


class Won(msgspec.Struct, frozen=True):
    """The entry is in its slot, durably."""

    body: bytes


class Lost(msgspec.Struct, frozen=True):
    """Somebody else's entry is in the slot."""

    body: bytes


def claim_slot(store: ObjectStore, entry: Entry, deadline: Deadline) -> Won | Lost:
    """Put `entry` into its slot, or learn who was first.

    Raises Voided (the outcome is unknown until the state was reloaded), OutcomeUnknown (the deadline passed with
    the slot or its block's mark unread), RequestTimedOut (it passed and nothing was ever sent that could land), or
    the store's own error if it surely wrote nothing.
    """
    body = encode_entry(entry)
    key = entry_key(entry.n)
    in_doubt = False
    damaged_reads = 0
    for pause_ms in pauses():
        found: bytes | None = None
        try:
            store.put_if_absent(key, body)
            in_doubt, found = True, body
        except KeyExists:
            in_doubt, found = True, _read_back(store, key)  # whose it is shows when it is read: it may be one's own
        except OutcomeUnknown:
            in_doubt = True
        except StoreUnavailable:
            pass
        except SparklogError as error:
            if in_doubt:
                raise _unknown(key, deadline) from error
            raise
        if found is not None and _block_counts(store, entry.n):
            if found == body:
                return Won(body)
            try:
                decode_entry(
                    entry.n, found, store.url
                )  # a damaged entry is an error here, before anything is decided from it
                return Lost(found)
            except ChainDamaged as damaged:
                damaged_reads += 1
                if damaged_reads == DAMAGED_READS:  # and under the damage it may be one's own
                    raise ChainDamaged(damaged.message, landed=Landed.UNKNOWN) from damaged
        if deadline.passed():
            if in_doubt:
                raise _unknown(key, deadline)
            raise RequestTimedOut(f"{key} at {store.url} could not be written in {duration(deadline.timeout_ms)}")
        deadline.clock.pause(pause_ms)
    raise AssertionError("pauses never end")


def _read_back(store: ObjectStore, key: str) -> bytes | None:
    """What is in the slot; None if the store does not say, not yet, or (keys may expire now) no more."""
    try:
        return bytes(store.get(key))
    except SparklogError:
        return None


def _block_counts(store: ObjectStore, n: int) -> bool:
    """True if the block of entry `n` is not marked, False if that can't be read. Raises Voided."""
    try:
        check_not_void(store, n)
    except SparklogError:
        return False
    return True


def _unknown(key: str, deadline: Deadline) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{key} was sent, but whether it is there and counts could not be read in {duration(deadline.timeout_ms)}",
        landed=Landed.UNKNOWN,
    )
