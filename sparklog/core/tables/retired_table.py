"""Objects that no slice names any more, until their bytes are deleted: blocks of columns plus a small tail.

Deleting a topic may retire millions of objects at once: these never become Python objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from sparklog.core.tables.column_blocks import (
    MAX_BLOCK_ROWS,
    Block,
    Column,
    live_columns,
    make_block,
    tidied,
    without_rows,
)
from sparklog.core.tables.copy_on_write import CopyOnWriteMap
from sparklog.core.types import ObjectNumber, StoreId

TAIL_ROWS = 1024
ORDER = ("number",)

DTYPES: Mapping[str, str] = {
    "number": "i8",
    "delete_after_ms": "i8",
    "topic": "i4",  # row of `topics`
    "stores": "i4",  # row of `store_sets`, or -1: none is known
}
StoreSets = tuple[tuple[StoreId, ...], ...]


class Retired(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An object that no slice names any more. Its bytes may be deleted from `delete_after_ms` on.

    `topic` is part of the object's name. `stores` may have a copy, beside those that held it when it was named.
    """

    number: ObjectNumber
    delete_after_ms: int
    topic: str
    stores: tuple[StoreId, ...] = ()


class RetiredTable:
    """Retired objects by number."""

    __slots__ = ("_tail", "blocks", "store_sets", "topics")

    def __init__(
        self, blocks: Iterable[Block] = (), topics: Iterable[str] = (), store_sets: Iterable[tuple[StoreId, ...]] = ()
    ) -> None:
        self.blocks: tuple[Block, ...] = tuple(blocks)
        self.topics: tuple[str, ...] = tuple(topics)  # names of topics that have retired objects, or had
        self.store_sets: StoreSets = tuple(store_sets)
        self._tail: CopyOnWriteMap[ObjectNumber, Retired] = CopyOnWriteMap()

    def fork(self) -> RetiredTable:
        """A table that starts equal; changes to it are seen in no other."""
        other = RetiredTable.__new__(RetiredTable)
        other.blocks, other.topics, other.store_sets = self.blocks, self.topics, self.store_sets
        other._tail = self._tail.fork()
        return other

    def __len__(self) -> int:
        return sum(block.rows - block.dead_rows for block in self.blocks) + len(self._tail)

    def __contains__(self, number: ObjectNumber) -> bool:
        return number in self._tail or any(_row(block, number) is not None for block in self.blocks)

    def __iter__(self) -> Iterator[Retired]:
        """All retired objects, in arbitrary order."""
        for block in self.blocks:
            yield from self._rows(live_columns(block))
        yield from self._tail.values()

    def due(self, clock_ms: int, topics: Collection[str] | None = None) -> Column:
        """The numbers of the objects (of these topics) whose bytes may be deleted at `clock_ms`, ascending."""
        tail = self._tail.values()
        in_tail = [
            each.number
            for each in tail
            if each.delete_after_ms <= clock_ms and (topics is None or each.topic in topics)
        ]
        found = [np.array(in_tail, dtype=DTYPES["number"])]
        chosen = [row for row, topic in enumerate(self.topics) if topics is None or topic in topics]
        for block in self.blocks:
            columns = live_columns(block)
            is_due = (columns["delete_after_ms"] <= clock_ms) & np.isin(columns["topic"], chosen)
            found.append(columns["number"][is_due])
        return np.sort(np.concatenate(found))

    def of(self, numbers: Sequence[ObjectNumber]) -> list[Retired]:
        """These objects, in this order, without those that are not in the table."""
        wanted = np.array(numbers, dtype=np.int64)
        found = {number: self._tail[number] for number in numbers if number in self._tail}
        for block in self.blocks:
            column = block.columns["number"]
            rows = np.searchsorted(column, wanted)
            inside = rows < block.rows
            rows = rows[inside][column[rows[inside]] == wanted[inside]]
            if block.dead is not None:
                rows = rows[~block.dead[rows]]
            found |= {each.number: each for each in self._rows({name: block.columns[name][rows] for name in DTYPES})}
        return [found[number] for number in numbers if number in found]

    def add_all(self, numbers: Column, delete_after_ms: int, topic: str, stores: tuple[StoreId, ...] = ()) -> None:
        """Add objects of a topic by their numbers (int64, ascending), none of which is in the table yet."""
        if len(numbers) <= TAIL_ROWS:
            self._tail.put_all(
                {
                    number: Retired(number, delete_after_ms, topic, stores)
                    for number in map(ObjectNumber, numbers.tolist())
                }
            )
            if len(self._tail) > TAIL_ROWS:
                self.seal()
            return
        self.seal()
        row, stores_row = self._topic_row(topic), self._stores_row(stores)
        for low in range(0, len(numbers), MAX_BLOCK_ROWS):
            part = numbers[low : low + MAX_BLOCK_ROWS].astype(DTYPES["number"])
            columns = {
                "number": part,
                "delete_after_ms": np.full(len(part), delete_after_ms, dtype=DTYPES["delete_after_ms"]),
                "topic": np.full(len(part), row, dtype=DTYPES["topic"]),
                "stores": np.full(len(part), stores_row, dtype=DTYPES["stores"]),
            }
            self.blocks = tuple(tidied((*self.blocks, make_block(columns, ORDER)), ORDER))

    def remove_many(self, numbers: Sequence[ObjectNumber]) -> None:
        """Drop rows; numbers that are not in the table are ignored."""
        for number in numbers:
            if number in self._tail:
                del self._tail[number]
        wanted = np.array(sorted(numbers), dtype=np.int64)
        kept = []
        for block in self.blocks:
            column = block.columns["number"]
            rows = np.searchsorted(column, wanted)
            inside = rows < block.rows
            rows = rows[inside][column[rows[inside]] == wanted[inside]]
            kept.append(without_rows(block, rows) if len(rows) else block)
        self.blocks = tuple(kept)
        if not len(self):
            self.blocks, self.topics, self.store_sets = (), (), ()

    def seal(self) -> None:
        """Move the tail into the blocks, and tidy the blocks."""
        self.blocks = tuple(tidied((*self.blocks, *self._tail_block()), ORDER))
        self._tail.clear()

    def in_blocks(self) -> RetiredTable:
        """An equal table without a tail, to be stored. Blocks that need no tidying are shared."""
        other = self.fork()
        other.blocks = (*tidied(self.blocks, ORDER), *other._tail_block())
        other._tail.clear()
        return other

    def _rows(self, columns: Mapping[str, Column]) -> Iterator[Retired]:
        rows = zip(*(columns[name].tolist() for name in DTYPES), strict=True)
        for number, delete_after_ms, topic, stores in rows:
            known = self.store_sets[stores] if stores >= 0 else ()
            yield Retired(ObjectNumber(number), delete_after_ms, self.topics[topic], known)

    def _tail_block(self) -> tuple[Block, ...]:
        """The tail as a block; nothing if the tail is empty. Adds the topics and sets of stores that it needs."""
        if not self._tail:
            return ()
        rows = [
            (each.number, each.delete_after_ms, self._topic_row(each.topic), self._stores_row(each.stores))
            for each in self._tail.values()
        ]
        columns = zip(DTYPES.items(), zip(*rows, strict=True), strict=True)
        return (make_block({name: np.array(column, dtype=dtype) for (name, dtype), column in columns}, ORDER),)

    def _topic_row(self, topic: str) -> int:
        if topic not in self.topics:
            self.topics = (*self.topics, topic)
        return self.topics.index(topic)

    def _stores_row(self, stores: tuple[StoreId, ...]) -> int:
        if not stores:
            return -1
        if stores not in self.store_sets:
            self.store_sets = (*self.store_sets, stores)
        return self.store_sets.index(stores)


def _row(block: Block, number: int) -> int | None:
    """The live row of a block that has this number, or None."""
    column = block.columns["number"]
    if not block.rows or not column.item(0) <= number <= column.item(-1):
        return None
    row = int(np.searchsorted(column, number))
    return row if column.item(row) == number and (block.dead is None or not block.dead[row]) else None
