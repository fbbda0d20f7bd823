"""The table of committed offsets: rows replace each other across tail and blocks, and cost little."""

from __future__ import annotations

import pytest

from sparklog.core.groups.membership import CommittedOffset
from sparklog.core.tables import offset_table
from sparklog.core.tables.offset_table import OffsetTable
from sparklog.core.types import LeaderEpoch, Offset, PartitionIndex, TopicId, TopicPartition


def place(partition: int, topic_id: int = 1) -> TopicPartition:
    return TopicPartition(TopicId(topic_id), PartitionIndex(partition))


def at(offset: int, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(Offset(offset), LeaderEpoch(0), metadata, 1_000)


def test_a_row_that_is_set_again_replaces_the_one_in_a_block() -> None:
    table = OffsetTable()
    table.put_all(7, {place(partition): at(partition, "old") for partition in range(5)})
    table.seal()
    table.put_all(7, {place(2): at(20), place(9): at(90)})
    table.put_all(8, {place(2): at(1)})
    other = table.in_blocks()
    for each in (table, other):
        assert len(each) == 7
        assert {key.partition: row.offset for key, row in each.of_group(7).items()} == {
            0: 0, 1: 1, 2: 20, 3: 3, 4: 4, 9: 90,
        }  # fmt: skip
        assert each.get(7, place(2)) == at(20)
        assert each.get(7, place(3)) == at(3, "old")
        assert each.get(9, place(3)) is None


def test_what_is_removed_is_gone_from_tail_and_blocks() -> None:
    table = OffsetTable()
    for group in (1, 2):
        table.put_all(group, {place(0): at(1, "a"), place(1): at(2, "b"), place(0, 2): at(3)})
    table.seal()
    table.put_all(1, {place(0): at(5, "c"), place(3): at(6, "d")})
    before = table.fork()
    table.remove(1, [place(0), place(8)])
    assert list(table.of_group(1)) == [place(1), place(3), place(0, 2)]
    table.cut({place(1): Offset(1)})
    assert [table.of_group(group)[place(1)] for group in (1, 2)] == [at(1, "b")] * 2
    table.remove_topic(TopicId(1))
    assert [list(table.of_group(group)) for group in (1, 2)] == [[place(0, 2)]] * 2
    table.remove_group(2)
    assert (len(table), dict(table.metadata)) == (1, {})
    assert len(before) == 7


def test_a_row_in_a_block_costs_forty_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_table.OffsetTable, "TAIL_ROWS", 0)
    table = OffsetTable()
    for group in range(20):
        table.put_all(group, {place(partition): at(1) for partition in range(1_000)})
    sizes = [sum(column.nbytes for column in block.columns.values()) for block in table.blocks]
    assert sum(sizes) == 40 * len(table) == 40 * 20_000
