"""Guards of the Python producer: order, uniqueness, and what becomes of records when something fails."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_FLUSHES: Final = "sparklog/core/producing/flushes.py"
_PRODUCER: Final = "sparklog/client/producer/producer.py"
_MACHINE: Final = "tests/core/producing/test_flushes.py::"
_PARKED: Final = "tests/core/producing/test_parked_flushes.py::"
_WHOLE: Final = "tests/client/producer/test_producer.py::"
_LIMITS: Final = "tests/client/producer/test_flush_limits.py::"
_OFFLINE: Final = "tests/client/producer/test_offline_partitions.py::"
_DOUBT: Final = "tests/client/producer/test_doubt_without_leader.py::"
_PROCESSES: Final = "tests/client/producer/test_processes.py::"

GUARDS: Final = (
    Guard(
        "flush-order",
        "A commit begins only after those of the earlier flushes of its partitions.",
        _FLUSHES,
        "            other.is_committing\n",
        "            True\n",
        (_MACHINE + "test_commits_begin_in_order_though_uploads_end_in_any",),
    ),
    Guard(
        "callback-exits",
        "A callback that exits does not end the thread that sends.",
        "sparklog/client/producer/record_future.py",
        "        except BaseException:",
        "        except Exception:",
        (_WHOLE + "test_a_callback_that_exits_does_not_end_the_thread_that_sends",),
    ),
    Guard(
        "flush-behind-doubt",
        "Nothing new is committed behind a commit in doubt.",
        _FLUSHES,
        "            and other.landed is Landed.NO\n",
        "",
        (_MACHINE + "test_a_commit_in_doubt_is_sent_again_as_it_was_and_nothing_new_goes_behind_it",),
    ),
    Guard(
        "flush-window",
        "No more batches of a partition are under way than the chain remembers.",
        _FLUSHES,
        "            and flush.order - other.order < self._settings.max_in_flight\n",
        "",
        (_MACHINE + "test_no_commit_is_more_than_five_behind_one_without_an_answer",),
    ),
    Guard(
        "flush-numbers-in-doubt",
        "A commit that may have landed is sent again with the same sequences, so the chain finds the repeat.",
        _FLUSHES,
        "            if flush.landed is Landed.NO:\n",
        "            if True:\n",
        (
            _MACHINE + "test_a_commit_in_doubt_is_sent_again_as_it_was_and_nothing_new_goes_behind_it",
            _MACHINE + "test_a_commit_in_doubt_behind_one_that_failed_is_never_numbered_anew",
        ),
    ),
    Guard(
        "flush-epoch-over",
        "If a flush that may have landed is given up, its epoch is over: nothing of it lands behind later records.",
        _FLUSHES,
        "        elif flush.in_doubt:\n",
        "        elif False:\n",
        (_MACHINE + "test_a_flush_that_fails_in_doubt_ends_the_epoch_once_no_commit_is_under_way",),
    ),
    Guard(
        "flush-renewal-waits",
        "The next epoch begins once no commit is under way: it would be refused, and could not be looked up.",
        _FLUSHES,
        "        return self.identity.is_due(now_ms) and all(",
        "        return self.identity.is_due(now_ms) or all(",
        (_MACHINE + "test_a_flush_that_fails_in_doubt_ends_the_epoch_once_no_commit_is_under_way",),
    ),
    Guard(
        "flush-refused-behind",
        "A refusal behind an earlier commit proves nothing: that one may have landed since.",
        _FLUSHES,
        "            case Scope.ORDER if stage is Stage.COMMITTING:",
        "            case Scope.ORDER if any(self._earlier(flush)):",
        (_MACHINE + "test_the_refusal_of_a_commit_whose_predecessor_landed_meanwhile_is_no_proof",),
    ),
    Guard(
        "flush-way",
        "What is refused behind records of a partition without a leader is split: its other partitions go on.",
        _FLUSHES,
        "        self._make_way()\n\n    def renewed",
        "\n    def renewed",
        (_PARKED + "test_a_commit_that_is_refused_behind_parked_records_goes_on_without_them",),
    ),
    Guard(
        "flush-shut-out",
        "A commit in doubt behind open records is sent anew under the next epoch: it could land once they have.",
        _FLUSHES,
        "any(other.is_open and other.parked for other",
        "any(False for other",
        (_PARKED + "test_a_commit_in_doubt_behind_parked_records_is_shut_out_by_the_next_epoch_and_sent_anew",),
    ),
    Guard(
        "flush-doubt-refused",
        "A commit in doubt that is refused for its stores holds up others only until the next epoch.",
        _FLUSHES,
        "is_of_stores(flush.error) or any(",
        "any(",
        (
            _PARKED
            + "test_a_commit_in_doubt_whose_partition_loses_its_leader_is_shut_out_by_the_next_epoch_and_parked",
            _DOUBT + "test_a_commit_in_doubt_is_shut_out_and_holds_up_only_the_partition_without_a_leader",
        ),
    ),
    Guard(
        "flush-doubt-named",
        "The next epoch is asked for on condition that what is in doubt has not landed.",
        _FLUSHES,
        "            firsts = (flush.numbers or {}) | firsts\n",
        "            pass\n",
        (
            _PARKED
            + "test_a_commit_in_doubt_whose_partition_loses_its_leader_is_shut_out_by_the_next_epoch_and_parked",
            _DOUBT + "test_a_commit_that_lands_just_before_it_would_be_shut_out_is_not_written_twice",
        ),
    ),
    Guard(
        "producer-doubt-landed",
        "The next epoch of a producer does not begin if what it has in doubt has landed: it would write that again.",
        "sparklog/core/decide/command.py",
        "        check_not_landed(producer, batch)\n",
        "        pass\n",
        (
            "tests/core/idempotence/test_producers.py::test_the_next_epoch_begins_only_if_what_is_in_doubt_has_not_landed",
            _DOUBT + "test_a_commit_that_lands_just_before_it_would_be_shut_out_is_not_written_twice",
        ),
    ),
    Guard(
        "flush-doubt-found",
        "A commit in doubt whose epoch stays has landed, or another one has: it is asked where it is.",
        _FLUSHES,
        "            for flush in self._in_doubt():\n                flush.error,",
        "            for flush in []:\n                flush.error,",
        (_PARKED + "test_a_commit_in_doubt_that_has_landed_keeps_its_epoch_and_is_asked_where_it_is",),
    ),
    Guard(
        "flush-doubt-held",
        "While the next epoch may have begun, a commit of this one is not sent again: it would look fenced.",
        _FLUSHES,
        " or (self.identity.asked is not Renewal.NONE and not flush.is_open):",
        ":",
        (_PARKED + "test_while_nobody_knows_whether_the_epoch_has_begun_a_commit_in_doubt_is_not_sent_again",),
    ),
    Guard(
        "flush-joined-order",
        "Parked flushes are not joined over one whose partitions are not known yet.",
        _FLUSHES,
        "            if all_known and near",
        "            if near",
        (_PARKED + "test_nothing_is_joined_over_a_flush_whose_partitions_are_not_known_yet",),
    ),
    Guard(
        "flush-joined",
        "What waits for the leader of a partition is written in few commits.",
        _FLUSHES,
        "before.is_open and before.stage is Stage.ROUTED:",
        "False:",
        (
            _PARKED + "test_what_is_parked_together_is_one_commit_unless_somebody_is_at_work_on_it",
            _OFFLINE + "test_what_waited_for_a_leader_is_written_together_once_there_is_one",
        ),
    ),
    Guard(
        "flush-joined-most",
        "The work of a join is bounded, however long a partition has no leader.",
        _FLUSHES,
        " and has_room and before.parked",
        " and before.parked",
        (_PARKED + "test_so_many_flushes_are_joined_and_the_next_ones_apart",),
    ),
    Guard(
        "producer-longest-times",
        "A time that a lock can't wait for is refused: it would end the producer's threads.",
        "sparklog/core/producing/producer_settings.py",
        '            if name.endswith("_ms") and value > LONGEST_MS:',
        "            if False:",
        ("tests/core/producing/test_buffer.py::test_settings_are_checked",),
    ),
    Guard(
        "flush-joined-time",
        "Of joined flushes that are not committed, only those fail whose time is over.",
        _FLUSHES,
        "        if not (flush.is_open and left):",
        "        if True:",
        (_PARKED + "test_of_what_is_joined_only_the_oldest_time_out",),
    ),
    Guard(
        "flush-settled",
        "Everything up to an order is settled only once no flush of it is left, wherever it is in the list.",
        _FLUSHES,
        "all(flush.order > order for flush in self._all)",
        "(not self._all or self._all[0].order > order)",
        (_PARKED + "test_whoever_waits_for_a_flush_waits_for_it_though_others_are_joined_around_it",),
    ),
    Guard(
        "flush-trials",
        "Partitions without a leader never take all senders.",
        _FLUSHES,
        "(parked if may_try else [])",
        "parked",
        (_PARKED + "test_many_partitions_without_a_leader_leave_senders_for_the_others",),
    ),
    Guard(
        "flush-new-id",
        "A producer that the chain has forgotten goes on under a new id.",
        "sparklog/core/producing/identity.py",
        "        if self.needed is Renewal.ID:\n            return",
        "        if False:\n            return",
        (_MACHINE + "test_a_producer_that_the_chain_forgot_gets_a_new_id_and_sends_again",),
    ),
    Guard(
        "flush-from-zero",
        "In the next epoch of a producer its sequences begin at 0.",
        _FLUSHES,
        "        self._written.clear()\n",
        "",
        (
            "tests/client/producer/test_starts_again.py::"
            "test_a_producer_goes_on_in_its_next_epoch_after_doubt_and_what_was_lost_arrives_too_late",
        ),
    ),
    Guard(
        "producer-next-epoch",
        "A producer that was fenced does not take the next epoch, which would fence its successor.",
        "sparklog/core/decide/command.py",
        "    if command.producer_epoch not in (None, producer.producer_epoch):",
        "    if False:",
        ("tests/core/decide/test_command.py::test_only_the_newest_instance_of_a_producer_gets_the_next_epoch",),
    ),
    Guard(
        "flush-topic-again",
        "Records for a topic are not written to another one that was created under its name meanwhile.",
        "sparklog/client/producer/sending.py",
        "            if plan.topics[name].topic_id != of_topic.topic_id:",
        "            if False:",
        (_WHOLE + "test_records_of_a_topic_do_not_go_to_one_that_is_created_again",),
    ),
    Guard(
        "producer-room",
        "What waits and is under way stays within buffer_memory.",
        _PRODUCER,
        "            if buffer.room_bytes < size:",
        "            if False:",
        (_WHOLE + "test_a_full_buffer_blocks_and_then_times_out",),
    ),
    Guard(
        "flush-limits",
        "What waits is written once a flush.ms or flush.messages is reached, however long the producer lingers.",
        "sparklog/core/producing/buffer.py",
        "        self._limit_ms = min(times)\n",
        "",
        (
            "tests/core/producing/test_buffer.py::"
            "test_records_of_a_topic_with_flush_messages_are_due_once_so_many_wait",
            "tests/core/producing/test_buffer.py::"
            "test_records_of_a_topic_with_flush_ms_are_due_before_those_who_linger_for_longer",
        ),
    ),
    Guard(
        "flush-limits-sent",
        "`send` wakes a sender once a limit of its topic is reached.",
        _PRODUCER,
        "                enough = True\n",
        "                pass\n",
        (_LIMITS + "test_what_a_topic_lets_wait_is_limited_however_long_the_producer_lingers",),
    ),
    Guard(
        "produce-limits",
        "`sparklog produce` commits once as many lines wait as its topic lets wait.",
        "sparklog/cli/records/produce.py",
        "        batch = min(batch, config.flush_messages or batch)\n",
        "",
        ("tests/cli/records/test_produce.py::test_a_topic_limits_how_much_waits_for_a_commit",),
    ),
    Guard(
        "produce-limits-time",
        "`sparklog produce` lingers no longer than its topic lets lines wait.",
        "sparklog/cli/records/produce.py",
        "        linger_ms = linger_ms if config.flush_ms is None else min(linger_ms, config.flush_ms)\n",
        "",
        ("tests/cli/records/test_produce.py::test_a_topic_limits_for_how_long_records_wait_for_a_commit",),
    ),
    Guard(
        "producer-exit",
        "What was sent before a program ends is written.",
        "sparklog/client/producer/open_producers.py",
        "at_program_end(flush_all)",
        "",
        (_PROCESSES + "test_what_was_sent_before_a_program_ends_is_there",),
    ),
    Guard(
        "producer-fork",
        "A forked child can't send with its parent's producer: nobody would write the records.",
        "sparklog/client/producer/open_producers.py",
        "        producer.abandon()",
        "        pass",
        (_PROCESSES + "test_a_forked_child_sends_nothing_of_its_parent_and_makes_a_producer_of_its_own",),
    ),
    Guard(
        "producer-refusals",
        "A partition without a leader holds up the others of its commit only for as long as asked.",
        "sparklog/client/commits/commit_write.py",
        "                end_ms = min(end_ms, now_ms + self._refusals_ms)  # from the first refusal on\n",
        "",
        (
            "tests/client/commits/test_commit_write.py::"
            "test_a_refusal_that_may_pass_is_waited_out_for_as_long_as_its_author_wants",
        ),
    ),
    Guard(
        "producer-refusals-short",
        "A producer that waits for an answer does not wait as long for a leader.",
        "sparklog/client/producer/sending.py",
        "refusals_ms=min(timeout_ms, SHORT_ATTEMPT_MS)",
        "refusals_ms=timeout_ms",
        (
            "tests/client/producer/test_refusals.py::"
            "test_a_partition_that_loses_its_leader_holds_up_a_commit_for_a_short_time_only",
        ),
    ),
)
