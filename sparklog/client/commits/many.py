"""Commits many commands at the same time, so that commands that wait together share an entry of the chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sparklog.core.errors import SparklogError
from sparklog.core.records import CommandResult

T = TypeVar("T")
COMMITS_AT_ONCE = 64  # threads that commit


def commit_many(
    commit: Callable[[T], CommandResult], items: Sequence[T], at_once: int = COMMITS_AT_ONCE
) -> list[CommandResult | SparklogError]:
    """Call `commit` with each item, `at_once` items at a time. Returns, in order, each result or SparklogError."""

    def result_of(item: T) -> CommandResult | SparklogError:
        try:
            return commit(item)
        except SparklogError as error:
            return error

    if len(items) < 2:
        return [result_of(item) for item in items]
    with ThreadPoolExecutor(min(at_once, len(items))) as pool:
        return list(pool.map(result_of, items))
