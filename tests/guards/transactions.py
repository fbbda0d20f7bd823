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
        "        return partial(commit_append, self._connection, plan, [written], command, "
        "settings.timeout_ms - spent_ms)\n",
        "        alone = append_command(plan, [written])\n"
        "        return lambda: (\n"
        "            commit_append(self._connection, plan, [written], alone, settings.timeout_ms),\n"
        "            self._connection.submit(offsets),\n"
        "        )[0]\n",
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
        "        self.settle()\n        deadline_ms",
        "        deadline_ms",
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
        "        self.gave_up_unread = False\n        self.positions.go_back()\n",
        "        self._settle, self.gave_up_unread = None, False\n        self.positions.go_back()\n",
        (
            _TESTS + "test_a_commit_without_an_answer_is_settled_before_the_consumer_reads_on",
            "tests/client/producer/test_transaction_histories.py::test_each_order_makes_one_bill",
        ),
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
        "async-cancelled-poll",
        "What a poll that is cancelled reads comes with the next one.",
        _AIO,
        "            raise  # what it reads is for the next call, also if it is done by now\n",
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
