"""A machine of the chain: a generator that yields requests, receives the replies, and in the end returns or raises.

    reply, now = yield Get(key)

It holds no store, clock, lock or random numbers. A shell performs its requests in any way it likes (in threads, in an
event loop, under a test's control). An error of the store is a reply, not an exception: the machine decides what it
means.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from sparklog.chain.chain_requests import GetMany, Now, Reply, Request
from sparklog.core.errors import KeyNotFound, SparklogError

T = TypeVar("T")
Steps = Generator[Request, tuple[Reply, Now], T]


def run(steps: Steps[T], perform: Callable[[Request], Reply], now: Callable[[], Now]) -> T:
    """Perform the requests of a machine one after the other, and return its outcome. Raises what the machine raises."""
    request = next(steps)
    while True:
        try:
            request = steps.send((perform(request), now()))
        except StopIteration as end:
            outcome: T = end.value
            return outcome


def check_answered(reply: Reply) -> None:
    """Raise the reply if it is an error other than KeyNotFound, which is an answer: nothing is under the key."""
    if isinstance(reply, SparklogError) and not isinstance(reply, KeyNotFound):
        raise reply


def many(keys: Sequence[str]) -> Steps[list[bytes | None]]:
    """The objects under these keys, None for those that are missing. Raises the first other error."""
    reply, _ = yield GetMany(keys)
    if isinstance(reply, SparklogError):
        raise reply
    bodies: list[bytes | None] = reply  # type: ignore[assignment]
    return bodies
