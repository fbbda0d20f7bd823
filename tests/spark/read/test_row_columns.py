"""The columns of Spark that follow from the rows of `core/describe`: their names and types are an interface."""

from __future__ import annotations

import datetime

import msgspec
import pytest

from sparklog.options.registry import METADATA_TABLES
from sparklog.spark.read.metadata_tables import metadata_schema
from sparklog.spark.read.row_columns import row_batch, row_schema

COLUMNS = {
    "topics": "topic string, topic_id bigint, replication_factor int, state string, records bigint, size_bytes bigint, "
    "segments bigint, oldest timestamp, newest timestamp, created timestamp, mirror_of string, promoted_from string, "
    "partitions int, "
    "config map<string,string>",
    "partitions": "topic string, partition int, leader string, leader_epoch int, replicas array<string>, "
    "isr array<string>, elr array<string>, adding array<string>, removing array<string>, state string, "
    "log_start bigint, high_watermark bigint, log_end bigint, records bigint, size_bytes bigint, segments bigint, "
    "oldest timestamp, newest timestamp, version bigint",
    "replicas": "topic string, partition int, store string, zone string, role string, is_leader boolean, "
    "in_isr boolean, in_elr boolean, may_lead boolean, log_end bigint, lag_records bigint, lag_bytes bigint, "
    "size_bytes bigint, registration bigint, reachable boolean, adding boolean, removing boolean",
    "segments": "topic string, partition int, start bigint, end bigint, records bigint, size_bytes bigint, "
    "batches int, kind string, oldest timestamp, newest timestamp, appended timestamp, leader_epoch int, "
    "object string, object_size_bytes bigint, position bigint, stores array<string>",
    "groups": "group string, state string, generation bigint, topic string, partition int, committed bigint, "
    "leader_epoch int, metadata string, committed_at timestamp, log_start bigint, end bigint, lag bigint, "
    "member string, unread_since timestamp",
    "writes": "write_id string, command_id string, app_id string, app_version bigint, topic string, topic_id bigint, "
    "partition int, start bigint, end bigint, records bigint, size_bytes bigint, time timestamp, entry bigint",
    "chain": "entry bigint, time timestamp, author_kind string, author string, command_id string, begun_at bigint, "
    "records array<string>, entry_size_bytes bigint, ignored boolean",
}


@pytest.mark.parametrize("table", METADATA_TABLES)
def test_the_columns_of_a_table_are_those_that_users_know(table: str) -> None:
    fields = metadata_schema(table).fields
    assert ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields) == COLUMNS[table]
    assert all(field.nullable for field in fields)


class Inner(msgspec.Struct, frozen=True):
    name: str
    more: int = 0


class Outer(msgspec.Struct, frozen=True):
    at: int
    at_ms: int | None
    began_us: int
    inner: tuple[Inner, ...]
    by_name: dict[str, Inner]


def test_a_time_loses_its_unit_and_a_row_inside_a_row_becomes_its_name() -> None:
    rows = [
        Outer(1, 2_000, 3_000_001, (Inner("a"), Inner("b")), {"y": Inner("c"), "x": Inner("d")}),
        Outer(1, None, 0, (), {}),
    ]
    first, second = row_batch([Outer], map(msgspec.structs.astuple, rows)).to_pylist()
    assert list(first) == ["at", "at_at", "began", "inner", "by_name"]
    assert first["began"] - first["at_at"] == datetime.timedelta(seconds=1, microseconds=1)
    assert (first["inner"], first["by_name"]) == (["a", "b"], [("x", "d"), ("y", "c")])
    assert (second["at_at"], second["inner"], second["by_name"]) == (None, [], [])
    assert row_batch([Outer], []).num_rows == 0


def test_an_annotation_without_a_type_of_spark_is_found_at_once() -> None:
    class Odd(msgspec.Struct):
        odd: complex

    with pytest.raises(AssertionError, match="no type of Spark"):
        row_schema([Odd])
