"""A killed run is distinguished from one that ends and from one that fails."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.faults.killed_runs import Ended, KilledRuns, serve


def run(note: Callable[[], object], notes: int, end: str) -> int:
    for _ in range(notes):
        note()
    if end == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if end == "raises":
        raise ValueError("on purpose")
    return 1 if end == "fails" else 0


@pytest.fixture(scope="module")
def runs() -> Iterator[KilledRuns]:
    with KilledRuns("tests.faults.test_killed_runs") as found:
        yield found


def test_what_was_noted_outlives_the_kill(runs: KilledRuns) -> None:
    assert runs(3, "killed") == Ended(True, 3)
    assert runs(2, "ends") == Ended(False, 2)
    assert runs(0, "killed") == Ended(True, 0)


@pytest.mark.parametrize("end", ["fails", "raises"])
def test_a_run_that_fails_is_not_taken_for_one_that_was_killed(runs: KilledRuns, end: str) -> None:
    with pytest.raises(AssertionError, match="ended with"):
        runs(1, end)


if __name__ == "__main__":
    serve(run)
