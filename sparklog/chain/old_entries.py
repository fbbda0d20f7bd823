"""Deletes old blocks of entries, each after its void mark was put.

    1. decide which blocks to delete (pure)
    2. for each block, oldest first: check that the snapshot that covers it is still there, put the void mark, list the
       block, and delete its entries by name

A block may be deleted once FLOOR has passed all of it, and the oldest snapshot that is kept covers the block and the
next one. Then opening the chain reads no entry of the block, and no command in doubt needs an entry of it for its
result. The mark is put before the first entry is deleted. So a process that still reads or writes in the block finds
the mark, and starts again at the newest snapshot.

A run that is killed leaves a mark and some of the entries. The next run begins at the oldest entry that exists, so it
deletes these entries. In the same way, it deletes entries that a stalled writer has put into a block after its
deletion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from sparklog.chain.mirror.mirror import put
from sparklog.chain.snapshot.old_snapshots import Found, oldest_kept
from sparklog.core.errors import ChainDamaged
from sparklog.storage.keys import (
    LOG,
    block_entries,
    entry_block,
    entry_block_prefix,
    entry_key,
    parse_entry_key,
    parse_snapshot_key,
    void_key,
)
from sparklog.storage.object_store import ObjectStore, StoredKey, exists

DELETED_AT_ONCE = 4_096  # entries
KEYS_PER_REQUEST = 1_000


class OldBlocks(msgspec.Struct, frozen=True):
    """The blocks before block `end`: they may be deleted as long as the snapshot under the key `covered_by` exists."""

    end: int = 0
    covered_by: str = ""


class OldEntries(msgspec.Struct, frozen=True):
    """Entries that may be deleted: all that are left of a block, or some of them."""

    block: int
    entries: tuple[StoredKey, ...]

    @property
    def size_bytes(self) -> int:
        """Total size of these entries."""
        return sum(stored.size_bytes for stored in self.entries)

    @property
    def requests(self) -> int:
        """Approximate number of requests to delete these entries, with up to KEYS_PER_REQUEST keys in a request."""
        return 4 + 2 * -(-len(self.entries) // KEYS_PER_REQUEST)


class PutMark(msgspec.Struct, frozen=True):
    """An instruction to put the void mark of `block` if it is absent, before the entries of the block are deleted."""

    block: int

    @property
    def key(self) -> str:
        """Key of the void mark."""
        return void_key(self.block)

    @property
    def body(self) -> bytes:
        """Content of the mark: human-readable text. No process reads it, only the presence of the mark counts."""
        numbers = block_entries(self.block)
        return f"entries {numbers.start} to {numbers[-1]} are being deleted, or are gone\n".encode()


def decide_blocks(found: Found) -> OldBlocks:
    """Return the blocks that may be deleted, given the stored snapshots: none if fewer than KEPT of them are whole."""
    oldest = oldest_kept(found)
    if oldest is None or oldest.floor is None:
        return OldBlocks()
    n = parse_snapshot_key(oldest.stored.key)
    complete = entry_block(n + 1)  # the first block that the snapshot does not cover whole
    return OldBlocks(max(0, min(entry_block(oldest.floor), complete - 1)), oldest.stored.key)


def blocks_found(store: ObjectStore, end: int) -> Iterator[OldEntries]:
    """Yield the blocks with a number below `end` that still have entries, oldest first.

    Raises ChainDamaged, StoreUnavailable.
    """
    after: str | None = LOG
    while after is not None:
        first = store.first_key_after(LOG, after)
        if first is None or (block := entry_block(parse_entry_key(first))) >= end:
            return
        yield OldEntries(block, tuple(filter(_is_entry, store.list_keys(entry_block_prefix(block)))))
        after = entry_key(block_entries(block)[-1])


def deletion(
    store: ObjectStore, old: OldBlocks, check: Callable[[], None] = lambda: None
) -> Iterator[PutMark | OldEntries]:
    """Yield the changes that delete `old`: put a void mark, or delete entries by name.

    Perform each change before taking the next one. `check` is called before each block, and raises if nothing more may
    be deleted. Ends early if the snapshot that covers the blocks is gone: another run has kept only newer ones and
    continues the work, or the store was cleared. Raises the store's errors.
    """
    for old_entries in blocks_found(store, old.end):
        check()
        if not exists(store, old.covered_by):
            return
        yield PutMark(old_entries.block)
        for at in range(0, len(old_entries.entries), DELETED_AT_ONCE):
            yield OldEntries(old_entries.block, old_entries.entries[at : at + DELETED_AT_ONCE])


def delete_blocks(store: ObjectStore, old: OldBlocks, check: Callable[[], None] = lambda: None) -> Iterator[OldEntries]:
    """Delete the blocks of `old`. Yields each group of entries once it is deleted. Raises the store's errors.

    `check` is called before each block, and raises if nothing more may be deleted.
    """
    for change in deletion(store, old, check):
        match change:
            case PutMark():
                put(store, change.key, change.body)
            case OldEntries():
                store.delete_many([stored.key for stored in change.entries])
                yield change


def _is_entry(stored: StoredKey) -> bool:
    try:
        parse_entry_key(stored.key)
    except ChainDamaged:  # it is not sparklog's
        return False
    return True
