"""Void marks: "this block of entries is going or gone". What was read of such a block is void.

Without the look for a mark after each success, a stalled writer could re-create a deleted slot: it would count
an entry as written that nobody will ever read.
"""

from __future__ import annotations

from sparklog.core.errors import KeyNotFound
from sparklog.storage.keys import entry_block, void_key
from sparklog.storage.object_store import ObjectStore


class Voided(Exception):
    """The block was marked: reload from the newest snapshot, look the command up, go on under the same id."""


def check_not_void(store: ObjectStore, n: int) -> None:
    """Raise Voided if the block of entry `n` is marked; StoreUnavailable if that can't be told."""
    block = entry_block(n)
    try:
        store.get(void_key(block))
    except KeyNotFound:
        return
    raise Voided(f"block {block} of the metadata chain is marked as deleted")
