"""Each step gets its own time, whichever step calls it and in whichever thread."""

from __future__ import annotations

import itertools
import threading
from types import SimpleNamespace

import pytest

from bench.step_clock import StepClock


def test_step_inside_another_counts_once() -> None:
    now = 0

    def works(for_ns: int) -> None:
        nonlocal now
        now += for_ns

    clock = StepClock(lambda: now)
    inner = clock.timed("inner", lambda: works(5))

    def calling() -> None:
        works(100)
        inner()
        works(1_000)
        inner()

    clock.timed("outer", calling)()
    assert clock.spent_ns == {"outer": 1_100, "inner": 10}


def test_step_that_raises_is_counted_and_left() -> None:
    ticks = itertools.count()
    clock = StepClock(lambda: next(ticks))

    def fails() -> None:
        raise ValueError("no")

    failing = clock.timed("failing", fails)
    with pytest.raises(ValueError, match="no"):
        failing()
    clock.timed("after", lambda: None)()
    assert clock.spent_ns == {"failing": 1, "after": 1}


def test_step_of_another_thread_is_nobodys_callee() -> None:
    clock = StepClock(lambda: 0 if threading.current_thread() is threading.main_thread() else next(ticks))
    ticks = iter([10, 17])
    other = clock.timed("other", lambda: None)

    def starting() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    clock.timed("main", starting)()
    assert clock.spent_ns == {"main": 0, "other": 7}


def test_functions_are_back_in_their_places_and_a_missing_one_is_an_error() -> None:
    def step() -> str:
        return "done"

    module = SimpleNamespace(step=step)
    clock = StepClock(lambda: 0)
    with clock.watching([("step", module, "step")]):
        assert module.step is not step
        assert module.step() == "done"
    assert module.step is step
    with pytest.raises(AttributeError, match="gone"), clock.watching([("step", module, "gone")]):
        pass
