"""Runs work that may never end in a daemon thread, so that the process can end before the work does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_daemon(work: Callable[[], T], name: str) -> Future[T]:
    """Begin `work` in a daemon thread, and return the future of its result. The future can't be cancelled.

    `work` may never end, so wait for the future with a timeout. Raises RuntimeError if the process can start no more
    threads.
    """
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return outcome
