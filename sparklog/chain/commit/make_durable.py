"""Makes the newest entry durable, before a command is answered from it or the next block begins.

Another process may have written the entry, and died before the entry was durable or on mirrors. So the entry is put
again. If `ObjectStore.put_if_absent` then raises KeyExists, it promises that the object is durable. All entries before
it are then durable too: those of its block are in the same directory, and no process writes into a block before the
last entry of the previous block is durable. The entry is also put on mirrors, if any are wanted (`mirror_wait.py`).
"""

from __future__ import annotations

from sparklog.chain.chain_requests import ChainMachine, Get, Put, check_answered
from sparklog.chain.head import Head
from sparklog.chain.mirror.mirror_wait import mirrored
from sparklog.core.errors import KeyExists, SparklogError
from sparklog.storage.keys import entry_key


def made_durable(head: Head, deadline_ms: int, *, with_mirrors: bool) -> ChainMachine[int]:
    """Make the newest entry of `head` durable by putting its own bytes again, and return its number.

    If `with_mirrors`, also put it on mirrors, and repeat that until `deadline_ms`, on the monotonic clock, if it fails.
    An entry that was deleted as old is not put again, since a snapshot covers it. Raises the store's errors, and what
    `mirror_wait.mirrored` raises.
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
