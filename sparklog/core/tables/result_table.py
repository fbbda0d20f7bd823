"""The commands that the chain has applied, with the number of the entry of each: blocks of columns plus a small tail.

A row costs 48 bytes in a block, so a million commands cost about 48 MB. Results are not kept: a command's result is
read back from its entry when a client asks. An older block has older commands, so that whole blocks are dropped when
FLOOR rises.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from sparklog.core.tables.block_table import BlockTable, Columns
from sparklog.core.tables.column_blocks import Block, Column, make_block
from sparklog.core.tables.copy_on_write import CopyOnWriteMap
from sparklog.core.types import CommandId, EntryNumber

COMMAND_ID = re.compile("[0-9a-f]{32}")  # what a command id looks like
NO_OBJECT = -1


class AppliedBy(NamedTuple):
    """A command that was applied by entry `n` of the chain. Its author had read the chain up to `n0` when it began.

    `label` is the `label_hash` of the write's label. `first_object` is the number of the object that holds the
    command's first slice; NO_OBJECT if the command appended nothing, or appended to several partitions.
    """

    command_id: CommandId
    n: EntryNumber
    n0: EntryNumber
    label: int = 0
    first_object: int = NO_OBJECT


def label_hash(label: str) -> int:
    """Return a 64-bit hash by which to find writes with a label; 0 for "".

    Different labels may have the same hash, so compare the labels, too.
    """
    return int.from_bytes(hashlib.sha256(label.encode("utf-8", "surrogatepass")).digest()[:8], "big") if label else 0


class ResultTable(BlockTable):
    """Applied commands by id, without those that began before FLOOR, the attribute `floor`."""

    __slots__ = ("floor",)

    DTYPES: ClassVar[Mapping[str, str]] = {
        "id_high": "u8",  # the command id's 32 hex digits as two integers
        "id_low": "u8",
        "n": "i8",
        "n0": "i8",
        "label": "u8",  # see `label_hash`
        "first_object": "i8",
    }
    ORDER = ("id_high", "id_low")
    TAIL_ROWS = 2048

    _tail: CopyOnWriteMap[CommandId, AppliedBy]

    def __init__(self, blocks: Iterable[Block] = (), floor: EntryNumber = EntryNumber(0)) -> None:
        super().__init__(blocks)
        self.floor = floor

    def add(self, applied: AppliedBy) -> None:
        """Add a command that is not in the table yet. It is ignored if it has itself raised FLOOR above its `n0`."""
        if applied.n0 < self.floor:
            return
        self._tail[applied.command_id] = applied
        self._seal_if_long()

    def get(self, command_id: CommandId) -> AppliedBy | None:
        """The command with its entry; None if it was not applied, or was begun below FLOOR."""
        in_tail = self._tail.get(command_id)
        if in_tail is not None:
            return in_tail
        high, low = int(command_id[:16], 16), int(command_id[16:], 16)
        wanted = np.uint64(high)
        for block in self.blocks:
            column = block.columns["id_high"]
            row = column.searchsorted(wanted).item()
            # item() gives a Python int, which is quick to compare: each commit searches all blocks.
            while row < block.rows and column.item(row) == high:
                if block.columns["id_low"].item(row) == low and block.columns["n0"].item(row) >= self.floor:
                    return next(self._rows(block, np.array([row])))
                row += 1  # a row below FLOOR hides no later one: its id may have been given to another command since
        return None

    def labelled(self, label: str) -> list[AppliedBy]:
        """Return the commands whose label has the same hash as `label`, in chain order. Some may have another label."""
        wanted = label_hash(label)
        labelled = [applied for applied in self._tail.values() if applied.label == wanted]
        for block in self.blocks:
            labelled += self._rows(block, np.flatnonzero(block.columns["label"] == np.uint64(wanted)))
        return sorted(labelled, key=lambda applied: applied.n)

    def drop_below(self, floor: EntryNumber) -> None:
        """Set FLOOR, and forget the commands that began before it.

        A block is dropped once all of its commands began before FLOOR. Until then its rows stay, and are not returned.
        """
        self.floor = floor
        for command_id in [applied.command_id for applied in self._tail.values() if applied.n0 < floor]:
            del self._tail[command_id]
        self.blocks = tuple(block for block in self.blocks if block.columns["n0"].max() >= floor)

    def forget(self, objects: Column) -> None:
        """Forget the commands whose first object has one of these numbers. Reads every row."""
        wanted = set(objects.tolist())
        for command_id in [applied.command_id for applied in self._tail.values() if applied.first_object in wanted]:
            del self._tail[command_id]
        kept = []
        for block in self.blocks:
            stays = ~np.isin(block.columns["first_object"], objects)
            if stays.all():
                kept.append(block)
            elif stays.any():
                kept.append(make_block({name: column[stays] for name, column in block.columns.items()}, self.ORDER))
        self.blocks = tuple(kept)

    def __iter__(self) -> Iterator[AppliedBy]:
        """All known commands, in arbitrary order."""
        for block in self.blocks:
            yield from self._rows(block, np.arange(block.rows))
        yield from self._tail.values()

    def __len__(self) -> int:
        in_blocks = sum(int(np.count_nonzero(block.columns["n0"] >= self.floor)) for block in self.blocks)
        return in_blocks + len(self._tail)

    def comparable(self) -> Columns:
        """All columns of the known commands, without rows below FLOOR that are still in a block."""
        columns = self.all_columns()
        known = columns["n0"] >= self.floor
        return {name: column[known] for name, column in columns.items()}

    def same(self, other: ResultTable) -> bool:
        """True if both tables know the same commands, and have the same FLOOR."""
        return self.floor == other.floor and super().same(other)

    def _rows(self, block: Block, rows: Column) -> Iterator[AppliedBy]:
        """The commands in these rows of a block, without those begun below FLOOR."""
        columns = (block.columns[name][rows].tolist() for name in self.DTYPES)
        for high, low, n, n0, label, first in zip(*columns, strict=True):
            if n0 >= self.floor:
                yield AppliedBy(CommandId(f"{high:016x}{low:016x}"), EntryNumber(n), EntryNumber(n0), label, first)

    def _tail_columns(self) -> Columns:
        return self._columns(
            (
                int(applied.command_id[:16], 16),
                int(applied.command_id[16:], 16),
                applied.n,
                applied.n0,
                applied.label,
                applied.first_object,
            )
            for applied in self._tail.values()
        )
