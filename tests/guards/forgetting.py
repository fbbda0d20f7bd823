"""Guards of what an election forgets, and of who hears of it."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_FORGETTING: Final = "tests/core/test_forgetting.py::"

GUARDS: Final[tuple[Guard, ...]] = (
    Guard(
        "forget-results",
        "A forgotten write that is sent again is written.",
        "sparklog/core/forgetting.py",
        "        state.results.forget(np.concatenate(gone))\n",
        "        pass\n",
        (f"{_FORGETTING}test_a_forgotten_write_is_a_first_write_when_it_is_sent_again",),
    ),
    Guard(
        "forget-cut-slice",
        "A leader that lacks the slice which the log start cuts does not count as its holder.",
        "sparklog/core/forgetting.py",
        "return OffsetRange(Offset(min(start, starts.item(0))), rest.end) if len(starts) else rest",
        "return rest",
        (f"{_FORGETTING}test_of_a_slice_that_the_log_start_cuts_a_leader_that_lacks_it_has_nothing",),
    ),
    Guard(
        "cut-batch",
        "A producer whose batch an election cut hears what is left of it.",
        "sparklog/core/decide/append.py",
        "            check_batch_left(state, topic_partition, span, place)\n",
        "",
        (f"{_FORGETTING}test_a_batch_that_an_election_cut_is_not_written_twice",),
    ),
    Guard(
        "cut-batch-landed",
        "What is known to be there is not said to be in doubt.",
        "sparklog/core/decide/command.py",
        "error.landed is Landed.NO and submission.in_doubt",
        "submission.in_doubt",
        (f"{_FORGETTING}test_a_batch_that_an_election_cut_is_not_written_twice",),
    ),
    Guard(
        "lost-once",
        "An application hears of no election that took nothing of it.",
        "sparklog/core/forgetting.py",
        "written.start < taken.end and taken.start < written.end",
        "taken.start < written.end",
        (f"{_FORGETTING}test_an_application_hears_of_no_later_election_that_took_nothing_of_it",),
    ),
    Guard(
        "forgotten-orphans",
        "The bytes of a forgotten write stay until FLOOR has passed it: its repeat may name them again.",
        "sparklog/core/forgetting.py",
        "        state.objects.remove_many(orphans.tolist())\n",
        "        state.retired.add_all(orphans, 0, state.topics[key.topic_id].name, ())\n",
        (f"{_FORGETTING}test_a_repeat_of_a_forgotten_write_may_name_its_object_again",),
    ),
    Guard(
        "forget-sequences",
        "A producer whose batches were forgotten sends them again.",
        "sparklog/core/forgetting.py",
        "        _forget_sequences(state, starts)\n",
        "",
        (f"{_FORGETTING}test_a_producer_goes_on_after_its_last_batch_that_is_left",),
    ),
    Guard(
        "keep-sequences",
        "What is left of a producer is not written twice.",
        "sparklog/core/forgetting.py",
        "            left = left or _last_batch(state, producer, key)\n",
        "",
        (f"{_FORGETTING}test_a_producer_that_lost_more_than_is_remembered_of_it_goes_on_where_the_log_does",),
    ),
    Guard(
        "forget-versions",
        "A version that was lost as a whole may be written again.",
        "sparklog/core/forgetting.py",
        "        _forget_versions(state, taken)\n",
        "",
        (f"{_FORGETTING}test_a_version_that_an_unclean_election_gave_up_may_be_written_again",),
    ),
    Guard(
        "keep-part-versions",
        "A version of which records are left is not written twice.",
        "sparklog/core/forgetting.py",
        "        if is_whole:\n            version -= 1",
        "        if lost:\n            version -= 1",
        (f"{_FORGETTING}test_a_version_of_which_a_part_is_left_stays_written",),
    ),
    Guard(
        "keep-unclean-results",
        "A write that an unclean election gave up is not written again as if nothing had happened.",
        "sparklog/core/forgetting.py",
        "        if change.lost is msgspec.UNSET:",
        "        if True:",
        (f"{_FORGETTING}test_a_write_of_which_an_unclean_election_left_nothing_says_so",),
    ),
    Guard(
        "keep-cut-batches",
        "What an election left of a producer's batch is not written twice.",
        "sparklog/core/forgetting.py",
        "tuple(_cut(batch, starts[key]) for batch in known if batch.start < starts[key])",
        "tuple(batch for batch in known if batch.end <= starts[key])",
        (f"{_FORGETTING}test_a_batch_that_an_election_cut_is_not_written_twice",),
    ),
    Guard(
        "cut-write",
        "A write that an election cut is no success when it is sent again.",
        "sparklog/chain/follow/read_entries.py",
        "            check_left(state, result)",
        "            pass",
        ("tests/client/test_replicas.py::test_a_write_that_an_election_cut_is_no_success_when_it_is_sent_again",),
    ),
    Guard(
        "producer-lost",
        "A producer that lost records lets nothing that it has under way land behind the gap.",
        "sparklog/core/idempotence/producers.py",
        "    if producer.lost:",
        "    if False:",
        (f"{_FORGETTING}test_a_producer_that_lost_records_in_an_unclean_election_hears_so_until_its_next_epoch",),
    ),
    Guard(
        "application-lost",
        "An application that lost a version hears of it.",
        "sparklog/core/decide/command.py",
        "            unheard = unheard_loss(state, command.application)",
        "            unheard = None",
        (f"{_FORGETTING}test_an_application_hears_once_what_it_lost_and_then_goes_on",),
    ),
    Guard(
        "application-goes-on",
        "An application that heard of its loss goes on.",
        "sparklog/core/apply.py",
        "            _hear_of_loss(state, record)",
        "            pass",
        (f"{_FORGETTING}test_an_application_hears_once_what_it_lost_and_then_goes_on",),
    ),
    Guard(
        "application-refused",
        "A write that was not made because its application lost something is no success.",
        "sparklog/chain/commit/command_group.py",
        "if self.result.application is not None and self.result.lost is not None:",
        "if False:",
        ("tests/client/test_replicas.py::test_an_application_that_lost_a_version_is_refused_once",),
    ),
    Guard(
        "lost-is-told",
        "Records that an unclean election gave up are not passed over in silence.",
        "sparklog/log/read/scan.py",
        "        if plan.lost and fail_on_data_loss:",
        "        if False:",
        (
            "tests/client/test_replicas.py::"
            "test_records_that_an_unclean_election_gave_up_are_not_passed_over_in_silence",
        ),
    ),
)
