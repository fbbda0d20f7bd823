"""Processor time is read from the right fields, for the right processes."""

from __future__ import annotations

import os

from bench.process_cpu import _TICKS_PER_S, Stat, all_stats, below, own_s, parse_stat, spent_s


def test_fields_are_found_behind_a_name_with_spaces_and_parentheses() -> None:
    line = "42 (java) S (x) S 7 42 42 0 -1 4194560 1 2 3 4 100 20 3000 400 20 0 1 0 99 1 1 1"
    assert parse_stat(line) == Stat(pid=42, parent=7, ticks=120, began=99)


def test_all_descendants_count_once_and_nobody_else() -> None:
    stats = [
        Stat(pid=10, parent=1, ticks=1, began=1),
        Stat(pid=11, parent=10, ticks=300, began=2),
        Stat(pid=12, parent=11, ticks=50_000, began=3),
        Stat(pid=99, parent=1, ticks=600_000, began=4),
    ]
    wanted = {(11, 2): 300, (12, 3): 50_000}
    assert below(10, stats) == wanted
    assert below(10, reversed(stats)) == wanted
    assert below(99, stats) == {}


def test_process_counts_from_the_first_look_on_or_from_its_beginning() -> None:
    before = {(11, 2): 300, (12, 3): 50_000}
    assert spent_s(before, {(11, 2): 301, (12, 3): 50_020}) == 21 / _TICKS_PER_S
    assert spent_s(before, {(11, 2): 300, (13, 4): 5}) == 5 / _TICKS_PER_S  # 12 has ended: not less than 0
    assert spent_s(before, {(12, 9): 7}) == 7 / _TICKS_PER_S  # the same id for another process


def test_this_process_is_found_below_its_parent() -> None:
    mine = next(process for process in below(os.getppid(), all_stats()) if process[0] == os.getpid())
    assert mine[1] > 0
    assert own_s(os.getpid()) >= 0
