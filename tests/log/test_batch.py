from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.errors import Damaged, InvalidInput
from sparklog.core.types import PartitionIndex, TopicId, TopicPartition
from sparklog.log.batch import ARENA_BYTES, BatchEncoder, EncodedBatch, decodings, with_all_columns, without_null_lists
from sparklog.log.kafka_columns import canonical
from sparklog.log.stored_schema import RAW
from tests.log.record_strategies import batches

P0 = TopicPartition(TopicId(1), PartitionIndex(0))


def rows(records: int, value: bytes = b"v" * 100) -> pa.RecordBatch:
    return canonical(
        pa.record_batch(
            {
                "key": pa.array([b"%08d" % number for number in range(records)]),
                "value": pa.array([value] * records),
                "timestamp": pa.array(range(5, 5 + records), pa.timestamp("us", "UTC")),
            }
        )
    )


def decoded(encoded: list[EncodedBatch], columns: list[str], position: int = 0) -> list[pa.RecordBatch]:
    body = pa.py_buffer(b"".join(each.message.to_pybytes() for each in encoded))
    lengths = [each.message.size for each in encoded]
    crcs = [each.crc32c for each in encoded]
    return [task() for task in decodings("append/x.arrow", position, body, lengths, crcs, columns)]


def with_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    at = batch.schema.get_field_index("timestamp")
    times = pa.array([0] * batch.num_rows, RAW.arrow.field("timestamp").type)
    return batch.set_column(at, RAW.arrow.field("timestamp"), times)


@given(batches(3), st.sampled_from(["zstd", "lz4", "none"]), st.sets(st.sampled_from(RAW.names), min_size=1))
def test_decoding_gives_back_what_was_encoded(given_batches, compression: str, chosen: set[str]):
    columns = [name for name in RAW.names if name in chosen]
    wanted = [with_times(canonical(each)).select(RAW.names) for each in given_batches if each.num_rows]
    encoder = BatchEncoder(compression)
    encoded = [encoder.encode(TopicPartition(TopicId(1), PartitionIndex(at)), each) for at, each in enumerate(wanted)]
    assert [each.to_pylist() for each in decoded(encoded, columns)] == [
        each.select(columns).to_pylist() for each in wanted
    ]
    assert [(each.partition, each.records) for each in encoded] == [
        (at, each.num_rows) for at, each in enumerate(wanted)
    ]


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_only_batches_of_16_kib_and_more_are_compressed(compression: str):
    encoder = BatchEncoder(compression)
    small, large = encoder.encode(P0, rows(10)), encoder.encode(P0, rows(10_000))
    assert small.message.size > 10 * 100
    assert large.message.size < 10_000 * 100 / 3
    assert [each.num_rows for each in decoded([small, large, small], ["value"])] == [10, 10_000, 10]


def test_compression_none_compresses_nothing():
    assert BatchEncoder("none").encode(P0, rows(10_000)).message.size > 10_000 * 100


def test_unknown_compression_is_refused():
    with pytest.raises(InvalidInput, match="wanted zstd, lz4 or none, found 'gzip'"):
        BatchEncoder("gzip")


def test_a_batch_larger_than_an_arena_gets_its_own():
    encoder = BatchEncoder("none")
    large = rows(1, b"x" * (ARENA_BYTES + 5))
    encoded = [encoder.encode(P0, rows(3)), encoder.encode(P0, large), encoder.encode(P0, rows(4))]
    assert [each.num_rows for each in decoded(encoded, ["key", "value"])] == [3, 1, 4]


def test_timestamp_bounds_are_of_the_rows_of_a_slice():
    encoded = BatchEncoder("zstd").encode(P0, rows(100).slice(10, 20))
    assert (encoded.min_timestamp_us, encoded.max_timestamp_us) == (15, 34)


@pytest.mark.parametrize("columns", [[name] for name in RAW.names])
def test_columns_that_are_not_asked_for_are_not_there(columns: list[str]):
    (batch,) = decoded([BatchEncoder("zstd").encode(P0, rows(2_000))], columns)
    assert batch.schema.names == columns


# M: S-08
def test_uncompressed_columns_are_views_of_the_bytes():
    encoded = BatchEncoder("none").encode(P0, rows(100))
    body = encoded.message
    (task,) = decodings("k", 0, body, [body.size], [encoded.crc32c], ["value"])
    batch = task()
    assert body.address <= batch.column(0).buffers()[2].address < body.address + body.size


def test_flipped_bit_names_object_byte_and_both_checksums():
    encoded = BatchEncoder("zstd").encode(P0, rows(1_000))
    body = bytearray(encoded.message)
    body[len(body) // 2] ^= 1
    with pytest.raises(Damaged, match=r"at byte 1008 of append/x.arrow: wanted CRC32C 0x[0-9a-f]{8}, found 0x"):
        next(decodings("append/x.arrow", 1008, pa.py_buffer(body), [len(body)], [encoded.crc32c], ["key"]))()


def test_damage_is_found_before_the_batch_but_after_those_in_front():
    first, second = (BatchEncoder("none").encode(P0, rows(count)) for count in (3, 4))
    body = bytearray(first.message) + bytearray(second.message)
    body[-1] ^= 128
    lengths, crcs = [first.message.size, second.message.size], [first.crc32c, second.crc32c]
    whole, damaged = decodings("k", 0, pa.py_buffer(body), lengths, crcs, ["value"])
    assert whole().num_rows == 3
    with pytest.raises(Damaged, match=f"at byte {lengths[0]} of k"):
        damaged()


def test_headers_that_are_not_there_cost_next_to_nothing():
    whole = BatchEncoder("zstd").encode(P0, rows(10_000))
    nulls = rows(10_000).set_column(2, RAW.arrow.field("headers"), pa.nulls(10_000, RAW.arrow.field("headers").type))
    assert BatchEncoder("zstd").encode(P0, nulls).message.size == whole.message.size
    plain = BatchEncoder("none").encode(P0, rows(10_000))
    assert plain.message.size < rows(10_000).nbytes + 10_000 * 6


def test_headers_are_dropped_only_if_no_record_has_any():
    none = rows(3)
    some = none.set_column(2, RAW.arrow.field("headers"), pa.array([None, [], None], RAW.arrow.field("headers").type))
    assert without_null_lists(none, RAW).schema.names == ["key", "value", "timestamp"]
    assert without_null_lists(some, RAW).schema.names == RAW.names
    assert with_all_columns(without_null_lists(none, RAW), RAW).equals(none)
    assert with_all_columns(some, RAW).equals(some)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("size", [1 << 15, 1 << 20, ARENA_BYTES])
def test_what_can_not_be_compressed_has_room(compression: str, size: int):
    noise = np.random.default_rng(5).bytes(size)
    encoder = BatchEncoder(compression)
    encoded = [encoder.encode(P0, rows(1, noise)) for _ in range(3)]
    assert [each.column(0).to_pylist() for each in decoded(encoded, ["value"])] == [[noise]] * 3
