"""Makes the newest entry durable if another process wrote it and an answer or a new block depends on it.

If `ObjectStore.put_if_absent` raises KeyExists, it promises that the object is durable. Then all entries before it are
durable too: those of its block are in the same directory, and no process writes into a block before the last entry of
the previous block is durable. The author of the entry may have died before it put the entry on mirrors, so it is put
there as well (`mirror_wait.py`).
"""

from __future__ import annotations

from sparklog.chain.chain_requests import ChainMachine, Get, Put, check_answered
from sparklog.chain.head import Head
from sparklog.chain.mirror.mirror_wait import mirrored
from sparklog.core.errors import KeyExists, SparklogError
from sparklog.storage.keys import entry_key


def made_durable(head: Head, deadline_ms: int, *, with_mirrors: bool) -> ChainMachine[int]:
    """Make the newest entry of `head` durable by putting its own bytes again, and return its number.

    With `with_mirrors`, also put it on mirrors, trying until `deadline_ms`. An entry that was deleted as old is not put
    again, since a snapshot covers it. Raises the store's errors, and what `mirror_wait.mirrored` raises.
    """
    body: bytes | None = None
    stored, _ = yield Get(entry_key(head.n))
    check_answered(stored)
    if isinstance(stored, bytes | memoryview):
        body = bytes(stored)
        reply, _ = yield Put(entry_key(head.n), body)
        if isinstance(reply, SparklogError) and not isinstance(reply, KeyExists):
            raise reply
    if with_mirrors:
        yield from mirrored(head, body, deadline_ms)
    return head.n
