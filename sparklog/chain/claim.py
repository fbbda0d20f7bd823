"""The race for a slot, as a state machine. The entry that wins slot n is the truth at n.

PUTTING ── created ──────────────────────► LOOKING for the block's mark ── absent ──► Won
   │ ▲ └── exists ──► READING the slot ──►    │  own bytes: the same as created
   │ │                    │                   │  other bytes, mark absent ───────────► Lost: they are the truth at n
   │ └─ PAUSED ◄─── no answer ◄───────────────┤
   │      └── the deadline passed ──► OutcomeUnknown, or RequestTimedOut if nothing was sent that could land
   └── refused for good ──► that error        └── present ──► Voided
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from sparklog.chain.entry import decode_entry
from sparklog.chain.requests import FIRST_PAUSE_MS, Get, Now, Pause, Put, Reply, Request, longer
from sparklog.core.errors import (
    ChainDamaged,
    KeyExists,
    KeyNotFound,
    Landed,
    OutcomeUnknown,
    RequestTimedOut,
    SparklogError,
    StoreUnavailable,
)
from sparklog.core.readable import duration
from sparklog.storage.keys import entry_block, entry_key, void_key

DAMAGED_READS = 3  # damaged reads after which the damage must be in the store, not in transit


class Won(msgspec.Struct, frozen=True):
    """The entry is in its slot, durably."""


class Lost(msgspec.Struct, frozen=True):
    """Another entry, `body`, is in the slot."""

    body: bytes


class Voided(msgspec.Struct, frozen=True):
    """The block is marked as deleted. The outcome is unknown until the state is reloaded."""


Outcome = Won | Lost | Voided | SparklogError


class Phase(StrEnum):
    """What the claim is waiting for."""

    PUTTING = "putting"
    READING = "reading"
    LOOKING = "looking"
    PAUSED = "paused"


class Claim:
    """Puts `body` into slot `n`, or learns which entry was first. `url` is for messages."""

    def __init__(self, n: int, body: bytes, deadline_ms: int, timeout_ms: int, url: str) -> None:
        self.n = n
        self.body = body
        self.phase = Phase.PUTTING
        self._url = url
        self._key = entry_key(n)
        self._deadline_ms, self._timeout_ms = deadline_ms, timeout_ms
        self._pause_ms = FIRST_PAUSE_MS
        self._in_doubt = False  # True once the entry may be in the slot, or may still arrive there
        self._found: bytes | None = None
        self._damaged_reads = 0

    @property
    def is_there(self) -> bool:
        """True if the slot holds this entry. It counts only if its block turns out to have no mark."""
        return self.phase is Phase.LOOKING and self._found == self.body

    def start(self) -> Request:
        """The first request."""
        self.phase = Phase.PUTTING
        return Put(self._key, self.body)

    def reply(self, reply: Reply, now: Now) -> Request | Outcome:
        """The next request, or the outcome."""
        match self.phase:
            case Phase.PUTTING:
                return self._after_put(reply, now)
            case Phase.READING:
                if isinstance(reply, SparklogError):  # no answer, not visible yet, or already deleted
                    return self._again(now)
                self._found = bytes(reply)  # type: ignore[call-overload]
                return self._look()
            case Phase.LOOKING:
                return self._after_look(reply, now)
            case Phase.PAUSED:
                return self.start()

    def _after_put(self, reply: Reply, now: Now) -> Request | Outcome:
        match reply:
            case None:
                self._in_doubt, self._found = True, self.body
                return self._look()
            case KeyExists():
                self._in_doubt = True  # it may be our own entry: reading it will tell
                self.phase = Phase.READING
                return Get(self._key)
            case OutcomeUnknown():
                self._in_doubt = True
                return self._again(now)
            case StoreUnavailable():
                return self._again(now)
            case SparklogError() as error if self._in_doubt:
                unknown = self._unknown()
                unknown.__cause__ = error
                return unknown
            case SparklogError() as error:
                return error
            case _:
                raise TypeError(f"a put is replied to with None or an error, found {reply!r}")

    def _look(self) -> Request:
        self.phase = Phase.LOOKING
        return Get(void_key(entry_block(self.n)))

    def _after_look(self, reply: Reply, now: Now) -> Request | Outcome:
        if not isinstance(reply, SparklogError):
            return Voided()
        if not isinstance(reply, KeyNotFound):
            return self._again(now)
        if self._found is None:
            raise AssertionError("the mark is looked for after the slot was read")
        if self._found == self.body:
            return Won()
        try:
            decode_entry(self.n, self._found, self._url)  # detect damage before anything is decided from the entry
        except ChainDamaged as damaged:
            self._damaged_reads += 1
            if self._damaged_reads < DAMAGED_READS:
                return self._again(now)
            error = ChainDamaged(damaged.message, landed=Landed.UNKNOWN)  # the damaged entry may be our own
            error.__cause__ = damaged
            return error
        except SparklogError as error:
            return error
        return Lost(self._found)

    def _again(self, now: Now) -> Request | Outcome:
        """Put the same bytes again after a pause, unless the deadline has passed."""
        self._found = None
        if now.monotonic_ms < self._deadline_ms:
            pause = Pause(self._pause_ms)
            self._pause_ms = longer(self._pause_ms)
            self.phase = Phase.PAUSED
            return pause
        if self._in_doubt:
            return self._unknown()
        return RequestTimedOut(f"{self._key} at {self._url} could not be written in {duration(self._timeout_ms)}")

    def _unknown(self) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"{self._key} was sent, but whether it is there and counts could not be read in "
            f"{duration(self._timeout_ms)}",
            landed=Landed.UNKNOWN,
        )
