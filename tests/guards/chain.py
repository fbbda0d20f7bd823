"""Guards of `chain`: the race for a slot, and what is read back."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

GUARDS: Final = (
    Guard(
        "void-after-claim",
        "A slot that was won or lost counts only if its block is not going.",
        "sparklog/chain/claim.py",
        "            return Voided()",
        "            pass",
        (
            "tests/chain/test_claim.py::test_a_win_in_a_marked_block_is_void",
            "tests/chain/test_claim.py::test_a_loss_in_a_marked_block_is_void",
        ),
    ),
    Guard(
        "void-after-read",
        "Entries that were read take effect only if their block is not going.",
        "sparklog/chain/catch_up.py",
        "        if any(mark is not None for mark in marks):",
        "        if False:",
        ("tests/faults/test_void_marks.py::test_a_reader_does_not_follow_a_slot_that_a_stalled_writer_re_created",),
        "memory",
    ),
    Guard(
        "void-after-404",
        "A slot that is not there is the end only if its block is not going.",
        "sparklog/chain/catch_up.py",
        "entry_block(first + len(self._bodies)) + 1)",
        "entry_block(first + len(self._bodies) - 1) + 1)",
        ("tests/chain/test_follower.py::test_a_block_that_is_going_behind_the_last_entry_is_not_taken_for_the_end",),
    ),
    Guard(
        "read-back",
        "An entry whose put was in doubt is known as one's own when it is read back.",
        "sparklog/chain/claim.py",
        "        if self._found == self.body:\n            return Won()",
        "        if self._found is self.body:\n            return Won()",
        ("tests/chain/test_claim.py::test_ones_own_body_read_back_is_success_however_often_reading_fails",),
    ),
    Guard(
        "nonce",
        "Two writers of equal entries don't both believe that the slot is theirs.",
        "sparklog/chain/committer.py",
        "self.clock.monotonic_ms(), uuid.uuid4().hex)",
        'self.clock.monotonic_ms(), "0" * 32)',
        ("tests/chain/test_committer.py::test_each_attempt_at_a_slot_has_a_nonce_of_its_own",),
    ),
    Guard(
        "hash-link",
        "An entry follows the bytes that were read before it, or is damage.",
        "sparklog/chain/head.py",
        "        return entry.previous == self.entry_hash and ",
        "        return ",
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
        "        self._check_end()\n",
        "",
        ("tests/chain/test_follower.py::test_a_missing_entry_in_the_middle_is_damage_and_nothing_is_written",),
    ),
    Guard(
        "same-chain",
        "A process that rested does not write into a cluster that was made anew at the address.",
        "sparklog/chain/group_commit.py",
        "            if not self._attempts and self._is_long_silent(now):",
        "            if False:",
        ("tests/chain/test_committer.py::test_who_comes_back_to_a_place_that_was_made_anew_writes_nothing",),
    ),
    Guard(
        "beyond-the-block",
        "The last entry of a block, lost, is damage: later entries are looked for in every block.",
        "sparklog/chain/follower.py",
        "self.store.first_key_after(LOG, entry_key(n))",
        "self.store.first_key_after(entry_key(n + 1).rpartition('/')[0] + '/', entry_key(n))",
        ("tests/chain/test_follower.py::test_a_missing_entry_at_the_end_of_a_block_is_damage_too",),
    ),
    Guard(
        "snapshot-of-another",
        "A snapshot of a cluster that was made anew at the same place is no state of this one.",
        "sparklog/chain/catch_up.py",
        "            if self.head.n >= 0 and reply.state.chain_id != self.head.state.chain_id:",
        "            if False:",
        ("tests/chain/test_simulation.py::test_any_interleaving_of_any_faults_tells_the_truth[0]",),
    ),
    Guard(
        "interrupted-in-doubt",
        "What a caller had sent when another one was interrupted may have landed.",
        "sparklog/chain/group_commit.py",
        "            each.doubt()",
        "            each.sent = False",
        ("tests/chain/test_simulation.py::test_any_interleaving_of_any_faults_tells_the_truth[0]",),
    ),
)
