"""Applies commands to a state as an entry, without the bytes and the author that `chain.head.Draft` needs."""

from __future__ import annotations

from collections.abc import Iterable

from sparklog.core.apply import apply_command
from sparklog.core.records import AppliedCommand, At
from sparklog.core.state import ClusterState


def apply_entry(state: ClusterState, commands: Iterable[AppliedCommand], at: At) -> None:
    """Apply the commands of entry `at`, and set the state's `n` and `time_ms` to those of the entry."""
    for command in commands:
        apply_command(state, command, at)
    state.n = at.n
    state.time_ms = at.time_ms
