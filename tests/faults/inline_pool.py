"""Stands for a ThreadPoolExecutor: one thread, so that the order of calls is the same in each run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class Inline:
    """As much of one as the chain uses."""

    def __init__(self, width: int) -> None:
        self.width = width

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def map(self, call: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
        return [call(each) for each in arguments]
