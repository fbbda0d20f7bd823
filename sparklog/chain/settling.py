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
    """Entry `n` and all before it are durable."""

    n: int


class Settling:
    """Makes entry `n` durable."""

    def __init__(self, n: int) -> None:
        self.n = n
        self._is_put = False

    def start(self) -> Request:
        """The first request."""
        return Get(entry_key(self.n))

    def reply(self, reply: Reply) -> Request | Settled | SparklogError:
        """The next request, or the outcome."""
        match reply:
            case bytes() | memoryview() if not self._is_put:
                self._is_put = True
                return Put(entry_key(self.n), bytes(reply))
            case KeyNotFound() if not self._is_put:
                return Settled(self.n)
            case None | KeyExists() if self._is_put:
                return Settled(self.n)
            case SparklogError() as error:
                return error
            case _:
                raise TypeError(f"wanted the entry, then the reply to its put, found {reply!r}")
