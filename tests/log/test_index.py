from __future__ import annotations

import io
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

from sparklog.core.errors import Damaged, UnsupportedVersion
from sparklog.core.types import NewObject, PartitionIndex, TopicId
from sparklog.log.batch import crc32c
from sparklog.log.index import INDEX_SCHEMA, Index, cut_to_slice, decode_index, encode_index, rebuild_index
from sparklog.storage.keys import data_key, index_key
from tests.log.record_strategies import batches
from tests.log.written_log import WrittenLog, empty_store, write


def small_log() -> WrittenLog:
    """One object of two partitions, three batches."""
    return write(
        empty_store(),
        [
            pa.record_batch(
                {
                    "value": pa.array([b"a" * 30 * number for number in range(12)]),
                    "partition": pa.array([0] * 4 + [1] * 8),
                }
            )
        ],
        2,
    )


def of(log: WrittenLog, number: int = 0) -> tuple[NewObject, str, memoryview, memoryview]:
    """An object of the log, its key, its bytes and those of its index."""
    named = log.objects[number].object
    key = data_key(named, "orders")
    return named, key, log.store.get(key), log.store.get(index_key(key))


# M: F-05
@given(batches(4))
def test_index_rebuilt_from_its_object_equals_the_one_written(given_batches):
    log = write(empty_store(), given_batches, 4)
    for number in range(len(log.objects)):
        named, key, body, index = of(log, number)
        assert rebuild_index(key, body, named) == decode_index(index_key(key), index, named)


@given(batches(4))
def test_index_says_where_each_batch_is_and_what_it_holds(given_batches):  # M: S-04
    log = write(empty_store(), given_batches, 4)
    for number in range(len(log.objects)):
        named, key, body, index_body = of(log, number)
        index = decode_index(key, index_body, named)
        reader = pa.ipc.open_file(pa.py_buffer(body))
        assert len(index) == reader.num_record_batches
        before: dict[int, int] = {}
        for at in range(len(index)):
            batch = reader.get_batch_with_custom_metadata(at)
            partition = int(index.partition[at])
            message = pa.py_buffer(body).slice(int(index.position[at]), int(index.length[at]))
            times = batch.batch.column("timestamp").cast(pa.int64()).to_pylist()
            assert batch.custom_metadata == {b"sparklog.partition": f"{named.topic_id}-{partition}".encode()}
            assert index.first_record[at] == before.get(partition, 0)
            assert index.records[at] == batch.batch.num_rows > 0
            assert (index.min_timestamp_us[at], index.max_timestamp_us[at]) == (min(times), max(times))
            assert index.crc32c[at] == crc32c(message)
            before[partition] = before.get(partition, 0) + batch.batch.num_rows


def test_index_of_nothing_is_an_index():
    empty = Index(**{field.name: np.array([], field.type.to_pandas_dtype()) for field in INDEX_SCHEMA})
    body = encode_index(empty)
    named = small_log().objects[0].object
    fitting = NewObject(
        **{name: getattr(named, name) for name in named.__struct_fields__}
        | {"index_size_bytes": body.size, "index_crc32c": crc32c(body)}
    )
    assert decode_index("x.index", memoryview(body), fitting) == empty


def test_index_opens_with_plain_arrow_and_polars():  # M: S-02
    _, _, _, index = of(small_log())
    assert pa.ipc.open_file(pa.py_buffer(index)).read_all().schema.equals(INDEX_SCHEMA, check_metadata=True)
    assert pl.read_ipc(io.BytesIO(index)).columns == INDEX_SCHEMA.names


# M: F-05
def test_any_flipped_bit_of_an_index_is_found():
    named, _, _, index = of(small_log())
    for byte in range(len(index)):
        damaged = bytearray(index)
        damaged[byte] ^= 1 << byte % 8
        with pytest.raises(Damaged, match=r"index at byte 0 of i.index: wanted CRC32C .*, found"):
            decode_index("i.index", memoryview(damaged), named)


# M: F-05
def test_any_cut_of_an_index_is_found():
    named, _, _, index = of(small_log())
    for length in range(len(index)):
        with pytest.raises(Damaged, match=f"wanted {len(index):,} bytes, found {length:,}"):
            decode_index("i.index", index[:length], named)


def test_nothing_is_rebuilt_from_a_damaged_object():
    named, key, body, _ = of(small_log())
    for byte in range(0, len(body), 7):
        damaged = bytearray(body)
        damaged[byte] ^= 1 << byte % 8
        with pytest.raises(Damaged, match=f"of {key}: wanted CRC32C"):
            rebuild_index(key, memoryview(damaged), named)
        with pytest.raises(Damaged, match=rf"object {key}: wanted {len(body):,} bytes .*, found {byte:,} byte"):
            rebuild_index(key, body[:byte], named)


@pytest.mark.parametrize("what", ["index", "object"])
def test_another_format_is_refused_by_name(what: str):
    named, key, body, index = of(small_log())
    if what == "index":
        other = bytes(index).replace(b"sparklog.index\0\0", b"sparklog.indeX\0\0")
        changed = {"index_size_bytes": len(other), "index_crc32c": crc32c(pa.py_buffer(other))}
    else:
        other = bytes(body).replace(b"sparklog.format", b"sparklog.formaT")
        changed = {"size_bytes": len(other), "crc32c": crc32c(pa.py_buffer(other))}
    fitting = NewObject(**{name: getattr(named, name) for name in named.__struct_fields__} | changed)
    read = decode_index if what == "index" else rebuild_index
    with pytest.raises(UnsupportedVersion, match=f"{what} {key}: wanted format 3 or 4, found None"):
        read(key, memoryview(other), fitting)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_compressed_index_is_damage(compression: str):
    """None is written, and it might claim any length."""
    named, key, _, index = of(small_log())
    table = pa.ipc.open_file(pa.py_buffer(index)).read_all()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    other = sink.getvalue()
    fitting = msgspec.structs.replace(named, index_size_bytes=other.size, index_crc32c=crc32c(other))
    with pytest.raises(Damaged, match=f"index {key}: .* can't be decoded: a compressed index"):
        decode_index(key, memoryview(other), fitting)


# ---- whose batches these are ---------------------------------------------------------------------------


@pytest.mark.parametrize("claim", [{"topic_id": TopicId(9)}, {"partition": PartitionIndex(3)}])
@pytest.mark.parametrize("read", [decode_index, rebuild_index])
def test_an_index_of_another_topic_or_partition_than_the_chain_says_is_refused(read: Any, claim: dict[str, Any]):
    """The chain's word is the claim of an author, who may know neither the bytes nor their topic."""
    log = small_log()
    named, key, body, index_body = of(log)
    index = read(key, index_body if read is decode_index else body, named)
    slice_ = next(each for each in log.slices if each.object_number == log.objects[0].number)
    cut_to_slice(index, slice_, key)
    with pytest.raises(
        Damaged, match=r"wanted batches of partition \d of topic id \d, as the chain says, found one of"
    ):
        cut_to_slice(index, msgspec.structs.replace(slice_, **claim), key)


def test_one_batch_of_another_topic_spoils_the_slice():
    log = small_log()
    named, key, _, index_body = of(log)
    index = decode_index(key, index_body, named)
    slice_ = max(log.slices, key=lambda each: each.batches)
    assert (slice_.object_number, slice_.batches > 1) == (log.objects[0].number, True)
    for at in range(slice_.first_batch, slice_.first_batch + slice_.batches):
        topic_ids = index.topic_id.copy()
        topic_ids[at] += 1
        with pytest.raises(
            Damaged, match=f"found one of partition {slice_.partition} of topic id {named.topic_id + 1}"
        ):
            cut_to_slice(replace(index, topic_id=topic_ids), slice_, key)


@pytest.mark.parametrize("place", [b"5x0", b"-50", b"50-", b"x-0", b"5-x"])
def test_a_batch_that_names_no_partition_is_damaged(place: bytes):
    named, key, body, _ = of(small_log())
    written = f"{named.topic_id}-0".encode()
    assert bytes(body).count(written)
    other = bytes(body).replace(written, place)
    fitting = msgspec.structs.replace(named, crc32c=crc32c(pa.py_buffer(other)))
    with pytest.raises(Damaged, match=f"object {key}: .* a batch of partition"):
        rebuild_index(key, memoryview(other), fitting)


def spoilt(index: Index, column: str, row: int, value: int) -> Index:
    """The index with another value in one cell."""
    cells = getattr(index, column).copy()
    cells[row] = value
    return replace(index, **{column: cells})


def named_as(named: NewObject, index: pa.Buffer) -> NewObject:
    """The object with the right size and checksum of this index."""
    return msgspec.structs.replace(named, index_size_bytes=index.size, index_crc32c=crc32c(index))


@pytest.mark.parametrize(
    ("column", "row", "value"),
    [
        ("records", 1, 0),
        ("records", 0, -4),
        ("length", 1, 0),
        ("length", 2, -8),
        ("length", 1, 2**62),
        ("length", 2, 2**63 - 1),
        ("position", 0, -8),
        ("position", 1, 0),
        ("position", 2, 2**40),
    ],
)
def test_an_index_whose_batches_do_not_follow_each_other_is_damage(column: str, row: int, value: int) -> None:
    named, key, _, body = of(small_log())
    wrong = encode_index(spoilt(decode_index(key, body, named), column, row, value))
    with pytest.raises(Damaged, match=r"its checksum is right, but wanted batches one after the other, none empty"):
        decode_index("k.index", memoryview(wrong), named_as(named, wrong))


def test_an_index_with_a_gap_between_two_batches_is_damage() -> None:
    """Each batch lies in the object, so only a comparison with the one before it shows the gap."""
    named, key, _, body = of(small_log())
    index = decode_index(key, body, named)
    assert len(index) > 1
    wrong = encode_index(spoilt(index, "length", 0, int(index.length[0]) - 8))
    with pytest.raises(Damaged, match="one after the other"):
        decode_index("k.index", memoryview(wrong), named_as(named, wrong))


def test_an_index_or_object_with_right_checksums_that_is_cut_or_flipped_is_damage_or_as_it_was() -> None:
    named, key, object_body, body = of(small_log())
    index = decode_index(key, body, named)
    for at in range(0, len(body), 7):
        flipped = bytearray(body)
        flipped[at] ^= 16
        for wrong in (bytes(body[:at]), bytes(flipped)):
            with suppress(Damaged, UnsupportedVersion):
                assert len(decode_index("k.index", memoryview(wrong), named_as(named, pa.py_buffer(wrong)))) == len(
                    index
                )
    for at in range(0, len(object_body), 7):
        flipped = bytearray(object_body)
        flipped[at] ^= 16
        for wrong in (bytes(object_body[:at]), bytes(flipped)):
            whole = msgspec.structs.replace(named, size_bytes=len(wrong), crc32c=crc32c(pa.py_buffer(wrong)))
            with suppress(Damaged, UnsupportedVersion):
                assert len(rebuild_index("k.arrow", memoryview(wrong), whole)) == len(index)
