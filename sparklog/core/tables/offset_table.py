"""The offsets that groups have committed: blocks of columns, and a small tail of the newest rows.

A row costs 40 bytes in a block, so a million rows cost about 40 MB. A commit goes into the tail. When the tail becomes
a block, the older rows that it replaces are marked dead. Most metadata texts are empty and take no memory. Each
other text is a Python object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from sparklog.core.groups.membership import CommittedOffset
from sparklog.core.tables.block_table import BlockTable, Columns
from sparklog.core.tables.column_blocks import Block, Column, Rows, rows_with, tidied
from sparklog.core.tables.copy_on_write import CopyOnWriteMap
from sparklog.core.tables.slice_table import partition_key, split_keys, topic_partition_of
from sparklog.core.types import LeaderEpoch, Offset, TopicId, TopicPartition


class OffsetKey(NamedTuple):
    """The key of a row: the number of a group, and `slice_table.partition_key` of a partition."""

    group: int
    partition_key: int


class OffsetTable(BlockTable):
    """Committed offsets by group and partition."""

    __slots__ = ("metadata",)

    DTYPES: ClassVar[Mapping[str, str]] = {
        "group": "i8",  # the group's number
        "partition_key": "i8",
        "offset": "i8",
        "leader_epoch": "i8",
        "committed_ms": "i8",
    }
    ORDER = ("group", "partition_key")
    TAIL_ROWS = 2048

    _tail: CopyOnWriteMap[OffsetKey, CommittedOffset]

    def __init__(self, blocks: Iterable[Block] = (), metadata: Iterable[tuple[OffsetKey, str]] = ()) -> None:
        super().__init__(blocks)
        self.metadata: CopyOnWriteMap[OffsetKey, str] = CopyOnWriteMap(metadata)  # of the rows that have any

    def put_all(self, group: int, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Set the offsets of a group in these partitions."""
        rows = {OffsetKey(group, partition_key(key)): committed for key, committed in offsets.items()}
        for key, committed in rows.items():
            if committed.metadata:
                self.metadata[key] = committed.metadata
            else:
                self.metadata.pop(key, None)
        self._tail.put_all(rows)
        self._seal_if_long()

    def of_group(self, group: int) -> dict[TopicPartition, CommittedOffset]:
        """All committed offsets of the group with this number, by partition in ascending order."""
        by_key: dict[int, CommittedOffset] = {}
        for block in self.blocks:
            low, high = np.searchsorted(block.columns["group"], [group, group + 1]).tolist()
            by_key |= {key.partition_key: row for key, row in self._rows(block, block.live(low, high))}
        by_key |= {key.partition_key: row for key, row in self._tail.items() if key.group == group}
        return {topic_partition_of(key): by_key[key] for key in sorted(by_key)}

    def get(self, group: int, topic_partition: TopicPartition) -> CommittedOffset | None:
        """The committed offset of a group in a partition, or None."""
        key = OffsetKey(group, partition_key(topic_partition))
        in_tail = self._tail.get(key)
        if in_tail is not None:
            return in_tail
        for block in self.blocks:
            rows = _rows_of(block, group, [key.partition_key])
            for _, row in self._rows(block, rows):
                return row
        return None

    def remove(self, group: int, partitions: Iterable[TopicPartition]) -> None:
        """Remove the offsets of a group in these partitions. Partitions in which it has none are ignored."""
        keys = [OffsetKey(group, partition_key(key)) for key in partitions]
        for key in keys:
            self._tail.pop(key, None)
            self.metadata.pop(key, None)
        self._kill_keys({group: [key.partition_key for key in keys]})

    def remove_group(self, group: int) -> None:
        """Remove all offsets of the group with this number."""
        self._remove(lambda columns: columns["group"] == group, [key for key in self._keys() if key.group == group])

    def remove_topic(self, topic_id: TopicId) -> None:
        """Remove all offsets in a topic. Reads every row."""
        self._remove(
            lambda columns: split_keys(columns["partition_key"])[0] == topic_id,
            [key for key in self._keys() if topic_partition_of(key.partition_key).topic_id == topic_id],
        )

    def cut(self, ends: Mapping[TopicPartition, Offset]) -> None:
        """Lower each committed offset above its partition's end in `ends` to that end. Reads every row once."""
        if not ends:
            return
        limits = {partition_key(key): end for key, end in ends.items()}
        keys = np.array(sorted(limits), dtype=np.int64)
        columns = self.all_columns()
        named = np.flatnonzero(np.isin(columns["partition_key"], keys))
        rows = zip(*(columns[name][named].tolist() for name in self.DTYPES), strict=True)
        lowered: dict[int, dict[TopicPartition, CommittedOffset]] = {}
        for group, key, offset, leader_epoch, committed_ms in rows:
            if offset > limits[key]:
                text = self.metadata.get(OffsetKey(group, key), "")
                row = CommittedOffset(limits[key], LeaderEpoch(leader_epoch), text, committed_ms)
                lowered.setdefault(group, {})[topic_partition_of(key)] = row
        for group, offsets in lowered.items():
            self.put_all(group, offsets)

    def same(self, other: OffsetTable) -> bool:
        """True if both tables have the same offsets with the same metadata texts."""
        return dict(self.metadata) == dict(other.metadata) and super().same(other)

    def __len__(self) -> int:
        return sum(block.rows - block.dead_rows for block in self.in_blocks().blocks)

    def seal(self) -> None:
        """Make the newest rows (the tail) a block, mark dead the older rows that they replace, and apply `tidied`."""
        replaced: dict[int, list[int]] = {}
        for key in self._tail:
            replaced.setdefault(key.group, []).append(key.partition_key)
        self._kill_keys(replaced)
        super().seal()

    def in_blocks(self) -> OffsetTable:
        """Return an equal table, to be stored, with all rows in blocks: the newest rows (the tail) become a block.

        Both tables share each block that stays the same. A block changes if the tail replaces one of its rows, or if
        `tidied` merges or rewrites it.
        """
        other = self.fork()
        other.seal()
        return other

    def _tail_columns(self) -> Columns:
        return self._columns(
            (key.group, key.partition_key, row.offset, row.leader_epoch, row.committed_ms)
            for key, row in self._tail.items()
        )

    def _keys(self) -> set[OffsetKey]:
        """Return the keys of the rows that are in the tail or have a metadata text."""
        return {*self._tail, *self.metadata}

    def _remove(self, is_gone: Callable[[Columns], Column], keys: Iterable[OffsetKey]) -> None:
        for key in keys:
            self._tail.pop(key, None)
            self.metadata.pop(key, None)
        self._kill(lambda block: np.flatnonzero(is_gone(block.columns)))
        self.blocks = tuple(tidied(self.blocks, self.ORDER))

    def _kill_keys(self, replaced: Mapping[int, list[int]]) -> None:
        """Mark rows of the blocks as dead: for each group number in `replaced`, the rows of these partition keys."""
        if replaced:
            self._kill(lambda block: np.concatenate([_rows_of(block, *pair) for pair in replaced.items()]))

    def _rows(self, block: Block, rows: Column) -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        columns = (block.columns[name][rows].tolist() for name in self.DTYPES)
        for group, place, offset, leader_epoch, committed_ms in zip(*columns, strict=True):
            key = OffsetKey(group, place)
            text = self.metadata.get(key, "")
            yield key, CommittedOffset(Offset(offset), LeaderEpoch(leader_epoch), text, committed_ms)


def _rows_of(block: Block, group: int, keys: list[int]) -> Rows:
    """Return the numbers of the live rows of `block` that belong to a group and to one of the partition `keys`."""
    low, high = np.searchsorted(block.columns["group"], [group, group + 1]).tolist()
    return rows_with(block, "partition_key", np.array(sorted(keys), dtype=np.int64), low, high)
