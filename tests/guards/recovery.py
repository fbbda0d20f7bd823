"""The guards of recovery: no point above what was read, no copy deleted that counts, no loss that nobody accepted."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_POINT = "tests/core/test_recovery.py::"
_JOB = "tests/maintenance/test_recovery.py::"
_CHECK = "tests/log/test_object_check.py::"
_FILES = "tests/log/test_checkpoint_files.py::"
_SWAP = "tests/core/decide/test_maintenance.py::"

GUARDS: Final[tuple[Guard, ...]] = (
    Guard(
        "recovery-point-unread",
        "A recovery point does not rise over an object that was not read.",
        "sparklog/core/recovery.py",
        "            to = min(to, int(unread[0])) if len(unread) else to\n",
        "",
        (f"{_POINT}test_the_point_rises_to_the_first_object_that_was_not_read_or_is_not_there_yet",),
    ),
    Guard(
        "recovery-point-registration",
        "What was read in another life of a store does not count.",
        "sparklog/core/decide/stores.py",
        "    _check_registration(store, command.registration)\n    if not 0 <= command.to",
        "    if not 0 <= command.to",
        (f"{_POINT}test_a_store_that_lost_something_or_came_back_is_not_trusted_any_more",),
    ),
    Guard(
        "recovery-point-grew",
        "What was read before a store got a replica says nothing about that replica.",
        "sparklog/core/decide/stores.py",
        "    if not store.grew_at <= command.n <= state.n:",
        "    if False:",
        (f"{_POINT}test_a_replica_of_older_records_sets_the_point_back_and_refuses_what_was_read_before",),
    ),
    Guard(
        "recovery-point-new-replica",
        "A replica of older records sets the recovery point of its store back.",
        "sparklog/core/recovery.py",
        "            point = min(known.recovery_point, first)",
        "            point = known.recovery_point",
        (f"{_POINT}test_a_replica_of_older_records_sets_the_point_back_and_refuses_what_was_read_before",),
    ),
    Guard(
        "recovery-harmless",
        "A repair costs no partition its leader, and no records that only one store has.",
        "sparklog/core/decide/stores.py",
        "        if not others or change.leader is None or change.forgotten_from is not UNSET:",
        "        if False:",
        (f"{_POINT}test_a_loss_that_would_cost_the_leader_or_records_is_refused",),
    ),
    Guard(
        "recovery-delete-counted",
        "Nothing is deleted while the chain counts on it.",
        "sparklog/maintenance/repair.py",
        "                    if held_slices(state, store, [object_.named.number]):",
        "                    if False:",
        (f"{_JOB}test_an_agent_that_takes_damaged_bytes_for_its_copy_does_not_end_the_repair",),
    ),
    Guard(
        "recovery-read-again",
        "What was fetched again is read again: a copy by the stores themselves compares lengths.",
        "sparklog/maintenance/repair.py",
        "            left = self._still_damaged(store, left)\n",
        "            left = []\n",
        (f"{_JOB}test_an_agent_that_takes_damaged_bytes_for_its_copy_does_not_end_the_repair",),
    ),
    Guard(
        "recovery-missing-left",
        "What was missing is not deleted: an agent may have copied it by now.",
        "sparklog/maintenance/repair.py",
        "for finding in findings if finding.problem is not Problem.MISSING}",
        "for finding in findings}",
        (f"{_JOB}test_what_an_agent_copies_while_the_job_looks_for_left_overs_is_not_deleted",),
    ),
    Guard(
        "recovery-silent-holder",
        "While a holder is silent, it may have what the others lack.",
        "sparklog/maintenance/repair.py",
        "            elif number in silent:",
        "            elif False:",
        (f"{_JOB}test_while_a_holder_is_silent_nothing_is_given_up",),
    ),
    Guard(
        "recovery-accept-loss",
        "Records are given up only if somebody accepts that.",
        "sparklog/maintenance/salvage.py",
        "            elif left.lost and not accept_loss:",
        "            elif False:",
        (f"{_JOB}test_what_no_store_has_is_reported_by_name_and_never_served",),
    ),
    Guard(
        "recovery-swap-gaps",
        "A rewrite leaves no gap but for the records that it says are lost.",
        "sparklog/core/decide/maintenance.py",
        "    if gaps != list(command.lost):",
        "    if False:",
        (f"{_SWAP}test_a_rewrite_with_a_gap_that_it_does_not_name_is_refused",),
    ),
    Guard(
        "recovery-lost-ends",
        "A replica that ends where lost records began goes on behind them.",
        "sparklog/core/replication/rewrites.py",
        "tuple(first.end if first.start <= end < first.end else end for end in value.log_ends)",
        "value.log_ends",
        (f"{_JOB}test_a_slice_above_a_replica_that_lags_can_be_given_up_too",),
    ),
    Guard(
        "object-check-crc",
        "An object is whole only if its checksum is the chain's.",
        "sparklog/log/object_check.py",
        "        if size_bytes == wanted_bytes and seen != named.object.crc32c:",
        "        if False:",
        (f"{_CHECK}test_a_flipped_bit_anywhere_in_the_object_is_found_and_its_batch_named",),
    ),
    Guard(
        "object-check-cut",
        "Batches behind the end of a cut object are named.",
        "sparklog/log/object_check.py",
        "np.flatnonzero(index.position + index.length > readable_bytes).tolist()",
        "np.flatnonzero(index.position > readable_bytes).tolist()",
        (f"{_CHECK}test_a_cut_anywhere_is_found_with_the_batches_behind_it",),
    ),
    Guard(
        "checkpoints-incarnation",
        "Nothing is written to a store that is another's by now.",
        "sparklog/log/checkpoint_files.py",
        "        check_incarnation(target, store.incarnation)\n",
        "",
        (f"{_FILES}test_nothing_is_written_to_a_store_that_was_wiped_or_swapped",),
    ),
    Guard(
        "recovery-lost-tasks",
        "A store that could not be read may have the object whole, so nothing is given up.",
        "sparklog/maintenance/repair.py",
        "silent.update((object_.named.number, str(error)) for pack in round_ for object_ in pack)\n",
        "pass\n",
        (
            "tests/maintenance/test_lost_tasks.py::test_nothing_is_given_up_while_it_is_not_known_what_another_store_has",
        ),
    ),
)
