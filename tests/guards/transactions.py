"""Guards of transactions, static members and the clients of asyncio: exactly once, and nothing lost or taken back."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_TRANSACTION: Final = "sparklog/client/producer/transaction.py"
_IN_TRANSACTION: Final = "sparklog/client/consumer/in_transaction.py"
_READING: Final = "sparklog/client/consumer/reading.py"
_CONSUMER: Final = "sparklog/client/consumer/consumer.py"
_AIO: Final = "sparklog/client/aio.py"
_TESTS: Final = "tests/client/producer/test_transactions.py::"
_STATIC: Final = "tests/client/groups/test_static_members.py::"
_ASYNC: Final = "tests/client/test_aio.py::"

GUARDS: Final = (
    Guard(
        "transaction-one-commit",
        "Records and offsets are one command: a process that dies between two would make its records again.",
        _TRANSACTION,
        "        return partial(commit_append, self._connection, plan, [written], command), settings.timeout_ms "
        "- spent_ms\n",
        "        alone = append_command(plan, [written])\n"
        "        return lambda timeout_ms: (\n"
        "            commit_append(self._connection, plan, [written], alone, timeout_ms),\n"
        "            self._connection.submit(offsets),\n"
        "        )[0], settings.timeout_ms\n",
        (
            "tests/client/producer/test_transaction_kills.py::test_a_killed_process_and_the_next_one_make_each_bill_once",
        ),
        "committed",
    ),
    Guard(
        "transaction-goes-back",
        "What a block that failed had read comes again.",
        _TRANSACTION,
        "            self._consumer.go_back()\n",
        "            pass\n",
        (_TESTS + "test_a_block_that_fails_writes_nothing_and_its_records_come_again",),
    ),
    Guard(
        "transaction-taken-away",
        "Records of partitions that are another member's by now are not written without their offsets.",
        _IN_TRANSACTION,
        "        if self._reading.gave_up_unread:\n",
        "        if False:\n",
        (_TESTS + "test_partitions_that_are_taken_away_inside_a_block_end_it",),
    ),
    Guard(
        "transaction-settled",
        "A commit without an answer is looked up before the consumer reads on: it may land later.",
        _READING,
        "        self.settle()\n        self.read_at",
        "        self.read_at",
        (_TESTS + "test_a_commit_without_an_answer_is_settled_before_the_consumer_reads_on",),
    ),
    Guard(
        "transaction-settled-commit",
        "Offsets of a transaction without an answer are not committed without its records.",
        _CONSUMER,
        "        self._reading.settle()\n",
        "",
        (_TESTS + "test_a_commit_without_an_answer_is_settled_before_the_consumer_reads_on",),
    ),
    Guard(
        "transaction-still-unsettled",
        "A block that fails behind a commit without an answer does not forget that this is to be looked up.",
        _READING,
        "        self.gave_up_unread, self.must_read = False, True\n",
        "        self.gave_up_unread, self.must_read, self._settle = False, True, None\n",
        (
            _TESTS + "test_a_commit_without_an_answer_is_settled_before_the_consumer_reads_on",
            "tests/client/producer/test_transaction_histories.py::test_each_order_makes_one_bill",
        ),
    ),
    Guard(
        "transaction-same-records-again",
        "Records that come again are not also written from what was handed out before.",
        _IN_TRANSACTION,
        "        if with_records and self._reading.must_read:\n",
        "        if False:\n",
        (_TESTS + "test_records_of_a_block_that_failed_are_not_sent_again_before_they_come_again",),
    ),
    Guard(
        "transaction-iterated",
        "After a commit without an answer, an iteration goes on where the group is.",
        _READING,
        "        self._settle, self.must_read = settle, True\n        self.moves += 1\n",
        "        self._settle, self.must_read = settle, True\n",
        (_TESTS + "test_a_transaction_for_each_record_of_an_iteration_of_which_one_gets_no_answer",),
    ),
    Guard(
        "transaction-other-consumer",
        "A consumer that was closed or began anew in the block has lost the offsets of the block's records.",
        _IN_TRANSACTION,
        "        if self._reading.begins != self._begins:\n",
        "        if False:\n",
        (_TESTS + "test_a_consumer_that_ends_or_begins_anew_inside_a_block_ends_it",),
    ),
    Guard(
        "transaction-offsets-first",
        "A consumer that has read in the block before it is known to it would not go back.",
        _TRANSACTION,
        "            if self._waiting or consumer.read_at > self._begun_at:\n",
        "            if False:\n",
        (_TESTS + "test_a_consumer_comes_first_in_the_block",),
    ),
    Guard(
        "transaction-fence",
        "A transaction of a producer that has a newer instance is refused.",
        "sparklog/core/decide/append.py",
        "    _check_fence(state, command.fence)\n",
        "",
        (_TESTS + "test_a_producer_that_was_fenced_commits_no_transaction",),
    ),
    Guard(
        "transaction-closed-producer",
        "A producer that was closed in the block commits nothing.",
        "sparklog/client/producer/producer.py",
        "                raise copy.copy(self._refusal)\n            identity",
        "                pass\n            identity",
        (_TESTS + "test_a_producer_that_was_closed_commits_no_transaction",),
    ),
    Guard(
        "transaction-auto-commit",
        "A consumer that commits by itself takes no part in a transaction: it could commit before it.",
        _CONSUMER,
        "            if self._reading.auto_commits:\n",
        "            if False:\n",
        (_TESTS + "test_what_a_transaction_refuses",),
    ),
    Guard(
        "transaction-order",
        "What was sent before a transaction is in the log before it.",
        _TRANSACTION,
        "            self._flush()\n",
        "",
        (_TESTS + "test_what_was_sent_before_comes_before",),
    ),
    Guard(
        "static-fenced",
        "A static member whose place was taken does not take it back.",
        "sparklog/core/decide/groups.py",
        "        if command.again:\n",
        "        if False:\n",
        (_STATIC + "test_the_former_life_of_a_member_is_fenced_and_does_not_take_its_place_back",),
    ),
    Guard(
        "static-share",
        "A static member that comes back has the share that it had, in the same generation.",
        "sparklog/core/decide/groups.py",
        "        if before.topics == topics:\n",
        "        if False:\n",
        (_STATIC + "test_a_restart_within_the_session_keeps_the_share_without_a_rebalance",),
    ),
    Guard(
        "static-stays",
        "A static member that is closed keeps its place for its session.",
        "sparklog/client/groups/member.py",
        "        if not self._is_static:\n",
        "        if True:\n",
        (_STATIC + "test_a_restart_within_the_session_keeps_the_share_without_a_rebalance",),
    ),
    Guard(
        "async-put-back",
        "What was read and not handed out yet is not committed.",
        _AIO,
        "        if unread:\n            await self._call(_go_back, unread)\n",
        "",
        (_ASYNC + "test_what_the_caller_has_not_got_yet_is_not_committed",),
    ),
    Guard(
        "async-cancelled-close",
        "A consumer whose close is cancelled is closed all the same.",
        _AIO,
        "        await _shielded(asyncio.wrap_future(self._ending))\n",
        "        await asyncio.wrap_future(self._ending)\n",
        (_ASYNC + "test_a_close_that_is_cancelled_closes",),
    ),
    Guard(
        "async-loop",
        "A producer that is used in another loop than its own refuses that, and does not wait for ever.",
        _AIO,
        "        if asyncio.get_running_loop() is not self._loop:\n",
        "        if False:\n",
        (_ASYNC + "test_a_producer_is_of_the_loop_in_which_it_was_started",),
    ),
    Guard(
        "async-cancelled-poll",
        "What a poll that is cancelled reads comes with the next one.",
        _AIO,
        "            raise  # the records that it reads are for the next call, even if it is done by now\n",
        "            self._polling = None\n            raise\n",
        (_ASYNC + "test_a_poll_that_is_cancelled_loses_nothing",),
    ),
    Guard(
        "deserializer-position",
        "The records behind one that can't be deserialized are not passed over.",
        _CONSUMER,
        "                    self._reading.hand_out(ends)",
        "                    self._reading.hand_out(read.ends)",
        (
            "tests/client/test_serializers.py::"
            "test_a_record_that_cannot_be_deserialized_comes_after_those_before_it_and_can_be_passed_over",
        ),
    ),
)
