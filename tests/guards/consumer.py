"""Guards of the Python consumer: where it goes on, what it commits, and for whom."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_CORE: Final = "sparklog/core/reading/consumer_positions.py"
_READING: Final = "sparklog/client/consumer/reading.py"
_CONSUMER: Final = "sparklog/client/consumer/consumer.py"
_POSITIONS: Final = "tests/core/reading/test_consumer_positions.py::"
_ALONE: Final = "tests/client/test_consumer.py::"
_GROUPS: Final = "tests/client/test_consumer_groups.py::"
_CLUSTER: Final = "sparklog/client/cluster.py"
_WAITING: Final = "sparklog/client/waiting.py"
_CLOSE: Final = "tests/client/test_cluster_close.py::"
_WAKEUPS: Final = "tests/client/test_consumer_wakeups.py::"
_FETCHES: Final = "sparklog/client/consumer/fetches.py"
_AHEAD: Final = "tests/client/test_consumer_ahead.py::"
_CONSUME: Final = "sparklog/cli/records/consume_reading.py"
_PRINTED: Final = "tests/cli/records/test_consume.py::"
_COMMITS: Final = "tests/client/test_consumer_commits.py::"

GUARDS: Final = (
    Guard(
        "consumer-generation-between",
        "What others may have read in between begins again from what is committed.",
        _CORE,
        "        kept = share.keys() & self._held.keys() if is_next else frozenset()",
        "        kept = share.keys() & self._held.keys()",
        (
            _POSITIONS + "test_what_others_may_have_read_in_between_begins_again_from_what_is_committed",
            "tests/core/reading/test_consumer_histories.py::test_histories_of_consumers",
        ),
    ),
    Guard(
        "consumer-reset-base",
        "After a reset, records count as read from the new position on; skipped ones do not.",
        _CORE,
        "        if not keeps_base:\n            held.base = to, held.leader_epoch\n",
        "",
        (
            _POSITIONS + "test_records_that_a_reset_leaves_out_do_not_count_as_read",
            _POSITIONS + "test_what_an_unclean_election_gave_up_is_a_loss_or_is_read_again",
        ),
    ),
    Guard(
        "consumer-group-number",
        "A group that was created again has other generations.",
        "sparklog/core/groups/membership.py",
        "(before.group_number, before.number + 1) == (self.group_number, self.number)",
        "before.number + 1 == self.number",
        (_POSITIONS + "test_what_others_may_have_read_in_between_begins_again_from_what_is_committed",),
    ),
    Guard(
        "consumer-generation-of-commit",
        "A commit is fenced by the generation under which its records were read, not by the newest one.",
        "sparklog/client/consumer/shares.py",
        "            return self._member.prepared(offsets, metadata, generation)",
        "            return self._member.prepared(offsets, metadata)",
        (_GROUPS + "test_a_commit_in_the_callback_of_a_rebalance_is_of_the_generation_before",),
    ),
    Guard(
        "consumer-own-partitions",
        "A member commits and moves only partitions of its own.",
        _CONSUMER,
        '        has = ", ".join(f"{topic}-{index}" for topic, index in self.assignment()[:10])',
        "        return TopicPartition(next(iter(self._reading.positions.share)).topic_id, place[1])  # type: ignore\n"
        '        has = ", ".join(f"{topic}-{index}" for topic, index in self.assignment()[:10])',
        (_GROUPS + "test_a_consumer_that_was_replaced_commits_nothing",),
    ),
    Guard(
        "consumer-group-created-again",
        "What was read in a group that is gone is not committed to the next one of its name.",
        "sparklog/client/groups/member.py",
        "            group_number=fence.group_number,\n",
        "",
        (_GROUPS + "test_one_that_was_evicted_moves_nothing_in_a_group_that_was_created_again",),
    ),
    Guard(
        "consumer-forked",
        "A forked child does not read and commit as its parent.",
        _CONSUMER,
        "        self._owner.check()\n",
        "",
        (_GROUPS + "test_a_forked_child_neither_reads_nor_leaves_for_its_parent",),
    ),
    Guard(
        "consumer-forked-close",
        "A forked child does not leave the group for its parent.",
        _CONSUMER,
        "        if self._closed or not self._owner.is_here:",
        "        if self._closed:",
        (_GROUPS + "test_a_forked_child_neither_reads_nor_leaves_for_its_parent",),
    ),
    Guard(
        "consumer-end-looked-up-again",
        "An end that was not committed, for whatever reason, is no position.",
        _READING,
        "            if not is_begun:  # choose these starts again: in the next generation, or after an error",
        "            if False:",
        (
            _COMMITS + "test_an_end_whose_commit_failed_is_committed_before_anything_is_read",
            _COMMITS + "test_an_end_that_was_not_committed_is_looked_up_again",
        ),
    ),
    Guard(
        "consumer-end-committed",
        "A group that begins at the end commits that at once.",
        _READING,
        "            is_begun = is_begun or self.commits.commit_if_still_its_own(self.positions, at_end)",
        "            is_begun = True",
        (_COMMITS + "test_a_group_that_begins_at_the_end_commits_that_at_once",),
    ),
    Guard(
        "consumer-new-partitions",
        "Partitions that came after the subscription begin at their start.",
        _CORE,
        "            is_new = key.partition >= self._known.get(key.topic_id, 0)",
        "            is_new = False",
        (_POSITIONS + "test_partitions_that_came_after_it_subscribed_begin_at_their_start",),
    ),
    Guard(
        "consumer-given-up",
        "What an unclean election gave up after it was read is noticed.",
        _CORE,
        "        if valid_to < at:",
        "        if False:",
        (_POSITIONS + "test_what_an_unclean_election_gave_up_is_a_loss_or_is_read_again",),
    ),
    Guard(
        "consumer-handed-out",
        "A position is what was handed out: an error, or a loop that was left, loses nothing that was fetched.",
        _FETCHES,
        "fetch.at != unread.offsets.start",
        "False",
        (_ALONE + "test_a_loop_that_was_left_goes_on_behind_its_last_record",),
    ),
    Guard(
        "consumer-stale-loop",
        "After a seek, a pause or a rebalance nothing is handed out of what was fetched before.",
        _CONSUMER,
        "                    if reading.moves != moves:\n                        break  # fetch again",
        "                    if False:\n                        break  # fetch again",
        (_ALONE + "test_a_seek_in_a_loop_is_followed_at_once",),
    ),
    Guard(
        "consumer-other-epoch",
        "A read that began under another leader epoch does not go on: its records may be given up.",
        _FETCHES,
        "            or fetch.plan.leader_epoch != state.partitions[unread.key].replication.leader_epoch\n",
        "",
        (_ALONE + "test_a_read_does_not_go_on_with_what_an_election_gave_up",),
    ),
    Guard(
        "consumer-records-before-an-error",
        "An error comes after the records before it.",
        _READING,
        "            if not pieces and not was_removed:",
        "            if not was_removed:",
        (_ALONE + "test_an_error_of_a_store_loses_nothing",),
    ),
    Guard(
        "consumer-retention-was-faster",
        "Objects that retention deleted under an open read are passed as the reset policy says.",
        _READING,
        "            if not pieces and not was_removed:",
        "            if not pieces:",
        (_ALONE + "test_objects_that_retention_deletes_under_an_open_read_are_passed_as_well",),
    ),
    Guard(
        "consumer-loop-outrun",
        "What another call has handed out is not handed out by a loop around it.",
        _READING,
        "        has_looked = False\n        self.moves += 1\n",
        "        has_looked = False\n",
        (_ALONE + "test_what_another_call_has_handed_out_is_not_handed_out_by_the_loop_around_it",),
    ),
    Guard(
        "consumer-error-commits-nothing",
        "After an error in a with block, what was handed out last is not committed.",
        _CONSUMER,
        "        self._close(commits=kind in (None, Wakeup))",
        "        self._close(commits=True)",
        (_COMMITS + "test_after_an_error_nothing_is_committed_that_may_not_be_processed",),
    ),
    Guard(
        "consumer-one-thread",
        "Two threads do not read with one consumer.",
        _CONSUMER,
        "        if not self._in_use.acquire(blocking=False):",
        "        if not self._in_use.acquire(blocking=False) and False:",
        (_ALONE + "test_it_is_for_one_thread_at_a_time",),
    ),
    Guard(
        "consumer-topic-gone",
        "A consumer that commits by itself goes on when one of its topics was deleted.",
        "sparklog/client/consumer/commits.py",
        "            except SparklogError as error:\n                self._log_failure({}, error)",
        "            except ZeroDivisionError as error:\n                self._log_failure({}, error)",
        (_COMMITS + "test_a_topic_that_is_deleted_does_not_stop_a_consumer_that_commits_by_itself",),
    ),
    Guard(
        "consumer-commits-in-order",
        "A commit waits for those before it: a later number would make them count as done.",
        "sparklog/client/consumer/commits.py",
        "        self.wait()\n        if rows:",
        "        if rows:",
        (_COMMITS + "test_asynchronous_commits_keep_their_order_and_are_reported_by_later_calls",),
    ),
    Guard(
        "consumer-cluster-closes",
        "The end of a cluster is the end of its consumers: they commit, and leave their groups.",
        _CLUSTER,
        "        self._consumers.add(consumer)\n",
        "",
        (_CLOSE + "test_its_consumers_commit_what_they_handed_out_and_leave_their_groups",),
    ),
    Guard(
        "consumer-cluster-error",
        "After an error in the with block of a cluster, its consumers commit nothing.",
        _CLUSTER,
        "        self._close(kind)",
        "        self._close(None)",
        (_CLOSE + "test_after_an_error_its_consumers_leave_but_commit_nothing",),
    ),
    Guard(
        "consumer-closed-after-producers",
        "No consumer of a cluster that ends commits records whose results its producers have not written.",
        _CLUSTER,
        "            for consumer in list(self._consumers):\n"
        "                last_first.push(partial(_end_of, consumer, kind))\n"
        "            last_first.callback(self._unawaited.close)\n"
        "            for producer in list(self._producers):\n"
        "                last_first.callback(producer.close)\n",
        "            for producer in list(self._producers):\n"
        "                last_first.callback(producer.close)\n"
        "            for consumer in list(self._consumers):\n"
        "                last_first.push(partial(_end_of, consumer, kind))\n"
        "            last_first.callback(self._unawaited.close)\n",
        (_CLOSE + "test_producers_have_written_before_consumers_commit",),
    ),
    Guard(
        "consumer-closed-after-an-interrupt",
        "If a cluster's producers did not write everything, its consumers commit nothing.",
        _CLUSTER,
        "    consumer.__exit__((kind_since or kind) if kind in (None, Wakeup) else kind)",
        "    consumer.__exit__(kind or kind_since)",
        (_CLOSE + "test_after_an_interrupt_of_its_producers_no_consumer_commits",),
    ),
    Guard(
        "consumer-wakeup-in-a-pause",
        "A wakeup ends the pause between two looks at the chain.",
        _WAITING,
        "        self.clock.pause(pause_ms, bell)",
        "        self.clock.pause(pause_ms)",
        (_WAKEUPS + "test_a_pause_between_two_looks_at_the_chain",),
    ),
    Guard(
        "consumer-wakeup-at-a-coordinator",
        "A wakeup does not wait for the coordinator's answer.",
        _WAITING,
        "            if self._bell is None or not waiting.can_ask:",
        "            if True:",
        (_WAKEUPS + "test_a_coordinator_that_has_not_answered",),
    ),
    Guard(
        "consumer-wakeup-one-request",
        "Wakeups do not pile up requests at the coordinator.",
        _WAITING,
        "        if self._asked is None or not self._asked.serves(wanted, deadline_ms):",
        "        if True:",
        (_WAKEUPS + "test_a_coordinator_that_has_not_answered",),
    ),
    Guard(
        "consumer-wakeup-short-wait",
        "A short wait does not last as long as the request of a longer one that was woken.",
        "sparklog/client/asked_coordinator.py",
        " and self._until_ms <= deadline_ms + SLACK_MS",
        "",
        (_WAKEUPS + "test_a_short_wait_has_a_request_of_its_own",),
    ),
    Guard(
        "consumer-columns",
        "A read goes on only with the columns that it was begun with.",
        _FETCHES,
        "            or fetch.columns != columns\n",
        "",
        (_ALONE + "test_a_table_has_only_the_columns_that_are_wanted",),
    ),
    Guard(
        "consumer-first-read",
        "A consumer that has just begun, or has moved, fetches no more than the call wants.",
        _FETCHES,
        "        if self._ends.get(key) != offsets.start or",
        "        if",
        (_ALONE + "test_a_first_read_fetches_no_more_than_the_call_wants",),
    ),
    Guard(
        "consume-one-after-the-other",
        "consume prints partition by partition, however many records a call reads.",
        _CONSUME,
        "            self.consumer.pause(*ranges)\n",
        "",
        (_PRINTED + "test_partitions_are_printed_one_after_the_other_also_if_they_are_long",),
    ),
    Guard(
        "consume-end-in-compacted",
        "consume stops before the time B of @A:B, though offsets are missing before it.",
        _CONSUME,
        " if self._ends else table",
        " if False else table",
        (_PRINTED + "test_the_end_in_a_compacted_log_is_an_offset_not_a_number_of_records",),
    ),
    Guard(
        "consume-topic-deleted",
        "A follower of a topic that is deleted does not wait for ever.",
        _CONSUME,
        "                self._check_topic(state, topic)\n",
        "                pass\n",
        (_PRINTED + "test_the_end_of_the_topic_is_told_to_a_follower",),
    ),
    Guard(
        "consumer-fetches-ahead",
        "The first reads of the next partitions are under way while one is read.",
        _FETCHES,
        "                fetch.ahead_bytes = fetch.ahead.begin(left)\n",
        "",
        (_AHEAD + "test_the_next_partitions_are_fetched_while_the_first_one_is_read",),
    ),
    Guard(
        "consumer-ahead-again",
        "A read that has come to the end of its plan makes room for one that is begun ahead.",
        _FETCHES,
        "        if piece.end == fetch.plan.end:",
        "        if piece.batch is None:",
        (_AHEAD + "test_the_next_partitions_are_fetched_while_the_first_one_is_read",),
    ),
    Guard(
        "consumer-ahead-memory",
        "What is fetched ahead takes no more memory than a call may.",
        _FETCHES,
        "        left = most_bytes - sum(fetch.ahead_bytes for fetch in self._open.values())",
        "        left = 1 << 40",
        (_AHEAD + "test_what_is_fetched_ahead_takes_no_more_than_a_call_may",),
    ),
    Guard(
        "consumer-open-memory",
        "The open reads of all partitions together hold a bounded number of bytes.",
        _FETCHES,
        "        self._make_room()\n",
        "",
        (_AHEAD + "test_open_reads_hold_a_bounded_number_of_bytes",),
    ),
    Guard(
        "consumer-small-reads",
        "While the open reads hold as much as they may, another one fetches no more than the call wants.",
        _FETCHES,
        " or not self._has_room():\n            first",
        ":\n            first",
        (_AHEAD + "test_beyond_that_a_read_is_only_of_what_the_call_wants",),
    ),
    Guard(
        "consumer-index-once",
        "Threads that want the same index at the same time read it once.",
        "sparklog/log/read/object_reader.py",
        "                if coming is None:",
        "                if True:",
        ("tests/log/test_index_cache.py::test_two_threads_read_it_once",),
    ),
    Guard(
        "consumer-index-after-fork",
        "A forked child does not wait for an index that a thread of its parent reads.",
        "sparklog/log/read/object_reader.py",
        "        self._lock, self._coming = Lock(), {}",
        "        self._lock = Lock()",
        ("tests/log/test_index_cache.py::test_a_forked_child_does_not_wait_for_a_thread_of_its_parent",),
    ),
)
