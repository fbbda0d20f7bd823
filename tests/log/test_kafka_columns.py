from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from sparklog.core.errors import InvalidInput
from sparklog.log.kafka_columns import (
    DEFAULT_COLUMNS,
    READ_SCHEMA,
    canonical,
    columns_left_out,
    left_out_warning,
    read_schema,
)
from sparklog.log.stored_schema import HEADERS, PARTITION, RAW, TOPIC

PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
NOT_NULL = pa.list_(
    pa.field(
        "item",
        pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary(), nullable=False)]),
        nullable=False,
    )
)


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([b"v"]), **columns})


def test_read_schema_is_that_of_sparks_kafka_source():
    assert READ_SCHEMA.names == [*DEFAULT_COLUMNS, "headers"]
    assert [str(field.type) for field in READ_SCHEMA] == [
        "binary",
        "binary",
        "string",
        "int32",
        "int64",
        "timestamp[us, tz=UTC]",
        "int32",
        "list<element: struct<key: string, value: binary>>",
    ]
    assert all(field.nullable for field in READ_SCHEMA)


def test_columns_are_read_in_the_order_asked_for():
    assert read_schema(["offset", "key"]).names == ["offset", "key"]


@pytest.mark.parametrize(
    ("columns", "message"), [(["ofset"], "did you mean offset"), (["key", "key"], "each once"), (["Value"], "value")]
)
def test_unknown_or_repeated_read_column_is_refused(columns: list[str], message: str):
    with pytest.raises(InvalidInput, match=message):
        read_schema(columns)


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.string(),
        pa.large_string(),
        pa.large_binary(),
        pa.string_view(),
        pa.binary_view(),
        pa.binary(2),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_binary()),
    ],
    ids=str,
)
def test_string_and_binary_of_any_layout_become_binary(kind: pa.DataType):
    text = pa.array([b"ab", None], pa.binary())
    column = text.cast(pa.string()).cast(kind) if "string" in str(kind) else text.cast(kind)
    rows = canonical(pa.record_batch({"key": column, "value": column}))
    assert rows.schema.field("key").type == pa.binary()
    assert rows.column("key").to_pylist() == rows.column("value").to_pylist() == [b"ab", None]


@pytest.mark.parametrize(
    "kind",
    [
        HEADERS,
        NOT_NULL,
        pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])),
        pa.list_(pa.struct([("value", pa.binary_view()), ("key", pa.dictionary(pa.int8(), pa.string()))])),
    ],
    ids=str,
)
def test_headers_of_any_layout_become_one(kind: pa.DataType):
    wanted = [[{"key": "a", "value": b"1"}, {"key": "a", "value": b"2"}], [], None]
    rows = canonical(pa.record_batch({"value": pa.array([b"v"] * 3), "headers": pa.array(wanted, kind)}))
    assert rows.schema.field("headers").type == HEADERS
    assert rows.column("headers").to_pylist() == wanted


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "+02:00"])
def test_timestamp_of_any_unit_and_zone_becomes_microseconds_utc(unit: str, zone: str):
    moment = datetime(2026, 11, 21, 4, 6, tzinfo=UTC)
    column = pa.array([moment], pa.timestamp(unit, zone))
    assert canonical(batch(timestamp=column)).column("timestamp").to_pylist() == [moment]


def test_nanoseconds_are_cut_not_refused():
    column = pa.array([1_999], pa.timestamp("ns", "UTC"))
    assert canonical(batch(timestamp=column)).column("timestamp").cast(pa.int64()).to_pylist() == [1]


@pytest.mark.parametrize("width", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()], ids=str)
def test_partition_of_any_width_becomes_int32(width: pa.DataType):
    assert canonical(batch(partition=pa.array([5], width))).schema.field(PARTITION).type == pa.int32()


def test_absent_columns_are_null_and_those_that_were_read_are_ignored():
    rows = canonical(batch(offset=pa.array([1]), timestampType=pa.array([0], pa.int32())))
    assert rows.schema == RAW.arrow
    assert rows.to_pylist() == [{"key": None, "value": b"v", "headers": None, "timestamp": None}]


def test_topic_and_partition_stay_when_given():
    rows = canonical(batch(partition=pa.array([1]), topic=pa.array(["t"], pa.large_string())))
    assert rows.schema.names == [*RAW.names, TOPIC, PARTITION]


# M: S-08
def test_right_columns_are_taken_over_without_a_copy():
    column = pa.array([b"abc"])
    assert canonical(batch(key=column)).column("key").buffers()[2].address == column.buffers()[2].address


def test_a_table_gives_a_table():
    rows = canonical(pa.table({"value": pa.chunked_array([["a"], ["b"]])}))
    assert rows.column("value").to_pylist() == [b"a", b"b"]
    assert rows.schema == RAW.arrow


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"timestamp": pa.array([1], pa.timestamp("us"))}, "TimestampNTZ is refused"),
        ({"timestamp": pa.array([1])}, "'timestamp': wanted a timestamp with a time zone, found int64"),
        ({"key": pa.array([1])}, "'key': wanted string or binary, found int64"),
        ({"value": pa.array([1.5])}, "'value': wanted string or binary, found double"),
        ({"topic": pa.array([b"t"])}, "'topic': wanted string, found binary"),
        ({"partition": pa.array(["0"])}, "'partition': wanted int, found string"),
        ({"partition": pa.array([1 << 40])}, "'partition': values of type int64 don't fit int32"),
        ({"headers": pa.array([{"a": 1}])}, "'headers': wanted list<struct<key: string, value: binary>>, found struct"),
        ({"headers": pa.array([[{"key": "a"}]])}, "'headers': wanted list"),
        ({"headers": pa.array([[]], pa.list_view(PAIR))}, "'headers': wanted list.*, found list_view"),
        ({"headers": pa.array([[{"key": 1, "value": b""}]])}, "'headers': wanted list"),
        ({"vlaue": pa.array([b""])}, "'vlaue' can't be written.*did you mean value"),
        ({"ValUe": pa.array([b""])}, "'ValUe' can't be written.*did you mean value"),
        ({"kye": pa.array([b""])}, "'kye' can't be written.*did you mean key"),
        ({"header": pa.array([b""])}, "'header' can't be written.*did you mean headers"),
        ({"time_stamp": pa.array([b""])}, "'time_stamp' can't be written.*did you mean timestamp.*Rename .* or drop"),
    ],
)
def test_wrong_column_is_named_with_what_was_wanted_and_found(columns: dict[str, pa.Array], message: str):
    with pytest.raises(InvalidInput, match=message):
        canonical(batch(**columns))


def test_columns_that_are_not_the_logs_are_left_out_whatever_their_type():
    others = {"id": pa.array([1]), "action": pa.array(["x"]), "position": pa.array([[1.5]]), "time": pa.array([None])}
    rows = batch(**others)
    assert canonical(rows).schema.names == RAW.names
    twice = pa.RecordBatch.from_arrays([*rows.columns, pa.array([2])], names=[*rows.schema.names, "id"])
    assert columns_left_out(twice.schema.names) == ("id", "action", "position", "time")
    assert canonical(twice).schema.names == RAW.names
    warning = left_out_warning(rows.schema.names)
    assert (
        warning == "columns that are not written: id, action, position, time (a log has topic, partition, key, "
        "value, headers, timestamp)"
    )
    assert left_out_warning(["value", "offset", "timestampType"]) is None


def test_missing_value_is_refused():
    with pytest.raises(InvalidInput, match=r"'value' .* is missing, found key"):
        canonical(pa.record_batch({"key": pa.array([b"k"])}))


def test_column_given_twice_is_refused():
    twice = pa.RecordBatch.from_arrays([pa.array([b"a"]), pa.array([b"b"])], names=["value", "value"])
    with pytest.raises(InvalidInput, match="twice"):
        canonical(twice)
