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


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_buffer_that_does_not_unpack_to_the_length_it_claims_is_no_table(codec: str) -> None:
    batch = pa.record_batch({"text": pa.array(["a"] * 1_000), "number": pa.array([1] * 1_000)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_batch(batch)
    body = sink.getvalue().to_pybytes()
    assert read_table(body, COLUMNS).num_rows == 1_000
    for length in (1_000, 4_004, 8_000):  # of the texts, their offsets, and the numbers
        at = body.index(length.to_bytes(8, "little"))
        for false in (0, 8, length - 1, length + 1, 2 * length, -1, -2):
            with pytest.raises(NoArrowTable):
                read_table(body[:at] + false.to_bytes(8, "little", signed=True) + body[at + 8 :], COLUMNS)


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
