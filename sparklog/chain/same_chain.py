"""Whether the chain at an address is still the one that a process has followed. Decides only; the caller reads.

A process that keeps writing does not notice that the place was wiped and another cluster created there. That cluster's
chain is shorter, so an entry of this process would be put behind a gap. So after a silence the newest entry that the
process knows is read again.
"""

from __future__ import annotations

from sparklog.chain.entry import hash_of
from sparklog.chain.head import Head
from sparklog.chain.requests import Get, Now, Reply, Request
from sparklog.core.errors import InconsistentClusterId, KeyNotFound, SparklogError
from sparklog.storage.keys import entry_key

IDLE_MS = 10_000  # after this long without an entry, check that it is still the same chain


def is_long_silent(head: Head, known_ms: int, now: Now) -> bool:
    """Whether to check: the chain was last known to be the same at `known_ms` on the monotonic clock."""
    return head.n >= 0 and now.monotonic_ms - known_ms >= IDLE_MS


def read_newest(head: Head) -> Request:
    """The request whose reply `changed` judges. Catch up first: entries that are gone are covered by a snapshot."""
    return Get(entry_key(head.n))


def changed(head: Head, reply: Reply, url: str) -> SparklogError | None:
    """Why nothing may be written: another chain is at `url`, or it could not be read. None if it is the same chain."""
    match reply:
        case bytes() | memoryview() as body if hash_of(body) == head.entry_hash:
            return None
        case KeyNotFound() | bytes() | memoryview():
            return InconsistentClusterId(
                f"cluster {head.state.chain_id} is no longer at {url}: it was deleted, and maybe created again; "
                "connect again"
            )
        case SparklogError() as error:
            return error
        case _:
            raise TypeError(f"wanted the newest entry or an error, found {reply!r}")
