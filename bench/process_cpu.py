"""Processor time of other processes, from /proc: what a run cost, wherever the time was spent."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

ProcessKey = tuple[int, int]  # process id and start time, because ids are used again


@dataclass(frozen=True, slots=True)
class Stat:
    """One process. `ticks` is its own time, without that of its children."""

    pid: int
    parent: int
    ticks: int
    began: int


def parse_stat(text: str) -> Stat:
    """A line of /proc/PID/stat (see proc(5)). A command's name may hold spaces and parentheses."""
    pid, _, rest = text.partition(" ")
    fields = rest.rpartition(")")[2].split()  # from field 3, the state
    return Stat(int(pid), int(fields[1]), int(fields[11]) + int(fields[12]), int(fields[19]))


def below(root: int, stats: Iterable[Stat]) -> dict[ProcessKey, int]:
    """The ticks of all descendants of `root`, without those of `root` itself."""
    by_parent: dict[int, list[Stat]] = {}
    for each in stats:
        by_parent.setdefault(each.parent, []).append(each)
    found: dict[ProcessKey, int] = {}
    parents = [root]
    while parents:
        for child in by_parent.get(parents.pop(), ()):
            found[child.pid, child.began] = child.ticks
            parents.append(child.pid)
    return found


def spent_s(before: Mapping[ProcessKey, int], after: Mapping[ProcessKey, int]) -> float:
    """What processes used between two looks, in seconds. Processes that ended in between do not count.

    Spark's Python daemon ignores the end of its workers, so the times of ended ones are lost. But Spark ends no worker
    that has worked in the last minute.
    """
    return sum(ticks - before.get(process, 0) for process, ticks in after.items()) / _TICKS_PER_S


def own_s(pid: int) -> float:
    """Processor time of a running process, in seconds."""
    return parse_stat(Path(f"/proc/{pid}/stat").read_text()).ticks / _TICKS_PER_S


def all_stats() -> list[Stat]:
    """Every process that runs now."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found.append(parse_stat((folder / "stat").read_text()))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
    return found
