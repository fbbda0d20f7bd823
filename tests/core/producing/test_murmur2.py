from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.producing.murmur2 import murmur2_of_keys, partitions_for_keys
from tests.core.producing.java_murmur2 import murmur2, partition_for_key

# The vectors of Kafka's own UtilsTest, and three more that other clients check against a Java producer.
KAFKA_VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
    b"": 275646681,
    b"hello world": 1221641059,
    "éèê".encode(): -1401640301,
}


def arrays(keys: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.cumsum([0, *map(len, keys)]).astype(np.int32)
    return offsets, np.frombuffer(b"".join(keys), dtype=np.uint8)


# M: S-07
@pytest.mark.parametrize("key", KAFKA_VECTORS)
def test_hash_is_the_one_of_a_java_producer(key: bytes) -> None:
    assert murmur2(key) == KAFKA_VECTORS[key]


# M: S-07
def test_hashes_of_many_keys_are_those_of_a_java_producer() -> None:
    assert murmur2_of_keys(*arrays(list(KAFKA_VECTORS))).tolist() == list(KAFKA_VECTORS.values())


def test_a_negative_hash_is_masked_not_negated() -> None:
    assert partitions_for_keys(*arrays([b"21"]), 7).tolist() == [partition_for_key(b"21", 7)]
    assert partition_for_key(b"21", 7) == (-973932308 & 0x7FFFFFFF) % 7


@given(
    keys=st.lists(st.one_of(st.binary(max_size=12), st.binary(max_size=200)), max_size=60),
    partitions=st.one_of(st.integers(1, 300), st.sampled_from([65_535, 65_536, 65_537, 1_000_000])),
)
def test_keys_of_mixed_lengths_go_where_each_would_go_alone(keys: list[bytes], partitions: int) -> None:
    offsets, data = arrays(keys)
    assert murmur2_of_keys(offsets, data).tolist() == [murmur2(key) for key in keys]
    expected = [partition_for_key(key, partitions) for key in keys]
    assert partitions_for_keys(offsets, data, partitions).tolist() == expected
    assert partitions_for_keys(offsets.astype(np.int64), data, partitions).tolist() == expected


@given(length=st.integers(0, 40), rows=st.integers(1, 50), seed=st.integers(0, 2**32 - 1))
def test_keys_of_one_length_go_where_each_would_go_alone(length: int, rows: int, seed: int) -> None:
    data = np.random.default_rng(seed).bytes(length * rows)
    keys = [data[length * row : length * (row + 1)] for row in range(rows)]
    assert murmur2_of_keys(*arrays(keys)).tolist() == [murmur2(key) for key in keys]


@given(
    keys=st.lists(st.binary(max_size=30), min_size=1, max_size=40),
    cut=st.tuples(st.integers(0, 40), st.integers(0, 40)),
)
def test_a_slice_of_an_arrow_column_is_hashed_in_place(keys: list[bytes], cut: tuple[int, int]) -> None:
    start, end = sorted(min(each, len(keys)) for each in cut)
    column = pa.array(keys, type=pa.binary()).slice(start, end - start)
    _, offsets_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    data = np.frombuffer(data_buffer, dtype=np.uint8) if data_buffer else np.empty(0, dtype=np.uint8)
    assert murmur2_of_keys(offsets, data).tolist() == [murmur2(key) for key in keys[start:end]]


def test_many_keys_of_mixed_lengths_and_a_few_long_ones_agree_with_one_by_one() -> None:
    random = np.random.default_rng(7)
    lengths = [*random.integers(0, 50, 500).tolist(), 70_000, 3_001, 3_001, 1_002]
    keys = [random.bytes(length) for length in lengths]
    assert murmur2_of_keys(*arrays(keys)).tolist() == [murmur2(key) for key in keys]


def test_partition_numbers_are_16_bit_while_they_fit_and_32_bit_beyond() -> None:
    offsets, data = arrays([b"a", b"bc"])
    assert partitions_for_keys(offsets, data, 65_536).dtype == np.uint16
    assert partitions_for_keys(offsets, data, 65_537).dtype == np.int32


def test_no_keys_have_no_hashes() -> None:
    assert len(partitions_for_keys(*arrays([]), 3)) == 0
