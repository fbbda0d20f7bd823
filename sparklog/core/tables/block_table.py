"""`BlockTable`: rows in blocks of columns, the newest rows in a small tail. All large tables are BlockTables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from sparklog.core.tables.column_blocks import Block, Column, Rows, live_columns, make_block, tidied, without_rows
from sparklog.core.tables.copy_on_write import CopyOnWriteMap

Columns = Mapping[str, Column]
V = TypeVar("V", bound=Hashable)


class BlockTable(ABC):
    """A table that forks in O(1): a fork shares the blocks, and copies a part of the tail when it first writes there.

    New rows go into the tail. A subclass declares the columns, and has the methods that add, find and remove rows. The
    columns of a block never change: a removed row is marked dead.
    """

    __slots__ = ("_tail", "blocks")

    DTYPES: ClassVar[Mapping[str, str]]  # numpy's type of each column
    ORDER: ClassVar[tuple[str, ...]]  # the columns by which a block is sorted, the most significant first
    TAIL_ROWS: ClassVar[int]  # a longer tail is sealed into a block; each snapshot writes the whole tail

    _fields: ClassVar[tuple[str, ...]]
    _tail: CopyOnWriteMap[Any, Any]

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(name for base in cls.__mro__ for name in getattr(base, "__slots__", ()))

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self.blocks: tuple[Block, ...] = tuple(blocks)
        self._tail = CopyOnWriteMap()

    def fork(self) -> Self:
        """Return an equal table. Later changes to one of the two are not seen in the other."""
        other = object.__new__(type(self))
        for name in self._fields:
            value = getattr(self, name)
            setattr(other, name, value.fork() if type(value) is CopyOnWriteMap else value)
        return other

    def __len__(self) -> int:
        return sum(block.rows - block.dead_rows for block in self.blocks) + len(self._tail)

    @abstractmethod
    def _tail_columns(self) -> Columns:
        """Return the rows of the tail as columns, with the rows in any order. Called only if the tail has rows."""

    def _clear_tail(self) -> None:
        self._tail.clear()

    def seal(self) -> None:
        """Make the tail a block, and tidy the blocks (see `tidied`)."""
        self.blocks = tuple(tidied((*self.blocks, *self._tail_block()), self.ORDER))
        self._clear_tail()

    def in_blocks(self) -> Self:
        """Return an equal table without a tail, to be stored. Blocks that need no tidying are shared."""
        other = self.fork()
        other.blocks = (*tidied(self.blocks, self.ORDER), *other._tail_block())
        other._clear_tail()
        return other

    def columns(self, *names: str) -> Columns:
        """Return the columns `names` of all rows; without names, all columns. The order of the rows is arbitrary."""
        parts = [self._columns(()), *map(live_columns, self.in_blocks().blocks)]
        return {name: np.concatenate([part[name] for part in parts]) for name in names or self.DTYPES}

    def all_columns(self) -> Columns:
        """All columns of all rows, sorted by ORDER. Copies the whole table."""
        return make_block(self.columns(), self.ORDER).columns

    def comparable(self) -> Columns:
        """Return `all_columns` in a form in which equal tables have equal columns.

        A column may hold indexes into a tuple of values that differs between two tables. It has the values instead.
        """
        return self.all_columns()

    def same(self, other: Self) -> bool:
        """True if both tables have the same rows, however the rows are cut into blocks."""
        first, second = self.comparable(), other.comparable()
        lengths = {len(columns[name]) for columns in (first, second) for name in columns}
        return len(lengths) == 1 and all(bool((column == second[name]).all()) for name, column in first.items())

    def _seal_if_long(self) -> None:
        if len(self._tail) > self.TAIL_ROWS:
            self.seal()

    def _tail_block(self) -> tuple[Block, ...]:
        """The tail as a tuple of one block, or () if the tail is empty."""
        return (make_block(self._tail_columns(), self.ORDER),) if self._tail else ()

    def _columns(self, rows: Iterable[Sequence[Any]]) -> Columns:
        """Turn rows into columns. Each row has its values in the order of DTYPES."""
        values = list(zip(*rows, strict=True)) or [()] * len(self.DTYPES)
        columns = zip(self.DTYPES.items(), values, strict=True)
        return {name: np.array(column, dtype=dtype) for (name, dtype), column in columns}

    def _kill(self, rows_of: Callable[[Block], Rows]) -> None:
        """Remove rows from the blocks by marking them dead. `rows_of` returns their numbers in a given block."""
        self.blocks = tuple(
            without_rows(block, rows) if len(rows := rows_of(block)) else block for block in self.blocks
        )


def number_of(value: V, values: tuple[V, ...]) -> tuple[int, tuple[V, ...]]:
    """Return the index of `value` in `values`, and `values`, with `value` appended if it was missing.

    The index is stored in a column in place of the value.
    """
    if value not in values:
        values = (*values, value)
    return values.index(value), values


def values_at(numbers: Column, values: Iterable[Hashable]) -> Column:
    """Return a column with item `i` of `values` for each number `i` in `numbers`; -1 means the last item."""
    return np.fromiter(values, dtype=np.object_)[numbers]
