"""Making the newest entry, which another process wrote, durable: an answer or a block rests on it.

If `ObjectStore.put_if_absent` finds the key taken, it promises that the object is durable. Then all entries before it
are durable too: those of its block are in the same directory, and nobody writes into a block before the last entry of
the previous block is durable. Its author may have died before it had the copies (`copying.py`).
"""

from __future__ import annotations

from sparklog.chain.chain_requests import Get, Put
from sparklog.chain.head import Head
from sparklog.chain.machine import Steps, check_answered
from sparklog.chain.mirror.mirror_wait import copied
from sparklog.core.errors import KeyExists, SparklogError
from sparklog.storage.keys import entry_key


def settled(head: Head, deadline_ms: int, *, with_copies: bool) -> Steps[int]:
    """Make the newest entry of `head` durable; `with_copies` also on other stores, until `deadline_ms`. Returns its n.

    Its own bytes are put again. If it was deleted as old, a snapshot covers it. Raises the store's errors, and as
    `copied`.
    """
    body: bytes | None = None
    there, _ = yield Get(entry_key(head.n))
    check_answered(there)
    if isinstance(there, bytes | memoryview):
        body = bytes(there)
        reply, _ = yield Put(entry_key(head.n), body)
        if isinstance(reply, SparklogError) and not isinstance(reply, KeyExists):
            raise reply
    if with_copies:
        yield from copied(head, body, deadline_ms)
    return head.n
