"""A machine as a generator: it yields requests, receives the reply to each, and in the end returns or raises.

    reply = yield Get(key)

It holds no store, clock, lock or random numbers. A shell performs its requests in any way it likes (in threads, in an
event loop, under a test's control). An error is a reply, not an exception: the machine decides what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sparklog.core.errors import SparklogError

Q = TypeVar("Q")  # its requests
R = TypeVar("R")  # their replies
T = TypeVar("T")  # its outcome
Machine = Generator[Q, R, T]


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """The outcome of a machine that has ended. `resume` returns it in place of a next request."""

    outcome: T


def resume(machine: Machine[Q, R, T], reply: R | None) -> Q | Ended[T]:
    """Give a machine the reply to its last request. Returns its next request, or `Ended` with its outcome.

    The first call starts the machine: its `reply` is None. Raises what the machine raises.
    """
    try:
        return machine.send(reply)  # type: ignore[arg-type]
    except StopIteration as end:
        return Ended(end.value)


def run(machine: Machine[Q, R, T], perform: Callable[[Q], R]) -> T:
    """Perform the requests of a machine one after the other, and return its outcome. Raises what the machine raises."""
    request = resume(machine, None)
    while not isinstance(request, Ended):
        request = resume(machine, perform(request))
    return request.outcome


def answered(request: Q) -> Machine[Q, Any, Any]:
    """Yield the request, and return the reply. If the reply is an error, raise it."""
    reply = yield request
    if isinstance(reply, SparklogError):
        raise reply
    return reply
