"""A compacted segment that older code wrote stays readable, byte for byte, and today's code writes the same."""

from __future__ import annotations

import json

import msgspec
import polars as pl
import pyarrow as pa
import pytest

from sparklog.core.errors import UnsupportedVersion
from sparklog.core.types import NewObject
from sparklog.log.index import decode_index, rebuild_index
from sparklog.log.stored_schema import RAW_WITH_OFFSETS
from tests.golden.compacted_segment import FOLDER, KEPT, OLDER, made, records


def golden() -> tuple[NewObject, bytes, bytes]:
    """The golden segment as a chain would name it, with its index."""
    body, index = ((FOLDER / f"segment.{suffix}").read_bytes() for suffix in ("arrow", "index"))
    sizes = {"size_bytes": len(body), "index_size_bytes": len(index)}
    checksums = json.loads((FOLDER / "expected.json").read_text())
    return msgspec.structs.replace(made()[0], **sizes, **checksums), body, index


def test_the_golden_segment_is_read_as_it_was_written() -> None:
    named, body, index = golden()
    found = decode_index("i", memoryview(index), named)
    assert found == rebuild_index("o", memoryview(body), named)
    assert (found.records.tolist(), found.base_offset.tolist(), found.last_offset.tolist()) == (  # type: ignore[union-attr]
        [6, 4],
        [3, 31],
        [29, 58],
    )
    table = pa.ipc.open_file(pa.py_buffer(body)).read_all()
    assert table.schema.equals(RAW_WITH_OFFSETS.arrow, check_metadata=True)
    assert table.equals(pa.Table.from_batches([records()]))
    assert pl.read_ipc(body)["offset"].to_list() == KEPT


def test_an_older_segment_is_refused_by_name() -> None:
    """Its batches and its index don't say of which topic they are. This is no damage: the bytes are as written."""
    body, index = ((OLDER / f"segment.{suffix}").read_bytes() for suffix in ("arrow", "index"))
    sizes = {"size_bytes": len(body), "index_size_bytes": len(index)}
    named = msgspec.structs.replace(made()[0], **sizes, **json.loads((OLDER / "expected.json").read_text()))
    with pytest.raises(UnsupportedVersion, match=r"index i: wanted format 3 or 4, found b'2'"):
        decode_index("i", memoryview(index), named)
    with pytest.raises(UnsupportedVersion, match=r"object o: wanted format 3 or 4, found b'2'"):
        rebuild_index("o", memoryview(body), named)


def test_what_is_written_today_has_the_golden_shape() -> None:
    (named, body, index), (old_named, old_body, old_index) = made(), golden()
    assert decode_index("i", memoryview(index), named) == decode_index("i", memoryview(old_index), old_named)
    assert pa.ipc.open_file(body).read_all().equals(pa.ipc.open_file(old_body).read_all(), check_metadata=True)
