"""Immutable blocks of columns: how the state holds millions of rows without a Python object for each.

A block is a set of numpy columns of equal length, sorted by its order columns, with a mask of the rows that were
removed since it was made (dead rows). A block never changes: `without_rows` returns another block that shares the
columns. Merging blocks of similar size keeps the list of blocks short (the binary counter of log-structured merge
trees), so adding a row costs O(log rows) amortised, whatever the size of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
Rows = npt.NDArray[np.int64]

MAX_BLOCK_ROWS = 1 << 18  # a merge touches at most this many rows; a snapshot chunk has at most this many
MAX_DEAD_RUNS = 256  # a block with more separate dead runs is rewritten, to keep its manifest row small


@dataclass(slots=True)
class ChunkName:
    """The SHA-256 of a block's columns, the name of their chunk in snapshots; None until it is computed.

    The blocks that `without_rows` returns have the same columns, so they share one ChunkName, and the hash is computed
    only once.
    """

    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """Columns of equal length, sorted by the table's order. `dead` marks removed rows; None if no row was removed."""

    columns: Mapping[str, Column]
    rows: int
    dead: npt.NDArray[np.bool_] | None = None
    dead_rows: int = 0
    chunk: ChunkName = field(default_factory=ChunkName)
    derived: dict[str, Any] = field(default_factory=dict)  # values computed from all rows, dead ones included

    def live(self, low: int, high: int) -> Rows:
        """The numbers of the rows in [low, high) that are not dead."""
        rows = np.arange(low, high, dtype=np.int64)
        return rows if self.dead is None else rows[~self.dead[low:high]]

    def dead_runs(self) -> list[tuple[int, int]]:
        """The dead rows as runs [low, high), ascending."""
        if self.dead is None:
            return []
        edges = np.flatnonzero(np.diff(np.concatenate(([False], self.dead, [False])).astype(np.int8)))
        return [(int(low), int(high)) for low, high in edges.reshape(-1, 2)]


def make_block(columns: Mapping[str, Column], order: Sequence[str]) -> Block:
    """A block of `columns`, sorted by the `order` columns (the first is the most significant)."""
    by_order = np.lexsort([columns[name] for name in reversed(order)])
    rows = len(by_order)
    if rows and np.array_equal(by_order, np.arange(rows)):
        return Block(dict(columns), rows)
    return Block({name: column[by_order] for name, column in columns.items()}, rows)


def without_rows(block: Block, rows: Rows) -> Block:
    """Return a block with the same columns, in which `rows` are marked dead in addition to the rows already dead.

    Both blocks share what was derived from the columns.
    """
    dead = np.zeros(block.rows, dtype=np.bool_) if block.dead is None else block.dead.copy()
    dead[rows] = True
    return replace(block, dead=dead, dead_rows=int(np.count_nonzero(dead)))


def row_with(block: Block, name: str, value: int) -> int | None:
    """Return the number of the live row with this value in column `name`, or None.

    The values of the column must ascend, and none may occur twice.
    """
    column = block.columns[name]
    if not block.rows or not column.item(0) <= value <= column.item(-1):
        return None
    row = int(np.searchsorted(column, value))
    return row if column.item(row) == value and (block.dead is None or not block.dead[row]) else None


def rows_with(block: Block, name: str, values: Column, low: int = 0, high: int | None = None) -> Rows:
    """Return the numbers of the live rows in [low, high) that have one of `values` in column `name`.

    In these rows, the values of the column must ascend, and none may occur twice.
    """
    column = block.columns[name][low:high]
    at = np.searchsorted(column, values)
    inside = at < len(column)
    rows: Rows = low + at[inside][column[at[inside]] == values[inside]]
    return rows if block.dead is None else rows[~block.dead[rows]]


def live_columns(block: Block) -> Mapping[str, Column]:
    """The columns of a block without its dead rows."""
    if block.dead is None:
        return block.columns
    lives = ~block.dead
    return {name: column[lives] for name, column in block.columns.items()}


def merged(blocks: Sequence[Block], order: Sequence[str]) -> Block:
    """Return one block with all live rows of `blocks`, sorted by the `order` columns. `blocks` must not be empty."""
    parts = [live_columns(block) for block in blocks]
    return make_block({name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, order)


def tidied(blocks: Sequence[Block], order: Sequence[str]) -> list[Block]:
    """Return `blocks` with fewer dead rows, and with the newest blocks merged if they are similar in size.

    A block without a live row is left out. A block with mostly dead rows, or with many runs of dead rows, is rewritten
    without them. No merged block has more than MAX_BLOCK_ROWS rows. `order`: the columns by which rows are sorted. Call
    this after adding a block at the end or marking rows dead.
    """
    kept = []
    for block in blocks:
        if block.dead_rows == block.rows:
            continue
        worn = block.dead_rows * 2 > block.rows or (block.dead_rows > 0 and len(block.dead_runs()) > MAX_DEAD_RUNS)
        kept.append(merged([block], order) if worn else block)
    while len(kept) >= 2 and _alike(kept[-2], kept[-1]):
        kept[-2:] = [merged(kept[-2:], order)]
    return kept


def _alike(older: Block, newer: Block) -> bool:
    live_older, live_newer = older.rows - older.dead_rows, newer.rows - newer.dead_rows
    return live_older < 2 * live_newer and live_older + live_newer <= MAX_BLOCK_ROWS
