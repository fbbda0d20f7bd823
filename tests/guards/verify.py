"""Guards of verify: it finds what is damaged, says nothing of what is not, and changes nothing."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_JOB: Final = "sparklog/maintenance/verify/verify_job.py"
_CHAIN: Final = "sparklog/chain/verify_chain.py"
_COPIES: Final = "sparklog/chain/mirror/verify_mirrors.py"
_FRAME: Final = "sparklog/maintenance/job_frame.py"
_JOB_TESTS: Final = "tests/maintenance/verify/test_verify_job.py"
_CHAIN_TESTS: Final = "tests/chain/test_verify_chain.py"
_COPY_TESTS: Final = "tests/chain/mirror/test_verify_mirrors.py"
_HELD_TESTS: Final = "tests/core/maintenance/test_objects_to_verify.py"

GUARDS: Final = (
    Guard(
        "verify-asks-again",
        "An object that the chain has forgotten since the plan is no difference.",
        _JOB,
        "slices = slices_still_held(now, object_, of.store)",
        "slices = object_.slices",
        (f"{_JOB_TESTS}::test_objects_that_roll_and_retention_delete_meanwhile_are_no_difference",),
    ),
    Guard(
        "verify-lost-tasks",
        "Objects whose task could not be run are not taken for verified.",
        _JOB,
        "                        self._count_unanswered(store, object_.topic, str(error))\n",
        "                        pass\n",
        (
            "tests/maintenance/test_lost_tasks.py::test_a_call_for_tasks_that_fails_is_reported_and_the_next_run_does_the_rest",
        ),
        choose="verify",
    ),
    Guard(
        "verify-same-object",
        "Records that another object holds by now need not be in the old one.",
        "sparklog/core/maintenance/objects_to_verify.py",
        '    return slice_.object_number in now.columns["object_number"].tolist()',
        "    return True",
        (
            f"{_JOB_TESTS}::test_objects_that_roll_and_retention_delete_meanwhile_are_no_difference",
            f"{_HELD_TESTS}::test_what_the_log_forgot_or_the_store_need_not_have_is_no_longer_held",
        ),
    ),
    Guard(
        "verify-deletes-nothing",
        "No deletion and no FLOOR follows a job that only reads.",
        _FRAME,
        "        deletion, floor = (deletion, _floor(frame)) if only_reads else _after(frame, deletion, notes)",
        "        deletion, floor = _after(frame, deletion, notes)",
        (f"{_JOB_TESTS}::test_nothing_is_deleted_and_floor_stays",),
    ),
    Guard(
        "verify-unreadable",
        "A store that does not answer is reported: an empty report means that everything was read.",
        _JOB,
        "        self._unanswered[store, topic] = objects + 1, first or error",
        "        pass",
        (f"{_JOB_TESTS}::test_a_store_that_does_not_answer_is_named_once_and_the_others_are_verified",),
    ),
    Guard(
        "verify-incarnation",
        "A store in another life than the registered one is reported.",
        _JOB,
        "                check_incarnation(target, store.incarnation)",
        "                pass",
        (f"{_JOB_TESTS}::test_a_store_in_another_life_is_named",),
    ),
    Guard(
        "verify-content",
        "A batch with the right bytes is decoded, and compared with what the index says about it.",
        "sparklog/log/check/object_check.py",
        "                elif content and (stored := ",
        "                elif False and (stored := ",
        ("tests/log/check/test_batch_content.py::test_a_batch_that_its_index_does_not_fit_is_found",),
    ),
    Guard(
        "verify-link",
        "An entry that does not follow the one before it is reported.",
        _CHAIN,
        "        elif before is not None and entry.previous != before:",
        "        elif False:",
        (f"{_CHAIN_TESTS}::test_an_entry_that_was_written_again_breaks_the_link",),
    ),
    Guard(
        "verify-last-entry",
        "The newest entry is the one that was read when the chain was opened.",
        _CHAIN,
        "        if self._hash is not None and self._hash != self._head.entry_hash:",
        "        if False:",
        (f"{_CHAIN_TESTS}::test_an_entry_that_was_written_again_breaks_the_link",),
    ),
    Guard(
        "verify-snapshot-state",
        "A snapshot is compared with the state to which the entries lead.",
        _CHAIN,
        "            if differing := differing_parts(replayed.state, state):",
        "            if differing := [][: replayed.n]:",
        (f"{_CHAIN_TESTS}::test_a_snapshot_of_another_state_is_named",),
    ),
    Guard(
        "verify-void",
        "An entry of a block that was deleted meanwhile is not missing.",
        _CHAIN,
        "                if not self._is_void(n):",
        "                if True:",
        (f"{_CHAIN_TESTS}::test_a_block_that_is_deleted_meanwhile_is_no_difference",),
    ),
    Guard(
        "verify-old-body",
        "The body of a command below the FLOOR of the kept snapshots may be gone.",
        _CHAIN,
        "                    if command.n0 >= self._deleted_below and not self._deleted_since(command.n0):",
        "                    if True:",
        (f"{_CHAIN_TESTS}::test_snapshots_and_bodies_that_vacuum_deletes_are_no_difference",),
    ),
    Guard(
        "verify-chunk-name",
        "A chunk is what its name says, also if its CRC32C is right.",
        "sparklog/chain/snapshot/verify_snapshots.py",
        "        if sha256_read != sha256:",
        "        if False:",
        (f"{_CHAIN_TESTS}::test_each_chunk_and_each_manifest_that_is_damaged_is_named",),
    ),
    Guard(
        "verify-copy-bytes",
        "A copy of an entry is compared with the entry.",
        _COPIES,
        "        if original is not None and _decodes(n, original):",
        "        if False:",
        (f"{_COPY_TESTS}::test_another_entry_in_the_place_of_one_is_named",),
    ),
    Guard(
        "verify-copy-hole",
        "A hole in a copy is reported, unless the entry is there when it is asked for.",
        _COPIES,
        "                if n != before + 1 and body_if_there(self._place, entry_key(before + 1)) is None:",
        "                if n != before + 1:",
        (f"{_COPY_TESTS}::test_a_key_that_is_put_while_the_copy_is_listed_is_no_hole",),
    ),
)
