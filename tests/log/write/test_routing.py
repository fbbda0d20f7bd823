from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.errors import InvalidInput, UnknownTopicOrPartition
from sparklog.core.types import PartitionIndex
from sparklog.log.kafka_columns import canonical
from sparklog.log.stored_schema import PARTITION, RAW, TOPIC
from sparklog.log.write.routing import by_topic, split
from tests.core.producing.java_murmur2 import partition_for_key
from tests.log.record_strategies import batches
from tests.log.write.test_row_sizes import rows, size_of

STICKY = PartitionIndex(2)


def wanted_partition(row: dict[str, Any], partitions: int) -> int:
    if row.get(PARTITION) is not None:
        return row[PARTITION]
    return STICKY % partitions if row["key"] is None else partition_for_key(row["key"], partitions)


@given(batches(5, max_batches=1, max_records=60), st.integers(0, 3), st.sampled_from([1, 3, 5, 70_000]))
def test_each_record_goes_where_kafka_would_put_it_and_order_stays(given_batches, skipped: int, partitions: int):
    # M: S-07
    for batch in given_batches:
        rows = canonical(batch).slice(skipped)
        if partitions < 5 and PARTITION in rows.schema.names:
            rows = rows.drop_columns([PARTITION])
        sticky = PartitionIndex(STICKY % partitions)
        pieces = split(rows, RAW, "orders", partitions, sticky)
        model: dict[int, list[dict[str, Any]]] = {}
        for row in rows.to_pylist():
            model.setdefault(wanted_partition(row, partitions), []).append({name: row[name] for name in RAW.names})
        assert [piece.partition for piece in pieces] == sorted(model)
        for piece in pieces:
            found = [{"headers": None, **row} for row in piece.rows.to_pylist()]
            assert found == model[piece.partition]
            assert piece.size_bytes == sum(
                size_of(row) + RAW.element_bytes * len(row["headers"] or ()) for row in found
            )


# M: S-07
@pytest.mark.parametrize("partition", [-1, 6, 70_000])
def test_partition_out_of_range_is_refused(partition: int):
    with pytest.raises(UnknownTopicOrPartition, match=f"0 to 5, found {partition}: topic orders has 6 p"):
        split(rows(partition=[0, partition, None]), RAW, "orders", 6, STICKY)


# M: S-08
def test_rows_of_one_partition_are_not_copied():
    batch = rows(key=[b"same"] * 5)
    (piece,) = split(batch, RAW, "orders", 6, STICKY)
    assert piece.rows.column("key").buffers()[2].address == batch.column("key").buffers()[2].address


def test_rows_that_stand_together_already_are_not_copied():
    batch = rows(partition=[4, 4, 0, 2, 2])
    pieces = split(batch, RAW, "orders", 6, STICKY)
    assert [(piece.partition, piece.rows.num_rows) for piece in pieces] == [(0, 1), (2, 2), (4, 2)]
    addresses = {piece.rows.column("value").buffers()[2].address for piece in pieces}
    assert addresses == {batch.column("value").buffers()[2].address}


def test_rows_are_split_by_topic_in_order_of_appearance():
    batch = rows(topic=["b", "a", "b"], value=[b"1", b"2", b"3"])
    split_rows = [(topic, each.column("value").to_pylist()) for topic, each in by_topic(batch)]
    assert split_rows == [("b", [b"1", b"3"]), ("a", [b"2"])]
    assert all(TOPIC not in each.schema.names for _, each in by_topic(batch))


def test_null_topic_is_refused():
    with pytest.raises(InvalidInput, match="found 1 null;"):
        list(by_topic(rows(topic=["a", None])))
