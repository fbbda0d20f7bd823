"""Which commands the chain has applied, and by which entry: blocks of columns plus a small tail.

A row costs 48 bytes in a block, so a million commands cost about 48 MB. What a command led to is not kept: it is read
back from its entry when somebody asks. Blocks stay in the order of the chain, so FLOOR drops the oldest whole.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from sparklog.core.column_blocks import Block, Column, make_block, tidied
from sparklog.core.copy_on_write import CopyOnWriteMap
from sparklog.core.types import CommandId, EntryNumber

TAIL_ROWS = 2048  # more rows than this in the tail are sealed into a block; each snapshot writes the tail anew
COMMAND_ID = re.compile("[0-9a-f]{32}")  # what a command id looks like
ORDER = ("id_high", "id_low")

DTYPES: Mapping[str, str] = {
    "id_high": "u8",  # the command id's 32 hex digits as two integers
    "id_low": "u8",
    "n": "i8",
    "n0": "i8",
    "label": "u8",  # see `label_hash`
    "first_object": "i8",
}
NO_OBJECT = -1


class AppliedBy(NamedTuple):
    """A command that the chain has applied: the entry that did it, and the position its author had read before.

    `label` is the `label_hash` of what a write called itself; `first_object` that of its first slice, or NO_OBJECT.
    """

    command_id: CommandId
    n: EntryNumber
    n0: EntryNumber
    label: int = 0
    first_object: int = NO_OBJECT


def label_hash(label: str) -> int:
    """64 bits by which the writes of a label are found, 0 for none. Compare the text too: two labels may share them."""
    return int.from_bytes(hashlib.sha256(label.encode()).digest()[:8], "big") if label else 0


class ResultTable:
    """Applied commands by id. Commands begun below `floor` are not known any more."""

    __slots__ = ("_tail", "blocks", "floor")

    def __init__(self, blocks: Iterable[Block] = (), floor: EntryNumber = EntryNumber(0)) -> None:
        self.blocks: tuple[Block, ...] = tuple(blocks)
        self.floor = floor
        self._tail: CopyOnWriteMap[CommandId, AppliedBy] = CopyOnWriteMap()

    def fork(self) -> ResultTable:
        """A table that starts equal; what is changed in it is seen in no other."""
        other = ResultTable.__new__(ResultTable)
        other.blocks, other.floor, other._tail = self.blocks, self.floor, self._tail.fork()
        return other

    def add(self, applied: AppliedBy) -> None:
        """Remember a command that is not in the table yet, unless it raised FLOOR above its own beginning."""
        if applied.n0 < self.floor:
            return
        self._tail[applied.command_id] = applied
        if len(self._tail) > TAIL_ROWS:
            self.seal()

    def get(self, command_id: CommandId) -> AppliedBy | None:
        """Which entry applied the command, or None: it was not applied, or it was begun below FLOOR."""
        in_tail = self._tail.get(command_id)
        if in_tail is not None:
            return in_tail
        high, low = int(command_id[:16], 16), int(command_id[16:], 16)
        wanted = np.uint64(high)
        for block in self.blocks:
            column = block.columns["id_high"]
            row = column.searchsorted(wanted).item()
            while row < block.rows and column.item(row) == high:  # a Python int: each commit looks through all blocks
                if block.columns["id_low"].item(row) == low:
                    return next(self._rows(block, np.array([row])), None)
                row += 1
        return None

    def labelled(self, label: str) -> list[AppliedBy]:
        """The commands whose label has the hash of this one, in the order of the chain."""
        wanted = label_hash(label)
        found = [each for each in self._tail.values() if each.label == wanted]
        for block in self.blocks:
            found += self._rows(block, np.flatnonzero(block.columns["label"] == np.uint64(wanted)))
        return sorted(found, key=lambda each: each.n)

    def drop_below(self, floor: EntryNumber) -> None:
        """Forget the commands that were begun before `floor`. A block goes when no row in it is left to be known."""
        self.floor = floor
        for command_id in [each.command_id for each in self._tail.values() if each.n0 < floor]:
            del self._tail[command_id]
        self.blocks = tuple(block for block in self.blocks if block.columns["n0"].max() >= floor)

    def forget(self, objects: Column) -> None:
        """Forget the commands whose first object is among these. Looks at every row."""
        wanted = set(objects.tolist())
        for command_id in [each.command_id for each in self._tail.values() if each.first_object in wanted]:
            del self._tail[command_id]
        kept = []
        for block in self.blocks:
            stays = ~np.isin(block.columns["first_object"], objects)
            if stays.all():
                kept.append(block)
            elif stays.any():
                kept.append(make_block({name: column[stays] for name, column in block.columns.items()}, ORDER))
        self.blocks = tuple(kept)

    def __iter__(self) -> Iterator[AppliedBy]:
        """All that are known, in no order that means anything."""
        for block in self.blocks:
            yield from self._rows(block, np.arange(block.rows))
        yield from self._tail.values()

    def __len__(self) -> int:
        in_blocks = sum(int(np.count_nonzero(block.columns["n0"] >= self.floor)) for block in self.blocks)
        return in_blocks + len(self._tail)

    def seal(self) -> None:
        """Move the tail into the blocks, and tidy those."""
        self.blocks = tuple(tidied((*self.blocks, *self._tail_block()), ORDER))
        self._tail.clear()

    def in_blocks(self) -> ResultTable:
        """An equal table without a tail, to be stored. Blocks that need no tidying are the same ones."""
        return ResultTable((*tidied(self.blocks, ORDER), *self._tail_block()), self.floor)

    def _rows(self, block: Block, rows: Column) -> Iterator[AppliedBy]:
        """Those of the rows of a block that are known."""
        columns = (block.columns[name][rows].tolist() for name in DTYPES)
        for high, low, n, n0, label, first in zip(*columns, strict=True):
            if n0 >= self.floor:
                yield AppliedBy(CommandId(f"{high:016x}{low:016x}"), EntryNumber(n), EntryNumber(n0), label, first)

    def _tail_block(self) -> tuple[Block, ...]:
        """The tail as a block, if there is any."""
        if not self._tail:
            return ()
        rows = [
            (
                int(each.command_id[:16], 16),
                int(each.command_id[16:], 16),
                each.n,
                each.n0,
                each.label,
                each.first_object,
            )
            for each in self._tail.values()
        ]
        columns = zip(DTYPES.items(), zip(*rows, strict=True), strict=True)
        return (make_block({name: np.array(column, dtype=dtype) for (name, dtype), column in columns}, ORDER),)
