"""Guards of `chain`: the race for a slot, and what is read from the chain."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

GUARDS: Final = (
    Guard(
        "void-after-claim",
        "A win or a loss counts only if the slot's block is not being deleted.",
        "sparklog/chain/commit/claim.py",
        "                if not isinstance(mark, SparklogError):",
        "                if False:",
        (
            "tests/chain/commit/test_claim.py::test_a_win_in_a_marked_block_is_void",
            "tests/chain/commit/test_claim.py::test_a_loss_in_a_marked_block_is_void",
        ),
    ),
    Guard(
        "found-behind-snapshot",
        "An entry that was found at a slot is not applied behind a snapshot that was loaded since.",
        "sparklog/chain/follow/catch_up.py",
        "            head, bodies = newer, []  # the known body is older than the snapshot",
        "            head = newer",
        ("tests/chain/follow/test_catch_up.py::test_an_entry_that_was_found_does_not_count_behind_a_snapshot",),
    ),
    Guard(
        "void-after-read",
        "Entries that were read take effect only if their block is not being deleted.",
        "sparklog/chain/follow/catch_up.py",
        "    if any(mark is not None for mark in marks):",
        "    if False:",
        ("tests/faults/test_void_marks.py::test_a_reader_does_not_follow_a_slot_that_a_stalled_writer_re_created",),
        "memory",
    ),
    Guard(
        "void-after-404",
        "An empty slot is the end of the chain only if its block is not being deleted.",
        "sparklog/chain/follow/catch_up.py",
        "entry_block(first + len(bodies)) + 1)",
        "entry_block(first + len(bodies) - 1) + 1)",
        (
            "tests/chain/follow/test_follower.py::test_a_block_that_is_going_behind_the_last_entry_is_not_taken_for_the_end",
        ),
    ),
    Guard(
        "read-back",
        "After a put in doubt, a process that reads its own entry back knows that it has won.",
        "sparklog/chain/commit/claim.py",
        "                    if in_slot == self.body:",
        "                    if in_slot is self.body:",
        ("tests/chain/commit/test_claim.py::test_ones_own_body_read_back_is_success_however_often_reading_fails",),
    ),
    Guard(
        "full-after-doubt",
        "A full store ends a command in doubt at once, not when its time is over.",
        "sparklog/chain/commit/claim.py",
        "                raise error.perhaps_landed() from error",
        "                raise self._unknown() from error",
        (
            "tests/chain/commit/test_claim.py::"
            "test_a_full_store_is_its_own_error_but_after_a_put_in_doubt_the_entry_may_have_landed",
        ),
    ),
    Guard(
        "refused-in-doubt",
        "A refusal of the store keeps its code, whatever became of an earlier attempt.",
        "sparklog/chain/commit/command_group.py",
        "        if maybe and isinstance(error, _REFUSALS):",
        "        if False:",
        ("tests/chain/commit/test_committer.py::test_a_refusal_of_the_store_ends_a_command_in_doubt_at_once",),
    ),
    Guard(
        "nonce",
        "Two writers of equal entries do not both believe that they have won the slot.",
        "sparklog/chain/commit/committer.py",
        "self.clock.monotonic_ms(), new_id())",
        'self.clock.monotonic_ms(), "0" * 32)',
        ("tests/chain/commit/test_committer.py::test_each_attempt_at_a_slot_has_a_nonce_of_its_own",),
    ),
    Guard(
        "hash-link",
        "An entry follows the bytes of the entry before it, or it is damaged.",
        "sparklog/chain/head.py",
        "        return entry.previous == self.entry_hash and ",
        "        return ",
        ("tests/chain/follow/test_follower.py::test_an_entry_that_does_not_follow_the_one_before_is_damage",),
    ),
    Guard(
        "entry-checksum",
        "A flipped bit in an entry is found before its JSON is read.",
        "sparklog/chain/framing.py",
        "    if words[2:] != _check_words(words[1], payload):",
        "    if False:",
        ("tests/chain/test_entry.py::test_every_flipped_bit_is_a_named_error",),
    ),
    Guard(
        "snapshot-checksum",
        "A flipped bit in a chunk of a snapshot is found before a state is built from it.",
        "sparklog/chain/snapshot/chunks.py",
        "    if len(body) != chunk.size_bytes or crc32c != chunk.crc32c:",
        "    if len(body) != chunk.size_bytes:",
        (
            "tests/chain/snapshot/test_snapshot.py::"
            "test_any_flipped_bit_or_cut_is_named_and_an_older_snapshot_or_the_entries_are_read",
        ),
    ),
    Guard(
        "snapshot-chunk-there",
        "A snapshot does not name a chunk that is in the store with other bytes.",
        "sparklog/chain/snapshot/chunks.py",
        "        if bytes(stored) != body:",
        "        if len(stored) != len(body):",
        ("tests/chain/snapshot/test_snapshot.py::test_the_next_snapshot_writes_a_damaged_chunk_anew",),
    ),
    Guard(
        "snapshot-of-others",
        "A process does not write a snapshot just after another process has written one.",
        "sparklog/chain/snapshot/snapshot_writer.py",
        "                if newest is not None:",
        "                if False:",
        ("tests/chain/snapshot/test_snapshot.py::test_a_process_learns_of_the_snapshots_of_others",),
    ),
    Guard(
        "snapshot-after-damage",
        "A damaged newest snapshot does not keep the next one from being written.",
        "sparklog/chain/snapshot/snapshot_writer.py",
        "with suppress(ChainDamaged):",
        "with suppress():",
        (
            "tests/chain/snapshot/test_snapshot.py::"
            "test_a_damaged_newest_manifest_does_not_keep_the_next_snapshot_from_being_written",
        ),
    ),
    Guard(
        "snapshot-that-won",
        "Chunks of a snapshot that lost its place to another one do not count as written.",
        "sparklog/chain/snapshot/snapshot.py",
        "            return existing\n",
        "            return prepared.manifest\n",
        (
            "tests/chain/snapshot/test_snapshot.py::test_who_finds_another_ones_snapshot_in_its_place_goes_by_that_ones_chunks",
        ),
    ),
    Guard(
        "beyond-the-end",
        "A missing entry with others behind it is CHAIN_DAMAGED, not the end.",
        "sparklog/chain/follow/follower.py",
        "        self._check_end()\n",
        "",
        ("tests/chain/follow/test_follower.py::test_a_missing_entry_in_the_middle_is_damage_and_nothing_is_written",),
    ),
    Guard(
        "head-newer",
        "A process never goes back to an older state.",
        "sparklog/chain/follow/follower.py",
        "            if head.n > self.head.n:",
        "            if True:",
        ("tests/client/test_visible_end.py::test_a_process_never_goes_back_to_an_older_state",),
    ),
    Guard(
        "same-chain",
        "After a pause, a process does not write into another cluster that was created at the address.",
        "sparklog/chain/commit/group_commit.py",
        "            if not self._attempts and is_long_silent(self.head, self._known_ms, now):",
        "            if False:",
        ("tests/chain/commit/test_committer.py::test_who_comes_back_to_a_place_that_was_made_anew_writes_nothing",),
    ),
    Guard(
        "same-chain-by-its-mark",
        "A place that was set back to an older backup is not the same chain: no mark explains that an entry differs.",
        "sparklog/chain/follow/same_chain.py",
        "    if isinstance(mark, bytes | memoryview):",
        "    if True:",
        (
            "tests/chain/follow/test_same_chain.py::"
            "test_an_empty_slot_or_other_bytes_are_another_chain_if_no_mark_explains_them",
        ),
    ),
    Guard(
        "same-chain-by-its-snapshot",
        "A process whose newest entry was deleted as old goes on only from a snapshot of its own chain.",
        "sparklog/chain/follow/same_chain.py",
        "newest.state.chain_id == head.state.chain_id and ",
        "",
        ("tests/chain/follow/test_same_chain.py::test_a_mark_without_a_newer_snapshot_of_the_chain_is_another_chain",),
    ),
    Guard(
        "beyond-the-block",
        "The last entry of a block, lost, is damage: later entries are looked for in every block.",
        "sparklog/chain/follow/follower.py",
        "self.store.first_key_after(LOG, entry_key(n))",
        "self.store.first_key_after(entry_key(n + 1).rpartition('/')[0] + '/', entry_key(n))",
        ("tests/chain/follow/test_follower.py::test_a_missing_entry_at_the_end_of_a_block_is_damage_too",),
    ),
    Guard(
        "snapshot-of-another",
        "The snapshot of another cluster that was created at the same place is not taken for a state of this one.",
        "sparklog/chain/follow/catch_up.py",
        "        if head.n >= 0 and loaded.state.chain_id != head.state.chain_id:",
        "        if False:",
        (
            "tests/chain/follow/test_catch_up.py::"
            "test_the_snapshot_of_another_cluster_at_the_same_place_is_no_state_of_this_one",
        ),
    ),
    Guard(
        "interrupted-in-doubt",
        "What a caller had sent when another caller was interrupted is in doubt.",
        "sparklog/chain/commit/group_commit.py",
        "            ticket.doubt()\n        self._advance",
        "            ticket.sent = False\n        self._advance",
        ("tests/chain/test_simulation.py::test_any_interleaving_of_any_faults_tells_the_truth",),
    ),
    Guard(
        "durable-before-an-answer",
        "An answer that rests on another process's entry is given only once that entry is durable.",
        "sparklog/chain/commit/group_commit.py",
        "        if group.rests_on > self._durable_n:",
        "        if False:",
        ("tests/chain/test_power_loss.py",),
    ),
    Guard(
        "durable-before-a-block",
        "The last entry of a block is durable before anybody builds on it in the next block.",
        "sparklog/chain/commit/group_commit.py",
        "        if entry_block(head.n + 1) != entry_block(head.n) and self._durable_n < head.n and confirmed:",
        "        if False:",
        ("tests/chain/test_power_loss.py",),
    ),
    Guard(
        "mark-of-a-result",
        "A result is not read from a slot that a stalled writer may have filled again.",
        "sparklog/chain/follow/read_entries.py",
        " and entry_block(n) not in void",
        "",
        ("tests/chain/follow/test_read_entries.py::test_an_entry_of_a_block_that_is_going_does_not_count",),
    ),
    Guard(
        "result-below-a-new-floor",
        "A result that is gone because FLOOR has risen is not damage.",
        "sparklog/chain/commit/group_commit.py",
        "        if not self._caught_up.issuperset(ticket for ticket, _ in unread):",
        "        if False:",
        (
            "tests/chain/follow/test_read_entries.py::"
            "test_a_repeat_of_what_floor_has_passed_meanwhile_is_refused_and_its_entry_is_not_missed",
        ),
    ),
    Guard(
        "newest-state-for-a-refusal",
        "A command is refused on a state that was read after it was handed in, not on that of the last refusal.",
        "sparklog/chain/commit/group_commit.py",
        "        if not self._caught_up.issuperset(ticket for ticket, _ in group.refused):",
        "        if group.refused and not self._caught_up:",
        (
            "tests/chain/commit/test_committer.py::"
            "test_each_refusal_is_decided_on_the_newest_state_also_just_after_another_one",
        ),
    ),
    Guard(
        "landed-though-unread",
        "If the result of a repeat can't be read, the error says that the command has landed.",
        "sparklog/chain/commit/group_commit.py",
        "            outcome.landed = Landed.YES\n",
        "",
        (
            "tests/chain/follow/test_read_entries.py::test_a_repeat_whose_result_can_not_be_read_now_says_that_it_landed",
        ),
    ),
    Guard(
        "snapshot-outrun",
        "A writer takes its snapshot back if one of its chunks was deleted meanwhile.",
        "sparklog/chain/snapshot/snapshot.py",
        "    if gone:\n        store.delete(key)",
        "    if False:\n        store.delete(key)",
        (
            "tests/chain/snapshot/test_old_snapshots.py::test_a_writer_whose_chunk_went_before_its_manifest_came_takes_it_back_and_writes_all_anew",
        ),
    ),
    Guard(
        "chunks-forgotten",
        "A process whose chunks were deleted no longer counts them as written.",
        "sparklog/chain/snapshot/snapshot_writer.py",
        "            follower.known_chunks = {}\n            raise",
        "            raise",
        (
            "tests/chain/snapshot/test_old_snapshots.py::test_a_writer_whose_chunk_went_before_its_manifest_came_takes_it_back_and_writes_all_anew",
        ),
    ),
    Guard(
        "chunk-put-back",
        "A chunk that was just deleted is put back if a new snapshot names it.",
        "sparklog/chain/snapshot/old_snapshots.py",
        "        if not is_gone:\n",
        "        if False:\n",
        (
            "tests/chain/snapshot/test_old_snapshots.py::"
            "test_a_chunk_that_a_manifest_names_which_came_before_it_went_is_put_back_by_who_deletes",
            "tests/chain/snapshot/test_old_snapshots.py::test_a_slow_run_breaks_no_snapshots_that_a_faster_one_kept",
        ),
    ),
    Guard(
        "chunk-named-again",
        "A chunk stays that a snapshot names which came since old chunks were looked for.",
        "sparklog/chain/snapshot/old_snapshots.py",
        "            if not new.may_name(chunk.key) and _is_deleted(",
        "            if _is_deleted(",
        ("tests/chain/snapshot/test_old_snapshots.py::test_a_slow_run_breaks_no_snapshots_that_a_faster_one_kept",),
    ),
    Guard(
        "newer-snapshot",
        "If the snapshot is deleted while a reader reads it, the reader takes a newer one.",
        "sparklog/chain/snapshot/snapshot.py",
        "key = store.first_key_after(SNAPSHOTS, key) if newest_key in tried else newest_key",
        "key = store.first_key_after(SNAPSHOTS, key)",
        (
            "tests/chain/snapshot/test_old_snapshots.py::test_a_reader_whose_snapshot_goes_while_it_reads_takes_a_newer_one",
        ),
    ),
    Guard(
        "manifests-first",
        "Chunks stay while a manifest that names them could not be deleted.",
        "sparklog/chain/snapshot/old_snapshots.py",
        "    if manifests.failed:",
        "    if False:",
        ("tests/chain/snapshot/test_old_snapshots.py::test_a_failed_deletion_is_told_and_tried_again",),
    ),
    Guard(
        "three-stay",
        "No snapshot, chunk or body goes before there are three whole snapshots.",
        "sparklog/chain/snapshot/old_snapshots.py",
        "    return whole[KEPT - 1] if len(whole) >= KEPT else None",
        "    return whole[:KEPT][-1] if whole else None",
        ("tests/chain/snapshot/test_old_snapshots.py::test_nothing_goes_before_there_are_three",),
    ),
    Guard(
        "whole-snapshots",
        "A snapshot that lacks a chunk is not one of the three that stay.",
        "sparklog/chain/snapshot/old_snapshots.py",
        " and candidate.chunks <= existing\n",
        "\n",
        (
            "tests/chain/snapshot/test_old_snapshots.py::test_a_snapshot_that_lacks_a_chunk_is_not_one_of_the_three_and_stays_above_them",
        ),
    ),
    Guard(
        "unreadable-manifest",
        "No chunk is deleted that an unreadable manifest may name.",
        "sparklog/chain/snapshot/old_snapshots.py",
        "    if any(candidate.chunks is None for candidate in kept):",
        "    if False:",
        (
            "tests/chain/snapshot/test_old_snapshots.py::test_chunks_stay_while_nobody_knows_what_a_damaged_manifest_above_the_three_names",
        ),
    ),
    Guard(
        "covered-bodies",
        "The body of a large command stays until the oldest snapshot kept covers its entry.",
        "sparklog/chain/snapshot/old_snapshots.py",
        "_is_below(body.key, oldest.floor or",
        "_is_below(body.key, kept[0].floor or",
        ("tests/chain/snapshot/test_old_snapshots.py::test_a_body_stays_until_three_snapshots_cover_it",),
    ),
    Guard(
        "body-holders",
        "A large write whose objects were copied since its last submission does not name the body of then.",
        "sparklog/chain/commit/command_body.py",
        "        if (objects, slices) == own:",
        "        if slices == command.slices:",
        ("tests/client/commits/test_commit_write.py::test_a_large_write_whose_objects_were_copied_has_another_body",),
    ),
    Guard(
        "body-gone",
        "A reader that is behind when a body is deleted starts again from a snapshot.",
        "sparklog/chain/follow/catch_up.py",
        '                return damage(key, f"entry {entry.n} names it, it is not there", url)',
        "                raise damage(entry_key(entry.n), 'its body is gone')",
        (
            "tests/chain/snapshot/test_old_snapshots.py::test_a_reader_that_is_behind_when_a_body_goes_begins_again_at_a_snapshot",
        ),
    ),
    Guard(
        "silence-from-the-start",
        "A process that has not written yet also checks that it is still the same cluster.",
        "sparklog/chain/commit/committer.py",
        "follower.head, self.clock.monotonic_ms(), follower",
        "follower.head, 10**15, follower",
        (
            "tests/chain/commit/test_committer.py::test_who_opened_it_and_never_wrote_before_it_was_made_anew_writes_nothing_either",
        ),
    ),
    Guard(
        "request-taken-is-performed",
        "A caller who has taken a request performs it, even if another caller brings his result first.",
        "sparklog/chain/commit/committer.py",
        "            while request is not None or not done:",
        "            while not ticket.done:",
        ("tests/chain/commit/test_group_commit.py::test_who_took_a_request_performs_it_though_a_result_comes_first",),
    ),
    Guard(
        "nobody-left-asleep",
        "Callers go on when the one who was to wake them is interrupted.",
        "sparklog/chain/commit/committer.py",
        "            for _, gate in waiting:\n                _open(gate)\n",
        "            pass\n",
        (
            "tests/chain/commit/test_group_commit.py::test_a_caller_is_told_though_the_one_who_performs_is_stopped_just_before",
        ),
    ),
    Guard(
        "nobody-left-asleep-twice",
        "Callers go on when the one who was to wake them is interrupted, and again while he leaves.",
        "sparklog/chain/commit/committer.py",
        "            if not isinstance(second, Exception):\n",
        "            if False:\n",
        (
            "tests/chain/commit/test_group_commit.py::"
            "test_callers_go_on_though_the_one_who_performs_is_interrupted_again_while_it_waits_for_its_turn",
        ),
    ),
    Guard(
        "nobody-left-asleep-without-memory",
        "Callers end with an error when nothing can be decided for them any more.",
        "sparklog/chain/commit/committer.py",
        "        except Exception as second:",
        "        except ZeroDivisionError as second:",
        (
            "tests/chain/commit/test_group_commit.py::"
            "test_callers_are_told_though_the_one_who_performs_is_stopped_again_while_it_leaves",
        ),
    ),
    Guard(
        "undecidable-alone",
        "A command that can't be decided ends itself, not the others of its group.",
        "sparklog/chain/commit/command_group.py",
        "        except Exception as error:",
        "        except (TypeError, ValueError, AttributeError) as error:",
        (
            "tests/chain/commit/test_group_commit.py::test_one_that_nobody_can_decide_does_not_stop_the_others_of_its_group",
        ),
    ),
    Guard(
        "torn-draft",
        "What was applied in part of a command that failed is in no state.",
        "sparklog/chain/commit/command_group.py",
        "            is_torn = group.draft.is_torn",
        "            is_torn = False",
        (
            "tests/chain/commit/test_group_commit.py::"
            "test_one_whose_application_stops_half_way_leaves_nothing_of_it_to_the_others_of_its_group",
        ),
    ),
    Guard(
        "snapshot-outrun-again",
        "A snapshot whose put was tried twice is looked at like any other.",
        "sparklog/chain/snapshot/snapshot.py",
        "        if existing != prepared.manifest:",
        "        if True:",
        (
            "tests/chain/snapshot/test_old_snapshots.py::test_a_writer_whose_chunk_went_before_its_manifest_came_takes_it_back_and_writes_all_anew",
        ),
    ),
)
