"""Retired objects: no slice names them any more, and their bytes are deleted after a delay (R-04)."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from sparklog.core.state import ClusterState
from sparklog.core.tables.column_blocks import Column
from sparklog.core.types import ObjectNumber


def due_for_deletion(state: ClusterState, clock_ms: int, topics: Collection[str] | None = None) -> Column:
    """Return the numbers of the retired objects whose deletion delay has passed, in ascending order (R-04).

    `topics`: only objects of these topics; None: of all topics. The delay of an object began with the entry that
    retired it. For a deletion, `clock_ms` must come from `job_time`, never from a user, because readers may read a
    retired object until the delay ends. An object whose bytes another object needs is not due.
    """
    due = state.retired.due(clock_ms, topics)
    return np.setdiff1d(due, needed_by_others(state, due)) if len(due) else due


def needed_by_others(state: ClusterState, due: Column) -> list[ObjectNumber]:
    """Return those of the retired objects `due` whose bytes must stay: an object that is not retired needs them.

    The list may include other retired objects whose bytes must stay. Empty, unless an entry bypassed `check_uploads`.
    """
    needed: list[ObjectNumber] = []
    for numbers in state.objects.duplicate_uploads(due):
        retired = [number for number in numbers if number in state.retired]
        if len(retired) < len(numbers):
            needed += retired
    return needed
