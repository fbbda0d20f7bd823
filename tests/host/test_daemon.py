"""Work in a daemon thread: its outcome is a future, and its caller may stop waiting."""

from __future__ import annotations

import threading
from concurrent.futures import wait

import pytest

from sparklog.host.daemon import in_daemon


def test_the_outcome_is_the_result_or_the_error() -> None:
    assert in_daemon(lambda: 7, "seven").result(60) == 7
    with pytest.raises(ZeroDivisionError):
        in_daemon(lambda: 1 // 0, "zero").result(60)


def test_work_that_hangs_has_no_outcome_yet_and_is_not_cancelled() -> None:
    hold = threading.Event()

    def work() -> threading.Thread:
        hold.wait(60)
        return threading.current_thread()

    outcome = in_daemon(work, "hangs")
    wait((outcome,), 0.01)
    assert not outcome.done()
    assert not outcome.cancel()
    hold.set()
    thread = outcome.result(60)
    assert (thread.name, thread.daemon) == ("hangs", True)
