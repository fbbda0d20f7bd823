"""Guards of `chain`: the race for a slot, and what is read back."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

GUARDS: Final = (
    Guard(
        "void-after-claim",
        "A slot that was won or lost counts only if its block is not going.",
        "sparklog/chain/slots.py",
        "        if found is not None and _block_counts(store, entry.n):",
        "        if found is not None:",
        (
            "tests/chain/test_slots.py::test_a_win_in_a_marked_block_is_void",
            "tests/chain/test_slots.py::test_a_loss_in_a_marked_block_is_void",
        ),
    ),
    Guard(
        "void-after-read",
        "Entries that were read take effect only if their block is not going.",
        "sparklog/chain/follower.py",
        "                    check_not_void(self.store, first)\n",
        "",
        ("tests/faults/test_void_marks.py::test_a_reader_does_not_follow_a_slot_that_a_stalled_writer_re_created",),
        "memory",
    ),
    Guard(
        "void-after-404",
        "A slot that is not there is the end only if its block is not going.",
        "sparklog/chain/follower.py",
        "for n in range(first + 1, first + len(bodies) + 1):",
        "for n in range(first + 1, first + len(bodies)):",
        ("tests/chain/test_follower.py::test_a_block_that_is_going_behind_the_last_entry_is_not_taken_for_the_end",),
    ),
    Guard(
        "read-back",
        "An entry whose put was in doubt is known as one's own when it is read back.",
        "sparklog/chain/slots.py",
        "            if found == body:",
        "            if found is body:",
        ("tests/chain/test_slots.py::test_ones_own_body_read_back_is_success_however_often_reading_fails",),
    ),
    Guard(
        "nonce",
        "Two writers of equal entries don't both believe that the slot is theirs.",
        "sparklog/chain/committer.py",
        "        nonce = uuid.uuid4().hex",
        '        nonce = "0" * 32',
        ("tests/chain/test_committer.py::test_each_attempt_at_a_slot_has_a_nonce_of_its_own",),
    ),
    Guard(
        "hash-link",
        "An entry follows the bytes that were read before it, or is damage.",
        "sparklog/chain/follower.py",
        "        if entry.previous != self.entry_hash or (",
        "        if (",
        ("tests/chain/test_follower.py::test_an_entry_that_does_not_follow_the_one_before_is_damage",),
    ),
    Guard(
        "entry-checksum",
        "A flipped bit in an entry is found before its JSON is read.",
        "sparklog/chain/framing.py",
        "    if words[2:] != _check_words(payload):",
        "    if False:",
        ("tests/chain/test_entry.py::test_every_flipped_bit_is_a_named_error",),
    ),
    Guard(
        "snapshot-checksum",
        "A flipped bit in a chunk of a snapshot is found before a state is made of it.",
        "sparklog/chain/snapshot.py",
        "    if len(body) != chunk.size_bytes or found != chunk.crc32c:",
        "    if len(body) != chunk.size_bytes:",
        ("tests/chain/test_snapshot.py::test_any_flipped_bit_or_cut_is_a_named_error",),
    ),
    Guard(
        "snapshot-chunk-size",
        "A snapshot does not name a chunk that was there already with another size.",
        "sparklog/chain/snapshot.py",
        "        if found != len(body):",
        "        if False:",
        (
            "tests/chain/test_snapshot.py::"
            "test_a_chunk_that_is_there_already_with_another_size_is_damage_and_is_written_again_when_moved_away",
        ),
    ),
    Guard(
        "beyond-the-end",
        "A missing entry with others behind it is CHAIN_DAMAGED, not the end.",
        "sparklog/chain/follower.py",
        "            self._check_end()\n",
        "",
        ("tests/chain/test_follower.py::test_a_missing_entry_in_the_middle_is_damage_and_nothing_is_written",),
    ),
    Guard(
        "same-chain",
        "A process that rested does not write into a cluster that was made anew at the address.",
        "sparklog/chain/committer.py",
        "        if not self.follower.is_same_chain():",
        "        if False:",
        ("tests/chain/test_committer.py::test_who_comes_back_to_a_place_that_was_made_anew_writes_nothing",),
    ),
)
