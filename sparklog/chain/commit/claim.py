"""The race for a slot: the first entry that is put into slot n wins, and is entry n of the chain.

Put the entry. If the slot is taken, read the entry there. Then look for the void mark of the slot's block. Without a
void mark the slot is won or lost; with one, the outcome is unknown. If any of these requests gets no answer, start
again with the put, which changes nothing if the entry has landed.
"""

from __future__ import annotations

import msgspec

from sparklog.chain.chain_requests import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, ChainMachine, Get, Now, Pause, Put
from sparklog.chain.entry import decode_entry
from sparklog.core.describe.readable import duration
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
from sparklog.core.pauses import longer
from sparklog.storage.keys import entry_block, entry_key, void_key

DAMAGED_READS = 3  # damaged reads after which the damage must be in the store, not in transit


class Won(msgspec.Struct, frozen=True):
    """The entry is in its slot, durably."""


class Lost(msgspec.Struct, frozen=True):
    """Another entry, `body`, is in the slot."""

    body: bytes


class Voided(msgspec.Struct, frozen=True):
    """The slot's block has a void mark. Reload the state from a snapshot to learn whether the entry counts."""


class Claim:
    """Puts `body` into slot `n`, or learns which entry is there. `deadline_ms` is on the monotonic clock.

    `timeout_ms` and `url` are for messages.

    `is_there`: True once the slot is known to hold this entry. The entry counts only if its block has no void mark.
    """

    def __init__(self, n: int, body: bytes, deadline_ms: int, timeout_ms: int, url: str) -> None:
        self.n = n
        self.body = body
        self.is_there = False
        self._url = url
        self._key = entry_key(n)
        self._deadline_ms, self._timeout_ms = deadline_ms, timeout_ms
        self._in_doubt = False  # True once the entry may be in the slot, or may still arrive there

    def steps(self) -> ChainMachine[Won | Lost | Voided]:
        """Put the entry, and return the outcome.

        If there is none by the deadline, raises OutcomeUnknown if the entry may have landed, else RequestTimedOut.
        Raises ChainDamaged if the slot holds damaged bytes. Raises an error of the store that a retry can't fix; its
        `landed` is UNKNOWN if the entry may have landed before that error.
        """
        pause_ms = FIRST_PAUSE_MS
        damaged_reads = 0
        while True:
            in_slot, now = yield from self._put()
            if in_slot is not None:
                self.is_there = in_slot == self.body
                mark, now = yield Get(void_key(entry_block(self.n)))
                if not isinstance(mark, SparklogError):
                    return Voided()
                if isinstance(mark, KeyNotFound):
                    if in_slot == self.body:
                        return Won()
                    try:
                        decode_entry(self.n, in_slot, self._url)  # before any decision relies on the entry
                        return Lost(in_slot)
                    except ChainDamaged as damaged:
                        damaged_reads += 1
                        if damaged_reads == DAMAGED_READS:  # the damaged entry may be our own
                            raise damaged.perhaps_landed() from damaged
                self.is_there = False
            if now.monotonic_ms >= self._deadline_ms:
                raise self._late()
            yield Pause(pause_ms)
            pause_ms = longer(pause_ms, LONGEST_PAUSE_MS)

    def _put(self) -> ChainMachine[tuple[bytes | None, Now]]:
        """Put the entry. Return the body in the slot, or None if that is not known, and the time of the last reply."""
        reply, now = yield Put(self._key, self.body)
        match reply:
            case None:
                self._in_doubt = True
                return self.body, now
            case KeyExists():
                self._in_doubt = True  # it may be our own entry: read it to learn that
                in_slot, now = yield Get(self._key)
                # An error: no answer, not visible yet, or already deleted.
                return None if isinstance(in_slot, SparklogError) else bytes(in_slot), now  # type: ignore[call-overload]
            case OutcomeUnknown():
                self._in_doubt = True
                return None, now
            case StoreUnavailable():
                return None, now
            case SparklogError() as error if self._in_doubt:
                raise error.perhaps_landed() from error
            case SparklogError() as error:
                raise error
            case _:
                raise TypeError(f"a put is replied to with None or an error, found {reply!r}")

    def _late(self) -> SparklogError:
        if self._in_doubt:
            return self._unknown()
        return RequestTimedOut(f"{self._key} at {self._url} could not be written in {duration(self._timeout_ms)}")

    def _unknown(self) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"{self._key} was sent, but its outcome could not be read in {duration(self._timeout_ms)}",
            landed=Landed.UNKNOWN,
        )
