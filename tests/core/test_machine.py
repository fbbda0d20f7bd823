"""Machines yield requests and get replies: driven by one loop, or one step at a time."""

from __future__ import annotations

import pytest

from sparklog.core.errors import SparklogError, StoreUnavailable
from sparklog.core.machine import Ended, Machine, answered, resume, run


def doubled(*numbers: int) -> Machine[int, int, list[int]]:
    replies: list[int] = []
    for number in numbers:
        reply = yield number
        replies.append(reply)
    return replies


def test_a_machine_gets_the_reply_to_each_request_in_turn() -> None:
    assert run(doubled(1, 2, 3), lambda number: 2 * number) == [2, 4, 6]


def test_a_machine_without_requests_ends_at_once() -> None:
    assert run(doubled(), lambda number: 2 * number) == []


def test_a_shell_may_perform_one_request_at_a_time() -> None:
    machine = doubled(1, 2)
    assert resume(machine, None) == 1
    assert resume(machine, 10) == 2
    assert resume(machine, 20) == Ended([10, 20])


def test_an_error_is_a_reply_that_the_machine_may_raise() -> None:
    def asks_once() -> Machine[str, object, object]:
        return (yield from answered("ready?"))

    assert run(asks_once(), lambda request: request) == "ready?"
    error: SparklogError = StoreUnavailable("slow down")
    with pytest.raises(StoreUnavailable) as raised:
        run(asks_once(), lambda request: error)
    assert raised.value is error
