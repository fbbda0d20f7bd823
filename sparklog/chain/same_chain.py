"""Whether the chain at an address is still the one that a process has followed, as a state machine.

READING the newest entry that it knows ── the same bytes ──► SameChain
   └── gone, or other bytes ──► LOOKING for the void mark of its block ── absent ──► InconsistentClusterId
          └── present: it was deleted as old ──► LOADING the newest snapshot
                 ├── newer, and of this chain ──► SameChain: the process goes on from there
                 └── of another chain, or none ──► InconsistentClusterId

A process that keeps writing does not notice that the place was wiped and another cluster created there. That cluster's
chain is shorter, so an entry of this process would be put behind a gap. So after a silence the newest entry that the
process knows is read again. The mark matters: a place that was set back to an older backup has the same chain id, but
other entries.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from sparklog.chain.entry import hash_of
from sparklog.chain.head import Head
from sparklog.chain.requests import Get, LoadSnapshot, Now, Reply, Request
from sparklog.core.errors import InconsistentClusterId, KeyNotFound, SparklogError
from sparklog.storage.keys import entry_block, entry_key, void_key

IDLE_MS = 10_000  # after this long without an entry, check that it is still the same chain


class Phase(StrEnum):
    """What the machine is waiting for."""

    READING = "reading"
    LOOKING = "looking"
    LOADING = "loading"


class SameChain(msgspec.Struct, frozen=True):
    """It is the same chain. `head` is the one to go on from, newer if entries were deleted as old."""

    head: Head


def is_long_silent(head: Head, known_ms: int, now: Now) -> bool:
    """Whether to check: the chain was last known to be the same at `known_ms` on the monotonic clock."""
    return head.n >= 0 and now.monotonic_ms - known_ms >= IDLE_MS


class ChainCheck:
    """Checks that the chain at `url` is the one whose head is `head`, which has at least one entry."""

    def __init__(self, head: Head, url: str) -> None:
        self.phase = Phase.READING
        self._head = head
        self._url = url

    def start(self) -> Request:
        """The first request."""
        return Get(entry_key(self._head.n))

    def reply(self, reply: Reply) -> Request | SameChain | SparklogError:
        """The next request, or the outcome: an error means that nothing may be written."""
        if isinstance(reply, SparklogError) and not isinstance(reply, KeyNotFound):
            return reply
        match self.phase, reply:
            case Phase.READING, bytes() | memoryview() as body if hash_of(body) == self._head.entry_hash:
                return SameChain(self._head)
            case Phase.READING, _:
                self.phase = Phase.LOOKING
                return Get(void_key(entry_block(self._head.n)))
            case Phase.LOOKING, bytes() | memoryview():
                self.phase = Phase.LOADING
                return LoadSnapshot()
            case Phase.LOADING, Head() as newest if self._leads_on(newest):
                return SameChain(newest)
            case _:
                return self._another()

    def _leads_on(self, newest: Head) -> bool:
        """Whether the newest snapshot is of this chain, and covers the entry that was deleted."""
        return newest.state.chain_id == self._head.state.chain_id and newest.n >= self._head.n

    def _another(self) -> InconsistentClusterId:
        return InconsistentClusterId(
            f"cluster {self._head.state.chain_id} is no longer at {self._url}: it was deleted, and maybe created "
            "again; connect again"
        )
