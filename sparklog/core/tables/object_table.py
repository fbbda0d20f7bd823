"""All data objects that slices name, by the number that the chain gave them: blocks of columns, and a small tail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from sparklog.core.tables.block_table import BlockTable, Columns, number_of, values_at
from sparklog.core.tables.column_blocks import Block, Column, live_columns, row_with, rows_with
from sparklog.core.tables.copy_on_write import CopyOnWriteMap
from sparklog.core.types import (
    Holder,
    NamedObject,
    NewObject,
    ObjectKind,
    ObjectNumber,
    UploadId,
)

# A column has the name of the field of `NewObject` that it holds, if it holds one.
_DTYPES: Final[Mapping[str, str]] = {
    "number": "i8",
    "kind": "i1",
    "n0": "i8",
    "upload_high": "u8",  # the upload id's 32 hex digits as two integers
    "upload_low": "u8",
    "topic_id": "i4",
    "size_bytes": "i8",
    "crc32c": "u4",
    "index_size_bytes": "i4",
    "index_crc32c": "u4",
    "holders": "i4",  # row of `holder_sets`
    "partition": "i4",  # -1 in the columns: none
    "base_offset": "i8",
    "leader_epoch": "i4",
    "slices": "i4",  # how many slices named it first
}

_SAME_AS_FIELDS = [name for name in _DTYPES if name in NewObject.__struct_fields__ and name != "holders"]
_UNSEALED: Mapping[str, None] = {"partition": None, "base_offset": None, "leader_epoch": None}

HolderSets = tuple[tuple[Holder, ...], ...]


class _ByUpload(NamedTuple):
    """The rows of a block sorted by their `upload_low`, and that column (`low`) in the same order."""

    rows: Column
    low: Column


class ObjectTable(BlockTable):
    """Objects by number. A row never changes: `ClusterState.released` counts the slices that were forgotten since."""

    __slots__ = ("_tail_uploads", "holder_sets")

    DTYPES = _DTYPES
    ORDER = ("number",)
    TAIL_ROWS = 8192

    _tail: CopyOnWriteMap[ObjectNumber, tuple[NewObject, int]]
    _tail_uploads: CopyOnWriteMap[tuple[int, UploadId], ObjectNumber]  # by n0 and upload id

    def __init__(self, blocks: Iterable[Block] = (), holder_sets: Iterable[tuple[Holder, ...]] = ()) -> None:
        super().__init__(blocks)
        self._tail_uploads = CopyOnWriteMap()
        self.holder_sets: HolderSets = tuple(holder_sets)

    def add(self, named: NamedObject, slices: int) -> None:
        """Add an object that `slices` slices name."""
        self._tail[named.number] = (named.object, slices)
        self._tail_uploads[named.object.n0, named.object.upload_id] = named.number
        self._seal_if_long()

    def get(self, number: ObjectNumber) -> NewObject | None:
        """The object with this number, or None."""
        in_tail = self._tail.get(number)
        if in_tail is not None:
            return in_tail[0]
        at = self._row(number)
        return None if at is None else self._object(self.blocks[at[0]].columns, at[1])

    def find_upload(self, upload: NewObject) -> ObjectNumber | None:
        """Return the number of the object that has the n0 and the upload id of `upload`, or None.

        Both are part of an object's name. Rows are numbered nearly in the order of their n0, so for an upload that
        began lately only the newest blocks are searched.
        """
        in_tail = self._tail_uploads.get((upload.n0, upload.upload_id))
        if in_tail is not None:
            return in_tail
        for block in self.blocks:
            first, last = block.derived.get("n0") or _n0_range(block)
            if first <= upload.n0 <= last:
                number = _number_in(block, upload)
                if number is not None:
                    return number
        return None

    def duplicate_uploads(self, numbers: Column | None = None) -> list[list[ObjectNumber]]:
        """Return the numbers of objects that have the same n0 and upload id, in groups.

        With `numbers`, returns at least each group that has one of these objects, and compares only objects that were
        begun at the same chain positions as these. A state that follows from commands has no such group, because
        `check_uploads` refuses a second name for an upload.
        """
        names = ("n0", "upload_high", "upload_low", "number")
        if numbers is None:
            columns = self.columns(*names)
        else:
            near = self._begun_with(numbers)
            columns = {name: self.columns(name)[name][near] for name in names}
        low = np.sort(columns["upload_low"])
        rows = np.isin(columns["upload_low"], low[1:][low[1:] == low[:-1]])
        groups: dict[tuple[int, int, int], list[ObjectNumber]] = {}
        for n0, high, part, number in zip(*(column[rows].tolist() for column in columns.values()), strict=True):
            groups.setdefault((n0, high, part), []).append(number)
        return [sorted(numbers) for numbers in groups.values() if len(numbers) > 1]

    def _begun_with(self, numbers: Column) -> Column:
        """Return the rows of `columns` with the n0 of one of these objects."""
        wanted = np.full(len(numbers), -1, dtype=np.int64)
        for at in self._look_up(numbers, "n0", wanted).tolist():
            in_tail = self._tail.get(ObjectNumber(int(numbers[at])))
            if in_tail is not None:
                wanted[at] = in_tail[0].n0
        n0 = self.columns("n0")["n0"]
        rows = np.flatnonzero((n0 >= wanted.min()) & (n0 <= wanted.max()))
        return rows[np.isin(n0[rows], wanted)]

    def slices(self, number: ObjectNumber) -> int:
        """Return the number of slices that named the object when it was added. Raises KeyError if it is missing."""
        return int(self.slice_counts(np.array([number], dtype=np.int64))[0])

    def slice_counts(self, numbers: Column) -> npt.NDArray[np.int32]:
        """Return the number of slices that named each object when it was added. Raises KeyError if one is missing.

        `numbers`: int64, in any order.
        """
        counts = np.zeros(len(numbers), dtype=self.DTYPES["slices"])
        missing = self._look_up(numbers, "slices", counts)
        for at in missing.tolist():
            number = ObjectNumber(int(numbers[at]))
            counts[at] = self._tail[number][1]
        return counts

    def kinds(self, numbers: Column) -> npt.NDArray[np.int8]:
        """The `ObjectKind` of each object; -1 if it is not in the table. `numbers`: int64, in any order."""
        kinds = np.full(len(numbers), -1, dtype=np.int8)
        missing = self._look_up(numbers, "kind", kinds)
        for at in missing.tolist():
            in_tail = self._tail.get(ObjectNumber(int(numbers[at])))
            if in_tail is not None:
                kinds[at] = in_tail[0].kind
        return kinds

    def sizes(self, numbers: Column) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the bytes of each object, and the bytes of each index. Raises KeyError if an object is missing.

        `numbers`: int64, in any order.
        """
        size_bytes, index_bytes = np.zeros((2, len(numbers)), dtype=np.int64)
        self._look_up(numbers, "size_bytes", size_bytes)
        for at in self._look_up(numbers, "index_size_bytes", index_bytes).tolist():
            named, _ = self._tail[ObjectNumber(int(numbers[at]))]
            size_bytes[at], index_bytes[at] = named.size_bytes, named.index_size_bytes
        return size_bytes, index_bytes

    def total_bytes(self) -> int:
        """The bytes of all objects and their indexes. Each object is counted once, however many stores hold it."""
        total = sum(object_.total_bytes for object_, _ in self._tail.values())
        for columns in map(live_columns, self.blocks):
            total += int(columns["size_bytes"].sum()) + int(columns["index_size_bytes"].sum(dtype=np.int64))
        return total

    def _look_up(self, numbers: Column, name: str, into: Column) -> Column:
        """Set `into[i]` to the value in column `name` of object `numbers[i]`, for each object that is in a block.

        Returns the indexes `i` of the other objects, which may be in the tail.
        """
        missing = np.ones(len(numbers), dtype=np.bool_)
        if not len(numbers):
            return np.flatnonzero(missing)
        first, last = int(numbers.min()), int(numbers.max())
        for block in self.blocks:
            column = block.columns["number"]
            if not block.rows or last < column[0] or first > column[-1]:
                continue
            inside = np.flatnonzero((numbers >= column[0]) & (numbers <= column[-1]))
            rows = np.searchsorted(column, numbers[inside])
            there = column[rows] == numbers[inside]
            if block.dead is not None:
                there &= ~block.dead[rows]
            into[inside[there]] = block.columns[name][rows[there]]
            missing[inside[there]] = False
        return np.flatnonzero(missing)

    def present(self, numbers: Iterable[ObjectNumber]) -> list[ObjectNumber]:
        """Return those of `numbers` that are in the table, in the same order."""
        return [number for number in numbers if number in self._tail or self._row(number) is not None]

    def remove_many(self, numbers: Sequence[ObjectNumber]) -> None:
        """Remove the objects with these numbers; numbers that are not in the table are ignored."""
        wanted = np.array(sorted(numbers), dtype=np.int64)
        for number in numbers:
            in_tail = self._tail.pop(number, None)
            if in_tail is not None:
                self._tail_uploads.pop((in_tail[0].n0, in_tail[0].upload_id), None)
        self._kill(lambda block: rows_with(block, "number", wanted))

    def __iter__(self) -> Iterator[NamedObject]:
        for block in self.blocks:
            for row in block.live(0, block.rows).tolist():
                number = ObjectNumber(int(block.columns["number"][row]))
                yield NamedObject(number, self._object(block.columns, row))
        for number, (object_, _) in self._tail.items():
            yield NamedObject(number, object_)

    def comparable(self) -> Columns:
        """Return all columns of all rows, with each object's holders in place of their index in `holder_sets`."""
        table = self.in_blocks()
        columns = table.all_columns()
        return {**columns, "holders": values_at(columns["holders"], table.holder_sets)}

    def _clear_tail(self) -> None:
        super()._clear_tail()
        self._tail_uploads.clear()

    def _row(self, number: ObjectNumber) -> tuple[int, int] | None:
        """The index of the block that has this object, and the row in that block; None if no block has it."""
        for at, block in enumerate(self.blocks):
            row = row_with(block, "number", number)
            if row is not None:
                return at, row
        return None

    def _object(self, columns: Mapping[str, Column], row: int) -> NewObject:
        fields: dict[str, Any] = {name: columns[name].item(row) for name in _SAME_AS_FIELDS}
        if fields["partition"] < 0:
            fields.update(_UNSEALED)
        fields["kind"] = ObjectKind(fields["kind"])
        fields["upload_id"] = f"{columns['upload_high'].item(row):016x}{columns['upload_low'].item(row):016x}"
        fields["holders"] = self.holder_sets[columns["holders"].item(row)]
        return NewObject(**fields)

    def _tail_columns(self) -> Columns:
        """Return the rows of the tail as columns, sorted by object number.

        Sets of holders that are not in the table's tuple `holder_sets` yet are added to it.
        """
        rows = [(number, object_, slices) for number, (object_, slices) in sorted(self._tail.items())]
        objects = [object_ for _, object_, _ in rows]
        values: dict[str, Iterable[Any]] = {name: map(attrgetter(name), objects) for name in _SAME_AS_FIELDS}
        for name in _UNSEALED:
            values[name] = (-1 if value is None else value for value in values[name])
        values["number"] = (number for number, _, _ in rows)
        values["upload_high"] = (int(object_.upload_id[:16], 16) for object_ in objects)
        values["upload_low"] = (int(object_.upload_id[16:], 16) for object_ in objects)
        values["holders"] = (self._holder_set(object_.holders) for object_ in objects)
        values["slices"] = (slices for _, _, slices in rows)
        return {name: np.fromiter(values[name], dtype, len(rows)) for name, dtype in self.DTYPES.items()}

    def _holder_set(self, holders: tuple[Holder, ...]) -> int:
        number, self.holder_sets = number_of(holders, self.holder_sets)
        return number


def _n0_range(block: Block) -> tuple[int, int]:
    """Return the smallest and the largest n0 of a block: (1, 0) if it has no rows. Looks at all rows the first time."""
    n0 = block.columns["n0"]
    bounds = (int(n0.min()), int(n0.max())) if block.rows else (1, 0)
    block.derived["n0"] = bounds
    return bounds


def _number_in(block: Block, upload: NewObject) -> ObjectNumber | None:
    """Return the number of the object in a block that has the n0 and the upload id of `upload`, or None.

    Sorts the rows the first time.
    """
    known: _ByUpload | None = block.derived.get("uploads")
    columns = block.columns
    if known is None:
        rows = np.argsort(columns["upload_low"]).astype(np.int32)
        known = block.derived["uploads"] = _ByUpload(rows, columns["upload_low"][rows])
    # In the type of the columns: numpy would compare other integers as floats.
    high, low = np.uint64(int(upload.upload_id[:16], 16)), np.uint64(int(upload.upload_id[16:], 16))
    begin = int(known.low.searchsorted(low))
    if begin == block.rows or known.low[begin] != low:
        return None
    rows = known.rows[begin : known.low.searchsorted(low, side="right")]
    same = rows[(columns["upload_high"][rows] == high) & (columns["n0"][rows] == upload.n0)]
    for row in same.tolist():
        if block.dead is None or not block.dead[row]:
            return ObjectNumber(columns["number"].item(row))
    return None
