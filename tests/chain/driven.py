"""A machine of the chain whose requests a test answers by hand, one after the other."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

from sparklog.chain.chain_requests import ChainMachine, Now, Request
from sparklog.core.errors import SparklogError
from sparklog.core.machine import Ended, resume

T = TypeVar("T")
NOW: Final = Now(0, 0, "f" * 32)


class Driven(Generic[T]):
    """`start` gives the first request, `reply` the next one, or the outcome: an error that was raised is one, too."""

    def __init__(self, steps: ChainMachine[T]) -> None:
        self._steps = steps

    def start(self) -> Request:
        return next(self._steps)

    def reply(self, reply: object, now: Now = NOW) -> Request | T | SparklogError | Any:
        try:
            request = resume(self._steps, (reply, now))
        except SparklogError as error:
            return error
        return request.outcome if isinstance(request, Ended) else request
