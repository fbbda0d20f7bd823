"""Objects that no slice names any more, until their bytes are deleted: blocks of columns plus a small tail.

Deleting a topic may retire millions of objects at once, so they are not kept as Python objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from sparklog.core.tables.block_table import BlockTable, Columns, number_of, values_at
from sparklog.core.tables.column_blocks import (
    MAX_BLOCK_ROWS,
    Block,
    Column,
    live_columns,
    make_block,
    row_with,
    rows_with,
    tidied,
)
from sparklog.core.tables.copy_on_write import CopyOnWriteMap
from sparklog.core.types import ObjectNumber, StoreId

StoreSets = tuple[tuple[StoreId, ...], ...]


class Retired(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An object that no slice names any more. Its bytes may be deleted from `delete_after_ms` on.

    `topic` is part of the object's name. `stores`: stores that may have a copy, in addition to the object's holders.
    """

    number: ObjectNumber
    delete_after_ms: int
    topic: str
    stores: tuple[StoreId, ...] = ()


class RetiredTable(BlockTable):
    """The retired objects by number, each with its deletion time, its topic and stores that may have copies of it."""

    __slots__ = ("store_sets", "topics")

    DTYPES: ClassVar[Mapping[str, str]] = {
        "number": "i8",
        "delete_after_ms": "i8",
        "topic": "i4",  # row of `topics`
        "stores": "i4",  # row of `store_sets`, or -1: none is known
    }
    ORDER = ("number",)
    TAIL_ROWS = 1024

    _tail: CopyOnWriteMap[ObjectNumber, Retired]

    def __init__(
        self, blocks: Iterable[Block] = (), topics: Iterable[str] = (), store_sets: Iterable[tuple[StoreId, ...]] = ()
    ) -> None:
        super().__init__(blocks)
        self.topics: tuple[str, ...] = tuple(topics)  # names of topics that have retired objects, or had
        self.store_sets: StoreSets = tuple(store_sets)

    def __contains__(self, number: ObjectNumber) -> bool:
        return number in self._tail or any(row_with(block, "number", number) is not None for block in self.blocks)

    def __iter__(self) -> Iterator[Retired]:
        """All retired objects, in arbitrary order."""
        for block in self.blocks:
            yield from self._rows(live_columns(block))
        yield from self._tail.values()

    def due(self, clock_ms: int, topics: Collection[str] | None = None) -> Column:
        """Return the numbers, ascending, of the objects whose bytes may be deleted at `clock_ms`.

        `topics`: only objects of the topics with these names; None: of all topics.
        """
        tail = self._tail.values()
        in_tail = [
            retired.number
            for retired in tail
            if retired.delete_after_ms <= clock_ms and (topics is None or retired.topic in topics)
        ]
        due = [np.array(in_tail, dtype=self.DTYPES["number"])]
        chosen = [row for row, topic in enumerate(self.topics) if topics is None or topic in topics]
        for block in self.blocks:
            columns = live_columns(block)
            is_due = (columns["delete_after_ms"] <= clock_ms) & np.isin(columns["topic"], chosen)
            due.append(columns["number"][is_due])
        return np.sort(np.concatenate(due))

    def of(self, numbers: Sequence[ObjectNumber]) -> list[Retired]:
        """Return the retired objects with these numbers, in the same order, without those that are not in the table."""
        wanted = np.array(numbers, dtype=np.int64)
        known = {number: self._tail[number] for number in numbers if number in self._tail}
        for block in self.blocks:
            rows = rows_with(block, "number", wanted)
            columns = {name: block.columns[name][rows] for name in self.DTYPES}
            known |= {retired.number: retired for retired in self._rows(columns)}
        return [known[number] for number in numbers if number in known]

    def add_all(self, numbers: Column, delete_after_ms: int, topic: str, stores: tuple[StoreId, ...] = ()) -> None:
        """Add objects of a topic by their numbers (int64, ascending). None of them may be in the table yet.

        Their bytes may be deleted from `delete_after_ms` on. `stores`: more stores that may have a copy.
        """
        if len(numbers) <= self.TAIL_ROWS:
            self._tail.put_all(
                {
                    number: Retired(number, delete_after_ms, topic, stores)
                    for number in map(ObjectNumber, numbers.tolist())
                }
            )
            self._seal_if_long()
            return
        self.seal()
        row, stores_row = self._topic_row(topic), self._stores_row(stores)
        for low in range(0, len(numbers), MAX_BLOCK_ROWS):
            part = numbers[low : low + MAX_BLOCK_ROWS].astype(self.DTYPES["number"])
            columns = {
                "number": part,
                "delete_after_ms": np.full(len(part), delete_after_ms, dtype=self.DTYPES["delete_after_ms"]),
                "topic": np.full(len(part), row, dtype=self.DTYPES["topic"]),
                "stores": np.full(len(part), stores_row, dtype=self.DTYPES["stores"]),
            }
            self.blocks = tuple(tidied((*self.blocks, make_block(columns, self.ORDER)), self.ORDER))

    def remove_many(self, numbers: Sequence[ObjectNumber]) -> None:
        """Remove the objects with these numbers; numbers that are not in the table are ignored."""
        for number in numbers:
            if number in self._tail:
                del self._tail[number]
        wanted = np.array(sorted(numbers), dtype=np.int64)
        self._kill(lambda block: rows_with(block, "number", wanted))
        if not len(self):
            self.blocks, self.topics, self.store_sets = (), (), ()

    def comparable(self) -> Columns:
        """Return all columns of all rows, with the indexes of topics and sets of stores replaced by their values."""
        table = self.in_blocks()
        columns = table.all_columns()
        return {
            **columns,
            "topic": values_at(columns["topic"], table.topics),
            "stores": values_at(columns["stores"], (*table.store_sets, ())),
        }

    def _rows(self, columns: Mapping[str, Column]) -> Iterator[Retired]:
        rows = zip(*(columns[name].tolist() for name in self.DTYPES), strict=True)
        for number, delete_after_ms, topic, stores in rows:
            known = self.store_sets[stores] if stores >= 0 else ()
            yield Retired(ObjectNumber(number), delete_after_ms, self.topics[topic], known)

    def _tail_columns(self) -> Columns:
        """Return the rows of the tail as columns.

        Topics and sets of stores that are not in the table's tuples `topics` and `store_sets` yet are added to them.
        """
        return self._columns(
            (retired.number, retired.delete_after_ms, self._topic_row(retired.topic), self._stores_row(retired.stores))
            for retired in self._tail.values()
        )

    def _topic_row(self, topic: str) -> int:
        number, self.topics = number_of(topic, self.topics)
        return number

    def _stores_row(self, stores: tuple[StoreId, ...]) -> int:
        if not stores:
            return -1
        number, self.store_sets = number_of(stores, self.store_sets)
        return number
