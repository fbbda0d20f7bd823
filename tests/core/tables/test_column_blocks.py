"""Blocks of columns: sorted, never changed, and few however many were added and however many rows died."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.tables import column_blocks
from sparklog.core.tables.column_blocks import Block, live_columns, make_block, merged, tidied, without_rows

ORDER = ("key", "start")


def block(*rows: tuple[int, int]) -> Block:
    keys, starts = zip(*rows, strict=True) if rows else ((), ())
    return make_block({"key": np.array(keys, dtype=np.int64), "start": np.array(starts, dtype=np.int64)}, ORDER)


def rows_of(found: Block) -> list[tuple[int, int]]:
    columns = live_columns(found)
    return list(zip(columns["key"].tolist(), columns["start"].tolist(), strict=True))


def dead(found: Block, *rows: int) -> Block:
    return without_rows(found, np.array(rows, dtype=np.int64))


def test_a_block_is_sorted_by_its_order_columns() -> None:
    assert rows_of(block((2, 0), (1, 5), (1, 3))) == [(1, 3), (1, 5), (2, 0)]
    assert (block().rows, rows_of(block())) == (0, [])


def test_columns_in_order_already_are_taken_over_without_a_copy() -> None:
    column = np.arange(5)
    made = make_block({"key": column, "start": column}, ORDER)
    assert made.columns["key"] is column


def test_rows_die_in_another_block_that_shares_the_columns() -> None:
    whole = block(*((0, at) for at in range(6)))
    less = dead(dead(whole, 1, 2), 2, 5)
    assert (whole.dead, less.dead_rows, rows_of(less)) == (None, 3, [(0, 0), (0, 3), (0, 4)])
    assert less.columns is whole.columns
    assert less.live(1, 5).tolist() == [3, 4]
    assert whole.live(1, 3).tolist() == [1, 2]
    assert (whole.dead_runs(), less.dead_runs()) == ([], [(1, 3), (5, 6)])


def test_merging_keeps_what_lives_in_order() -> None:
    both = merged([dead(block((0, 0), (0, 2)), 0), block((0, 1), (0, 3))], ORDER)
    assert (rows_of(both), both.dead) == ([(0, 1), (0, 2), (0, 3)], None)


@given(st.lists(st.integers(1, 9), max_size=80))
def test_blocks_stay_few_however_many_are_added(sizes: list[int]) -> None:
    blocks: list[Block] = []
    at = 0
    for size in sizes:
        blocks = tidied([*blocks, block(*((0, at + each) for each in range(size)))], ORDER)
        at += size
    assert len(blocks) <= 1 + np.log2(1 + at)
    assert sorted(row for each in blocks for row in rows_of(each)) == [(0, each) for each in range(at)]


def test_blocks_that_are_full_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_blocks, "MAX_BLOCK_ROWS", 4)
    blocks = [block(*((key, at) for at in range(3))) for key in range(3)]
    assert [each is kept for each, kept in zip(tidied(blocks, ORDER), blocks, strict=True)] == [True] * 3


def test_a_block_whose_rows_are_all_dead_goes() -> None:
    assert tidied([dead(block((0, 0), (0, 1)), 0, 1)], ORDER) == []


def test_a_block_that_is_mostly_dead_is_rewritten_and_a_half_dead_one_is_not() -> None:
    whole = block(*((0, at) for at in range(4)))
    (half,) = tidied([dead(whole, 0, 1)], ORDER)
    assert half.columns is whole.columns
    (rewritten,) = tidied([dead(whole, 0, 1, 2)], ORDER)
    assert (rewritten.rows, rewritten.dead) == (1, None)


def test_a_block_with_many_separate_dead_runs_is_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_blocks, "MAX_DEAD_RUNS", 2)
    whole = block(*((0, at) for at in range(20)))
    (kept,) = tidied([dead(whole, 1, 3)], ORDER)
    assert kept.rows == 20
    (rewritten,) = tidied([dead(whole, 1, 3, 5)], ORDER)
    assert (rewritten.rows, len(rewritten.dead_runs())) == (17, 0)
