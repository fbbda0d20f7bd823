"""The guards of the deletion of old entries."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_ENTRIES = "tests/chain/test_old_entries.py::"
_METADATA = "tests/maintenance/space/test_old_metadata.py::"
_DELETION = "sparklog/chain/old_entries.py"

GUARDS: Final[tuple[Guard, ...]] = (
    Guard(
        "old-mark-first",
        "The mark of a block is there before the first of its entries goes.",
        _DELETION,
        "                put(store, change.key, change.body)\n",
        "                pass\n",
        (f"{_ENTRIES}test_each_mark_is_put_before_the_entries_of_its_block_go_and_the_oldest_block_goes_first",),
    ),
    Guard(
        "old-floor",
        "Entries whose results can still be asked for stay.",
        _DELETION,
        "min(entry_block(oldest.floor), complete - 1)",
        "complete - 1",
        (f"{_ENTRIES}test_a_block_above_floor_stays_and_a_result_in_doubt_is_read_back",),
    ),
    Guard(
        "old-next-block",
        "A block goes only once the block after it is complete, and covered by a snapshot.",
        _DELETION,
        "min(entry_block(oldest.floor), complete - 1)",
        "min(entry_block(oldest.floor), complete)",
        (f"{_ENTRIES}test_a_block_goes_if_floor_has_passed_it_and_the_oldest_snapshot_covers_the_block_after_it",),
    ),
    Guard(
        "old-covered",
        "Blocks go only while the snapshot that covers them is there.",
        _DELETION,
        "        if not exists(store, old.covered_by):\n            return\n",
        "",
        (f"{_ENTRIES}test_without_the_snapshot_that_covers_them_no_more_blocks_go",),
    ),
    Guard(
        "old-owner",
        "Nothing of a lost chain is deleted block by block once it was restored.",
        _DELETION,
        "        check()\n",
        "",
        (f"{_ENTRIES}test_a_chain_of_another_owner_loses_no_more_blocks",),
    ),
    Guard(
        "old-owner-snapshots",
        "No snapshot of a lost chain is deleted where a restore has begun.",
        "sparklog/maintenance/space/old_metadata.py",
        "            place.check()\n",
        "",
        (f"{_METADATA}test_nothing_of_the_lost_chain_is_deleted_where_a_restore_has_begun",),
    ),
    Guard(
        "old-mark-of-all",
        "A restore takes a block for deleted only if no store has it any more.",
        "sparklog/chain/mirror/mirrored_chain.py",
        "        if key.startswith(VOID):\n            return self._void_mark(key)\n",
        "",
        (f"{_METADATA}test_a_block_counts_as_deleted_in_a_restore_only_if_no_store_has_it",),
    ),
    Guard(
        "old-chunk-of-copy",
        "A copied snapshot is whole, also if vacuum deleted one of its chunks meanwhile.",
        "sparklog/chain/mirror/mirror.py",
        "        try:\n            self._put_chunks(manifest)\n        except KeyNotFound:",
        "        try:\n            pass\n        except KeyNotFound:",
        ("tests/chain/mirror/test_mirrors.py::test_a_copied_snapshot_is_whole_if_vacuum_takes_a_chunk_meanwhile",),
    ),
    Guard(
        "old-shown",
        "What a stalled writer put into a deleted block is not shown as an entry.",
        "sparklog/chain/follow/stored_entries.py",
        "if entry_block(stored.entry.n) not in deleted)",
        "if True)",
        (f"{_ENTRIES}test_entries_that_a_stalled_writer_put_back_are_not_shown",),
    ),
    Guard(
        "old-same-chain",
        "A process whose newest entry was deleted does not take its cluster for another one.",
        "sparklog/chain/follow/same_chain.py",
        "        if isinstance(newest, Head) and ",
        "        if False and ",
        (
            f"{_ENTRIES}test_the_process_is_still_at_its_own_chain_when_its_newest_entry_was_deleted",
            f"{_ENTRIES}test_a_process_that_slept_while_its_newest_entry_was_deleted_writes_on",
        ),
    ),
)
