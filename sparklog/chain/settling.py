"""Making an entry of another process durable, as a state machine: before an answer or a new block rests on it.

READING the entry ── there ──► PUTTING its bytes again ── created, or taken ──► Settled
   └── deleted as old: a snapshot covers it ──► Settled

If `ObjectStore.put_if_absent` finds the key taken, it promises that the object is durable. Then all entries before it
are durable too: those of its block are in the same directory, and nobody writes into a block before the last entry of
the previous block is durable.
"""

from __future__ import annotations

import msgspec

from sparklog.chain.requests import Get, Put, Reply, Request
from sparklog.core.errors import KeyExists, KeyNotFound, SparklogError
from sparklog.storage.keys import entry_key


class Settled(msgspec.Struct, frozen=True):
    """Entry `n` and all before it are durable. `body` is that of the entry, None if it was deleted as old."""

    n: int
    body: bytes | None


class Settling:
    """Makes entry `n` durable."""

    def __init__(self, n: int) -> None:
        self.n = n
        self._body: bytes | None = None

    def start(self) -> Request:
        """The first request."""
        return Get(entry_key(self.n))

    def reply(self, reply: Reply) -> Request | Settled | SparklogError:
        """The next request, or the outcome."""
        match reply:
            case bytes() | memoryview() if self._body is None:
                self._body = bytes(reply)
                return Put(entry_key(self.n), self._body)
            case KeyNotFound() if self._body is None:
                return Settled(self.n, None)
            case None | KeyExists() if self._body is not None:
                return Settled(self.n, self._body)
            case SparklogError() as error:
                return error
            case _:
                raise TypeError(f"wanted the entry, then the reply to its put, found {reply!r}")
