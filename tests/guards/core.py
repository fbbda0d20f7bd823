"""Guards of `core`: what decide refuses, or knows already."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

GUARDS: Final = (
    Guard(
        "floor",
        "Nothing is named that was uploaded below FLOOR: vacuum may have deleted it.",
        "sparklog/core/decide.py",
        "    if oldest < floor:",
        "    if False:",
        ("tests/core/test_decide.py::test_floor_refuses_what_was_begun_or_uploaded_below_it",),
    ),
    Guard(
        "command-id",
        "A command that is submitted again gets its first result.",
        "sparklog/core/decide.py",
        "known = state.results.get(submission.command_id)",
        "known = None",
        ("tests/core/test_decide.py::test_a_known_id_is_enough",),
    ),
    Guard(
        "producer-sequence",
        "A producer's batches leave no gap and overlap nowhere.",
        "sparklog/core/producers.py",
        "    if span.first_sequence != expected:",
        "    if False:",
        ("tests/core/test_producers.py::test_what_is_neither_next_nor_an_exact_repeat_is_out_of_order",),
    ),
    Guard(
        "producer-repeat",
        "A batch that a producer sends again is not written again.",
        "sparklog/core/producers.py",
        "    for batch in known:",
        "    for batch in ():",
        ("tests/core/test_producers.py::test_an_exact_repeat_of_one_of_the_last_five_batches_is_told_where_it_is",),
    ),
    Guard(
        "producer-epoch",
        "Only the newest instance of a producer writes.",
        "sparklog/core/producers.py",
        "    if span.producer_epoch != producer.producer_epoch:",
        "    if False:",
        ("tests/core/test_producers.py::test_only_the_epoch_that_was_given_last_may_write",),
    ),
    Guard(
        "txn-version",
        "A version that its application wrote before adds nothing.",
        "sparklog/core/decide_append.py",
        "        if before is not None and application.version <= before.version:",
        "        if False:",
        ("tests/core/test_decide_append.py::test_a_version_at_or_below_the_last_of_its_application_adds_nothing",),
    ),
    Guard(
        "topic-id",
        "What was begun for a topic does not land in another one of its name.",
        "sparklog/core/decide_append.py",
        "    partition = state.partitions.get(topic_partition)\n    if partition is None:",
        "    partition = state.partitions.get(topic_partition) or next(iter(state.partitions.values()))\n"
        "    if partition is None:",
        ("tests/core/test_decide_append.py::test_a_write_begun_for_a_topic_that_was_made_anew_is_refused",),
    ),
    Guard(
        "leader-epoch",
        "A write that was begun under an older leader epoch is fenced.",
        "sparklog/core/decide_append.py",
        "    if epoch == partition.leader_epoch:",
        "    if True:",
        ("tests/core/test_decide_append.py::test_a_write_begun_under_an_older_epoch_is_fenced",),
    ),
    Guard(
        "min-insync",
        "With fewer stores in sync than min.insync.replicas nothing is written.",
        "sparklog/core/decide_append.py",
        "        if len(partition.isr) < fewest[each.topic_id]:",
        "        if False:",
        ("tests/core/test_decide_append.py::test_fewer_stores_in_sync_than_the_topic_wants_take_no_writes",),
    ),
    Guard(
        "every-insync-store",
        "An object is on every store in sync before it is named.",
        "sparklog/core/decide_append.py",
        "        missing = [store for store in partition.isr if store not in holders[each.object_index]]",
        "        missing = []",
        ("tests/core/test_decide_append.py::test_an_append_that_does_not_fit_is_refused",),
    ),
    Guard(
        "keyless",
        "Records without a key do not land in a topic that became compacted after they were planned.",
        "sparklog/core/decide_append.py",
        "    _check_keys(state, command)\n",
        "",
        ("tests/core/test_decide_append.py::test_records_without_a_key_are_refused_once_their_topic_is_compacted",),
    ),
    Guard(
        "swap-digest",
        "A rewrite replaces only the slices that it read.",
        "sparklog/core/decide_maintenance.py",
        "    if digest(replaced) != command.digest:",
        "    if False:",
        ("tests/core/test_decide_maintenance.py::test_a_swap_of_slices_that_were_replaced_meanwhile_is_refused",),
    ),
    Guard(
        "retired-only",
        "Only objects that no slice names are confirmed as deleted.",
        "sparklog/core/decide_maintenance.py",
        "if number not in state.retired]\n    if still:",
        "if number not in state.retired]\n    if False:",
        ("tests/core/test_decide_maintenance.py::test_only_retired_objects_can_be_confirmed_as_deleted",),
    ),
    Guard(
        "floor-forgets",
        "FLOOR forgets results only of commands that it refuses from then on.",
        "sparklog/core/apply.py",
        "if result.n0 < record.floor]:",
        "]:",
        ("tests/core/test_apply.py::test_floor_forgets_the_results_of_what_was_begun_below_it",),
    ),
    Guard(
        "floor-never-falls",
        "FLOOR does not fall when a slower run asks for less.",
        "sparklog/core/decide_maintenance.py",
        "FloorRaised(max(command.floor, state.floor), expired)",
        "FloorRaised(command.floor, expired)",
        (
            "tests/core/test_decide_maintenance.py::"
            "test_a_run_that_asks_for_less_than_floor_forgets_producers_and_leaves_floor",
        ),
    ),
    Guard(
        "roll-gap",
        "A roll joins nothing over offsets that no slice covers.",
        "sparklog/core/rolling.py",
        '        & (columns["start"][1:] == columns["end"][:-1])\n',
        "",
        ("tests/core/test_rolling.py::test_nothing_is_joined_over_offsets_that_no_slice_covers",),
    ),
    Guard(
        "roll-epoch",
        "A roll joins no slices of two leader epochs.",
        "sparklog/core/rolling.py",
        '        & (columns["leader_epoch"][1:] == columns["leader_epoch"][:-1])\n',
        "",
        ("tests/core/test_rolling.py::test_slices_of_two_leader_epochs_are_not_joined",),
    ),
    Guard(
        "roll-high-watermark",
        "A roll leaves what is not on every store in sync.",
        "sparklog/core/rolling.py",
        'np.searchsorted(slices.columns["end"], partition.high_watermark, side="right")',
        "len(slices)",
        ("tests/core/test_rolling.py::test_what_is_not_on_every_in_sync_store_stays",),
    ),
)
