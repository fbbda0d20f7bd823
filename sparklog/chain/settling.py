"""Making the newest entry, which another process wrote, durable, as a state machine: an answer or a block rests on it.

READING the entry ── there ──► PUTTING its bytes again ── created, or taken ──► COPYING, if it is wanted ──► Settled
   └── deleted as old: a snapshot covers it ───────────────────────────────────────┘

If `ObjectStore.put_if_absent` finds the key taken, it promises that the object is durable. Then all entries before it
are durable too: those of its block are in the same directory, and nobody writes into a block before the last entry of
the previous block is durable. Its author may have died before it had the copies (`copying.py`).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from sparklog.chain.copying import Copied, Copying
from sparklog.chain.head import Head
from sparklog.chain.requests import Get, Now, Put, Reply, Request
from sparklog.core.errors import KeyExists, KeyNotFound, SparklogError
from sparklog.storage.keys import entry_key


class Phase(StrEnum):
    """What the machine is waiting for, until it gets copies."""

    READING = "reading"
    PUTTING = "putting"


class Settled(msgspec.Struct, frozen=True):
    """Entry `n` and all before it are durable, and have the copies that were wanted."""

    n: int


class Settling:
    """Makes the newest entry of `head` durable; with `copied`, also on other stores, until `deadline_ms`."""

    def __init__(self, head: Head, deadline_ms: int, *, copied: bool) -> None:
        self.phase = Phase.READING
        self._head = head
        self._deadline_ms = deadline_ms
        self._copied = copied
        self._body: bytes | None = None  # None also if it was deleted as old
        self._copying: Copying | None = None

    def start(self) -> Request:
        """The first request."""
        return Get(entry_key(self._head.n))

    def reply(self, reply: Reply, now: Now) -> Request | Settled | SparklogError:
        """The next request, or the outcome."""
        if self._copying is not None:
            outcome = self._copying.reply(reply, now)
            return Settled(self._head.n) if isinstance(outcome, Copied) else outcome
        match self.phase, reply:
            case Phase.READING, bytes() | memoryview():
                self.phase, self._body = Phase.PUTTING, bytes(reply)
                return Put(entry_key(self._head.n), self._body)
            case (Phase.READING, KeyNotFound()) | (Phase.PUTTING, None | KeyExists()):
                return self._copy()
            case _, SparklogError() as error:
                return error
            case _:
                raise TypeError(f"wanted the entry, then the reply to its put, found {reply!r}")

    def _copy(self) -> Request | Settled:
        if not self._copied:
            return Settled(self._head.n)
        self._copying = Copying(self._head, self._body, self._deadline_ms)
        return self._copying.start()
