from __future__ import annotations

import io
from pathlib import Path

import google_crc32c
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from sparklog.core.types import PartitionIndex, TopicId, TopicPartition
from sparklog.log.batch import BatchEncoder
from sparklog.log.ipc_file import IpcFileWriter
from sparklog.log.kafka_columns import canonical
from sparklog.log.stored_schema import RAW
from sparklog.storage.memory import MemoryStore


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return canonical(
        pa.record_batch(
            {
                "key": pa.array([str(number).encode() for number in numbers]),
                "value": pa.array([b"v" * (number % 90) for number in numbers]),
                "headers": pa.array([[{"key": "h", "value": b"x"}] if number % 3 else None for number in numbers]),
                "timestamp": pa.array(numbers, pa.timestamp("us", "UTC")),
            }
        )
    )


def assemble(counts: list[int]) -> tuple[bytes, IpcFileWriter, list[int]]:
    """A file with batches of so many records, compressed one by one as zstd, lz4 and not at all."""
    store = MemoryStore("memory://ipc-file")
    encoders = [BatchEncoder(codec) for codec in ("zstd", "lz4", "none")]
    with store.upload("x.arrow") as upload:
        file = IpcFileWriter(upload, RAW.arrow)
        positions = []
        for number, count in enumerate(counts):
            place = TopicPartition(TopicId(1), PartitionIndex(number))
            encoded = encoders[number % 3].encode(place, rows(1000 * number, count))
            positions.append(file.append(encoded.message))
        file.finish()
        upload.publish()
    whole = bytes(store.get("x.arrow"))
    store.delete("x.arrow")
    return whole, file, positions


@pytest.mark.parametrize("counts", [[], [1], [700, 1], [1, 700, 3, 800, 900, 5, 600]], ids=len)
def test_file_opens_with_plain_arrow_and_polars(counts: list[int], tmp_path: Path):  # M: S-02
    whole, _, _ = assemble(counts)
    wanted = pa.Table.from_batches(
        [rows(1000 * number, count) for number, count in enumerate(counts)], schema=RAW.arrow
    )
    reader = pa.ipc.open_file(whole)
    assert reader.num_record_batches == len(counts)
    assert reader.schema.metadata == {b"sparklog.format": b"3"}
    table = reader.read_all()
    table.validate(full=True)
    assert table == wanted
    path = tmp_path / "x.arrow"
    path.write_bytes(whole)
    for frame in (pl.read_ipc(io.BytesIO(whole)), pl.read_ipc(path), pl.scan_ipc(path).collect()):
        assert frame.height == wanted.num_rows
        assert frame["value"].to_list() == wanted["value"].to_pylist()
        assert frame["headers"].to_list() == wanted["headers"].to_pylist()


def test_batches_are_reached_one_by_one_through_the_footer():
    whole, _, _ = assemble([10, 500, 20])
    reader = pa.ipc.open_file(whole)
    assert reader.get_batch(2).equals(rows(2000, 20))
    assert reader.get_batch_with_custom_metadata(1).custom_metadata == {b"sparklog.partition": b"1-1"}


def test_the_file_after_its_magic_is_a_standard_stream():
    whole, _, _ = assemble([10, 20])
    assert pa.ipc.open_stream(whole[8:]).read_all().num_rows == 30


def test_position_and_checksum_are_those_of_the_whole_file():
    whole, file, positions = assemble([10, 2000, 20])
    assert file.position == len(whole)
    assert file.crc32c == google_crc32c.value(whole)
    assert all(position % 8 == 0 for position in positions)
    assert all(whole[position : position + 4] == b"\xff\xff\xff\xff" for position in positions)


def test_the_footer_holds_nothing_of_what_was_in_memory_before():
    """Each 24-byte struct Block has 4 bytes of padding: the same records make the same file."""
    counts = [1] * 50
    before = [np.full(len(counts) * 24, 0xFF, dtype=np.uint8) for _ in range(500)]  # for numpy to use again
    del before
    whole, _, _ = assemble(counts)
    blocks = np.frombuffer(whole[-10 - 24 * len(counts) : -10], dtype=np.uint8).reshape(len(counts), 24)
    assert not blocks[:, 12:16].any()


def test_what_is_no_message_is_refused():
    with MemoryStore("memory://ipc-file").upload("y.arrow") as upload:
        file = IpcFileWriter(upload, RAW.arrow)
        for wrong in (b"\0" * 16, b"\xff\xff\xff\xff\0\0\0\0", b"\xff\xff\xff\xff\x08\0\0\0" + b"\0" * 9):
            with pytest.raises(ValueError, match="encapsulated Arrow message"):
                file.append(pa.py_buffer(wrong))
