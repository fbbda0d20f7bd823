"""The check that the chain at an address is still the one that a process has followed.

A put does not show that the metadata was wiped and another cluster created at the same address: the chain of that
cluster is shorter, so the slot is free, and the entry would land behind a gap. So before it continues after a silence
(IDLE_MS without an entry), a process reads the newest entry that it knows once more. If that entry is gone or differs,
and its block has no void mark, this is another chain. Comparing chain ids would not be enough: metadata that was set
back to an older backup has the same id, but other entries.
"""

from __future__ import annotations

from sparklog.chain.chain_requests import ChainMachine, Get, LoadSnapshot, Now, check_answered
from sparklog.chain.entry import hash_of
from sparklog.chain.head import Head
from sparklog.core.errors import InconsistentClusterId
from sparklog.storage.keys import entry_block, entry_key, void_key

IDLE_MS = 10_000  # after this long without an entry, check that it is still the same chain


def is_long_silent(head: Head, known_ms: int, now: Now) -> bool:
    """True if it is time to check with `same_chain`: the chain has an entry, and IDLE_MS have passed since `known_ms`.

    `known_ms` is when the chain was last known to be the same, on the monotonic clock.
    """
    return head.n >= 0 and now.monotonic_ms - known_ms >= IDLE_MS


def same_chain(head: Head, url: str) -> ChainMachine[Head]:
    """Check that the chain at `url` is the one whose head is `head`, which has at least one entry.

    Returns `head`, or the head of the newest snapshot if the entry of `head` was deleted as old. Raises
    InconsistentClusterId for another chain, and the store's errors. After any error nothing may be written.
    """
    body, _ = yield Get(entry_key(head.n))
    check_answered(body)
    if isinstance(body, bytes | memoryview) and hash_of(body) == head.entry_hash:
        return head
    mark, _ = yield Get(void_key(entry_block(head.n)))
    check_answered(mark)
    if isinstance(mark, bytes | memoryview):  # the entry was deleted as old
        newest, _ = yield LoadSnapshot()
        check_answered(newest)
        if isinstance(newest, Head) and newest.state.chain_id == head.state.chain_id and newest.n >= head.n:
            return newest
    raise InconsistentClusterId(
        f"cluster {head.state.chain_id} is no longer at {url}: it was deleted, and maybe created again; connect again"
    )
