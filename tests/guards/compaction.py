"""Guards of compaction: nothing that counts is dropped, no deleted value comes back, and runs don't hurt each other."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_JOB = "tests/maintenance/rewrite/test_compaction_job.py::"
_BESIDE = "tests/maintenance/test_compaction_beside_others.py::"
_CLEANER = "tests/core/maintenance/test_cleaner.py::"

GUARDS: Final = (
    Guard(
        "compaction-sealed-only",
        "Slices of append objects are not compacted: the roll may be about to rewrite them.",
        "sparklog/core/maintenance/compaction_rule.py",
        '    stays = state.objects.kinds(columns["object_number"]) != ObjectKind.SEGMENT\n',
        "    stays = np.zeros(len(slices), dtype=np.bool_)\n",
        (
            "tests/core/maintenance/test_compaction_rule.py::test_the_cleanable_part_ends_at_the_first_slice_that_is_not_sealed",
        ),
    ),
    Guard(
        "compaction-min-lag",
        "Records younger than min.compaction.lag.ms stay, and so does everything behind them.",
        "sparklog/core/maintenance/compaction_rule.py",
        '        stays |= columns["max_timestamp_us"] > (now_ms - config.min_compaction_lag_ms) * 1000\n',
        "        pass\n",
        (f"{_JOB}test_young_segments_wait_for_min_compaction_lag_ms",),
    ),
    Guard(
        "compaction-cut-segment",
        "No tombstone goes while the log start cuts a segment, which may still have the value that it deletes.",
        "sparklog/core/maintenance/compaction_rule.py",
        "None if cleaner is None or cut else",
        "None if cleaner is None else",
        (f"{_JOB}test_no_tombstone_goes_while_the_log_start_cuts_a_segment",),
    ),
    Guard(
        "compaction-behind-cut",
        "A slice that the log start cuts, sealed or not, does not stop the compaction of what follows.",
        "sparklog/core/maintenance/compaction_rule.py",
        "    stays[:first] = False",
        "    pass",
        (f"{_JOB}test_a_slice_that_was_cut_before_it_was_sealed_holds_nothing_up",),
    ),
    Guard(
        "compaction-young-cut",
        "A slice younger than min.compaction.lag.ms holds up what is behind it, even if the log start cuts it.",
        "sparklog/core/maintenance/compaction_rule.py",
        "    uncleanable = np.flatnonzero(stays)\n",
        "    uncleanable = np.flatnonzero(stays[first:]) + first\n",
        (f"{_JOB}test_a_young_segment_holds_up_what_follows_though_the_log_start_cuts_it",),
    ),
    Guard(
        "compaction-clean-part",
        "What ends before the cleaner's position is clean, and left alone.",
        "sparklog/core/maintenance/compaction_rule.py",
        "    if end < position:\n        return None\n",
        "",
        (f"{_JOB}test_a_lag_that_is_raised_behind_the_cleaner_leaves_what_is_clean_alone",),
    ),
    Guard(
        "swap-count",
        "Only the compaction of a topic that is compacted now leaves fewer records.",
        "sparklog/core/decide/maintenance.py",
        "    if after > before or (after < before and not (config.compact or command.lost)):",
        "    if False:",
        (
            "tests/core/decide/test_maintenance.py::"
            "test_a_rewrite_keeps_every_record_unless_the_topic_is_compacted_now",
            f"{_JOB}test_a_topic_that_is_not_compacted_any_more_keeps_what_a_late_run_would_drop",
        ),
    ),
    Guard(
        "tombstone-delay",
        "A tombstone stays for delete.retention.ms after the first run that passed it.",
        "sparklog/core/maintenance/cleaner.py",
        " if pass_.at_ms + delay_ms <= clock_ms",
        "",
        (f"{_CLEANER}test_a_delay_is_over_by_the_pass_that_was_first",),
    ),
    Guard(
        "tombstone-kept-superseded",
        "No tombstone goes while a record is kept that a later one superseded.",
        "sparklog/core/maintenance/cleaner.py",
        "        if self.keeps_superseded:",
        "        if False:",
        (f"{_CLEANER}test_no_delay_is_over_while_a_superseded_record_is_kept",),
    ),
    Guard(
        "tombstone-clock",
        "The delay of a tombstone begins at the entry that recorded the pass, never before the entry ahead of it.",
        "sparklog/core/decide/maintenance.py",
        "passed_at_ms = delay_begins_ms(state, at) if",
        "passed_at_ms = at.time_ms if",
        (f"{_CLEANER}test_the_pass_has_the_time_of_its_entry_and_never_one_before_the_last_entry",),
    ),
    Guard(
        "cleaner-overtaken",
        "A run that another one overtook does not say what is cleaned.",
        "sparklog/core/decide/maintenance.py",
        "    if position != command.position and not passed:",
        "    if False:",
        (f"{_CLEANER}test_a_run_that_another_one_overtook_does_not_move_the_cleaner",),
    ),
    Guard(
        "cleaner-within-log",
        "What an unclean election gave up does not count as cleaned.",
        "sparklog/core/apply.py",
        "            _keep_cleaner_within(state, key, after[key].log_start, change.forgotten_from)\n",
        "            pass\n",
        (f"{_CLEANER}test_an_unclean_election_that_gives_up_cleaned_records_takes_the_cleaner_back",),
    ),
    Guard(
        "cleaner-after-swaps",
        "The cleaner's position does not move if a swap of the run did not land.",
        "sparklog/maintenance/rewrite/compaction_job.py",
        "            if others or partition is None or any(swap.end > partition.log_start for swap in refused):\n",
        "            if False:\n",
        (
            f"{_JOB}test_a_swap_that_is_refused_does_not_move_the_cleaner",
            f"{_BESIDE}test_a_stretch_that_is_deleted_in_part_every_time_does_not_count_as_cleaned",
        ),
    ),
    Guard(
        "compaction-counts-landed",
        "What a refused swap would have done is not reported as done.",
        "sparklog/maintenance/rewrite/compaction_job.py",
        "            if not any(swap.start <= part.start < swap.end for swap in refused)\n",
        "",
        (f"{_BESIDE}test_what_landed_is_reported_though_a_stretch_was_overtaken",),
    ),
    Guard(
        "compaction-plans-again",
        "What is left of a stretch whose first records were deleted meanwhile is compacted by the same run.",
        "sparklog/maintenance/rewrite/compaction_job.py",
        "                self._plan_again(frame, state, planned)\n",
        "",
        (
            f"{_BESIDE}test_beside_deletions_in_every_run_the_position_moves_in_every_run",
            f"{_BESIDE}test_random_deletions_beside_every_run_hold_it_up_in_no_run",
        ),
    ),
    Guard(
        "cleaner-passed",
        "A position that the log start passed during the run does not hold up the next one.",
        "sparklog/core/decide/maintenance.py",
        "    if position != command.position and not passed:",
        "    if position != command.position:",
        (
            f"{_CLEANER}test_a_position_that_the_log_start_passed_during_the_run_does_not_stop_it",
            f"{_BESIDE}test_random_deletions_beside_every_run_hold_it_up_in_no_run",
        ),
    ),
    Guard(
        "compaction-spare",
        "Of a stretch of which nothing is left, no superseded record stays in its place.",
        "sparklog/maintenance/rewrite/compaction_swaps.py",
        "        if number in spares:",
        "        if False:",
        (f"{_JOB}test_the_last_tombstone_of_an_empty_log_stays",),
    ),
)
