"""Below the views, columns are known by their roles and types, never by the names of raw records."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

import sparklog.log
from sparklog.log.stored_schema import HEADERS, RAW, RAW_WITH_OFFSETS, TIMESTAMP, StoredSchema

NAMES: Final = frozenset({"key", "value", "headers", "timestamp", "timestampType"})
VIEWS: Final = {
    "stored_schema.py",  # where they are given their roles
    "kafka_columns.py",
    "header_keys.py",
    "read/kafka_rows.py",
    "write/kept_offsets.py",  # takes the rows of a mirror as its users give them
}


def test_only_the_views_name_the_columns_of_raw_records() -> None:
    root = Path(sparklog.log.__file__).parent
    named = {
        str(file.relative_to(root))
        for file in root.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in NAMES
    }
    assert named == VIEWS


def test_columns_are_sized_by_their_types() -> None:
    assert (RAW.byte_columns, RAW.list_columns) == (("key", "value"), ("headers",))
    assert (RAW.row_bytes, RAW.element_bytes) == (16, 8)
    assert RAW_WITH_OFFSETS.row_bytes == RAW.row_bytes
    columns = pa.schema([("id", pa.int64()), ("name", pa.string()), ("small", pa.int16()), ("at", TIMESTAMP)])
    typed = StoredSchema(columns, content="the columns", key="name", timestamp="at")
    assert (typed.byte_columns, typed.list_columns, typed.row_bytes, typed.element_bytes) == (("name",), (), 22, 0)


@pytest.mark.parametrize(
    "columns",
    [
        {"one": HEADERS, "two": HEADERS},
        {"bytes": pa.list_(pa.binary())},
        {"numbers": pa.list_(pa.struct([("a", pa.int64())]))},
    ],
    ids=lambda each: next(iter(each)),
)
def test_lists_whose_size_would_not_be_known_are_refused(columns: dict[str, pa.DataType]) -> None:
    schema = pa.schema([("key", pa.binary()), *columns.items(), ("at", TIMESTAMP)])
    with pytest.raises(ValueError, match="at most one column of lists"):
        StoredSchema(schema, content="the columns", key="key", timestamp="at")
