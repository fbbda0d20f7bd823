"""Tables of the chain with wrong content: one error, whatever Arrow says."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from sparklog.chain.arrow_table import NoArrowTable, read_table

COLUMNS = {"text": "string", "number": "int64"}


def table(batches: int = 1) -> bytearray:
    batch = pa.record_batch({"text": pa.array(["a", "bc"]), "number": pa.array([1, 2])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        for _ in range(batches):
            writer.write_batch(batch)
    return bytearray(sink.getvalue())


def test_a_table_is_read() -> None:
    assert read_table(bytes(table()), COLUMNS).column("number").to_pylist() == [1, 2]


def test_a_table_with_wrong_content_is_no_table() -> None:
    body = table()
    at = body.index(struct.pack("<3i", 0, 1, 3))
    struct.pack_into("<3i", body, at, 0, 3000, 3)
    with pytest.raises(NoArrowTable, match=r"it can't be read as a table of text, number: .*ffset"):
        read_table(bytes(body), COLUMNS)


def test_a_table_of_other_columns_or_batches_is_no_table() -> None:
    for columns in ({"other": "int64"}, {"number": "int32"}):
        with pytest.raises(NoArrowTable):
            read_table(bytes(table()), columns)
    with pytest.raises(NoArrowTable, match="wanted one batch, found 2"):
        read_table(bytes(table(2)), COLUMNS)


def test_a_table_cut_anywhere_or_with_any_byte_flipped_is_read_or_no_table() -> None:
    body = table()
    for at in range(0, len(body), 3):
        with pytest.raises(NoArrowTable):
            read_table(bytes(body[:at]), COLUMNS)
        flipped = bytearray(body)
        flipped[at] ^= 64
        try:
            read_table(bytes(flipped), COLUMNS).to_pylist()
        except NoArrowTable:
            continue
