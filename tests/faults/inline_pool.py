"""A stand-in for ThreadPoolExecutor with one thread, so that calls have the same order in every run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class Inline:
    """As much of a ThreadPoolExecutor as the chain uses."""

    def __init__(self, width: int) -> None:
        self.width = width

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def map(self, call: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
        return [call(each) for each in arguments]
