"""Choose a partition for each record and split rows by partition, without a loop over rows.

As in Kafka's default partitioner, a record goes to the partition that it names, else to that of its key's murmur2 hash.
Records without either go to a "sticky" partition, the same for all rows that are split together. Records keep their
order within each partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.core.describe.readable import counted, exact_amount
from sparklog.core.errors import InvalidInput, RecordTooLarge, UnknownTopicOrPartition
from sparklog.core.producing.murmur2 import partitions_for_keys
from sparklog.core.types import PartitionIndex
from sparklog.log.batch import without_headers
from sparklog.log.records_schema import RAW_SCHEMA

Sizes = npt.NDArray[np.int64]
Chosen = npt.NDArray[np.uint16] | npt.NDArray[np.int32]
HEADER_BYTES = 8  # raw bytes of a header's offsets, on top of its key and value
_SHOWN_KEY_CHARS = 50


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """Rows of one partition: the columns of `RAW_SCHEMA`, without the headers if all are null.

    `size_bytes` counts keys, values and headers, and HEADER_BYTES more for each header.
    """

    partition: PartitionIndex
    rows: pa.RecordBatch
    size_bytes: int


def by_topic(rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Split rows by their `topic` column, and drop that column. `rows` are as `records_schema.canonical` returns them.

    Topics come in order of first appearance. Raises InvalidInput if the topic of a row is null.
    """
    column = rows.column("topic")
    if column.null_count:
        raise InvalidInput(
            f"column 'topic': wanted a topic in each row, found {counted(column.null_count, 'null')}; "
            "the option topic sets one for all rows"
        )
    rest = rows.drop_columns(["topic"])
    topics = column.dictionary_encode()
    names = topics.dictionary.to_pylist()
    if len(names) == 1:
        yield names[0], rest
        return
    codes = topics.indices.to_numpy()
    for code, name in enumerate(names):
        yield name, rest.take(pa.array(np.flatnonzero(codes == code)))


def split(rows: pa.RecordBatch, topic: str, partitions: int, sticky: PartitionIndex) -> list[PartitionRows]:
    """Split rows of one topic by partition, ascending. `rows` are as `records_schema.canonical` returns them.

    `sticky` is the partition for rows with neither a partition nor a key. Partitions without rows are left out. Rows
    already grouped by partition are sliced without a copy; others are first copied into that order. Raises
    UnknownTopicOrPartition for a partition out of range.
    """
    if rows.num_rows == 0:
        return []
    chosen = partition_of_rows(rows, topic, partitions, sticky)
    raw = without_headers(rows)
    if isinstance(chosen, int):
        sums = cumulative_bytes(raw, np.array([0, rows.num_rows]), HEADER_BYTES)
        return [PartitionRows(PartitionIndex(chosen), raw, int(np.diff(sums)[0]))]
    runs = _runs(chosen, partitions)
    if runs is None:
        raw = _take(raw, np.argsort(chosen, kind="stable"))
        counts = np.bincount(chosen)
        owners = np.flatnonzero(counts)
        ends = np.cumsum(counts[owners])
        starts = ends - counts[owners]
    else:
        owners, starts, ends = runs
    sizes = cumulative_bytes(raw, ends, HEADER_BYTES) - cumulative_bytes(raw, starts, HEADER_BYTES)
    by_partition = sorted(zip(owners.tolist(), starts.tolist(), ends.tolist(), sizes.tolist(), strict=True))
    return [
        PartitionRows(PartitionIndex(owner), raw.slice(start, end - start), size)
        for owner, start, end, size in by_partition
    ]


def check_sizes(rows: pa.RecordBatch, topic: str, max_message_bytes: int) -> None:
    """Raise RecordTooLarge if key, value and headers of a record have more than `max_message_bytes` together."""
    sums = cumulative_bytes(rows)
    if len(sums) > 1 and int(np.diff(sums).max()) > max_message_bytes:
        _refuse_too_large(rows, sums, topic, max_message_bytes)


def cumulative_bytes(rows: pa.RecordBatch, at: npt.NDArray[np.int64] | None = None, header_bytes: int = 0) -> Sizes:
    """Return the bytes of keys, values and headers in the rows before each row number in `at`.

    By default, `at` has the number of each row, and of the end. Each header counts `header_bytes` more. The first
    element can differ from 0, so only differences matter. If a null key, value or header still has bytes in its buffer,
    they are counted too.
    """
    places: Any = slice(None) if at is None else at
    sums: Sizes = _offsets(rows.column("key"))[places].astype(np.int64)
    sums += _offsets(rows.column("value"))[places]
    headers = rows.column("headers") if "headers" in rows.schema.names else None
    if headers is not None and headers.null_count < len(headers):
        pairs = headers.values
        firsts = _offsets(headers)[places]
        sums += _offsets(pairs.field("key"))[firsts]
        sums += _offsets(pairs.field("value"))[firsts]
        sums += header_bytes * firsts
    return sums


def partition_of_rows(rows: pa.RecordBatch, topic: str, partitions: int, sticky: PartitionIndex) -> Chosen | int:
    """Return the partition of each row, or a single number if all rows have the same. For the arguments see `split`."""
    if partitions == 1 and "partition" not in rows.schema.names:
        return 0
    given = _given_partitions(rows, topic, partitions)
    if given is not None and given.null_count == 0:
        return _constant_or(given.to_numpy())
    keys = rows.column("key")
    if keys.null_count == len(keys):
        chosen: Chosen | int = int(sticky)
    else:
        chosen = partitions_for_keys(_offsets(keys), _data(keys), partitions)
        if keys.null_count:
            chosen[keys.is_null().to_numpy(zero_copy_only=False)] = sticky
    if given is None:
        return chosen if isinstance(chosen, int) else _constant_or(chosen)
    asked = given.fill_null(-1).to_numpy()
    return _constant_or(np.where(asked >= 0, asked, chosen).astype(np.int32))


def _runs(chosen: Chosen, partitions: int) -> tuple[Sizes, Sizes, Sizes] | None:
    """Return the partition, start and end of each run of rows with the same partition.

    None if the rows of a partition are not all in one run.
    """
    borders = np.flatnonzero(chosen[1:] != chosen[:-1]) + 1
    if len(borders) >= partitions:
        return None
    starts = np.concatenate(([0], borders))
    owners = chosen[starts].astype(np.int64)
    if len(np.unique(owners)) < len(owners):
        return None
    return owners, starts, np.append(borders, len(chosen))


def _given_partitions(rows: pa.RecordBatch, topic: str, partitions: int) -> pa.Array | None:
    if "partition" not in rows.schema.names:
        return None
    given = rows.column("partition")
    if given.null_count == len(given):
        return None
    bounds = pc.min_max(given).as_py()
    for bound in (bounds["min"], bounds["max"]):
        if not 0 <= bound < partitions:
            raise UnknownTopicOrPartition(
                f"column 'partition': wanted 0 to {partitions - 1}, found {bound}: topic {topic} has "
                f"{counted(partitions, 'partition')}; leave the column out, and keys choose the partition"
            )
    return given


def _constant_or(chosen: Chosen) -> Chosen | int:
    """Return the partition as a single number if all rows have the same, else `chosen`.

    Small numbers are returned as uint16, which numpy sorts faster.
    """
    first = int(chosen[0])
    if (chosen == first).all():
        return first
    return chosen if chosen.dtype == np.uint16 or int(chosen.max()) >= 1 << 16 else chosen.astype(np.uint16)


def _take(raw: pa.RecordBatch, order: npt.NDArray[np.int64]) -> pa.RecordBatch:
    places = pa.array(order)
    return pa.RecordBatch.from_arrays([column.take(places) for column in raw.columns], schema=raw.schema)


def _offsets(column: pa.Array) -> npt.NDArray[np.int32]:
    """Return the offsets buffer of a binary, string or list column of n rows, as int32[n + 1]."""
    buffer = column.buffers()[1]
    if buffer is None or buffer.size == 0:  # legal for an array without rows
        return np.zeros(1, dtype=np.int32)
    return np.frombuffer(buffer, dtype=np.int32, count=len(column) + 1, offset=4 * column.offset)


def _data(column: pa.Array) -> npt.NDArray[np.uint8]:
    buffer = column.buffers()[2]
    return np.empty(0, dtype=np.uint8) if buffer is None else np.frombuffer(buffer, dtype=np.uint8)


def _refuse_too_large(rows: pa.RecordBatch, sums: Sizes, topic: str, max_message_bytes: int) -> None:
    """Raise RecordTooLarge for the first record that is too large.

    `sums` also count bytes that a null key, value or header still has in its buffer. Here those bytes don't count.
    """
    for row in np.flatnonzero(np.diff(sums) > max_message_bytes).tolist():
        key, value, headers, _ = (rows.column(name)[row].as_py() for name in RAW_SCHEMA.names)
        size = len(key or b"") + len(value or b"")
        size += sum(len((pair["key"] or "").encode()) + len(pair["value"] or b"") for pair in headers or () if pair)
        if size > max_message_bytes:
            shown = repr(key)
            raise RecordTooLarge(
                f"topic {topic}, key {shown if len(shown) <= _SHOWN_KEY_CHARS else shown[:_SHOWN_KEY_CHARS] + '…'}: "
                f"wanted at most {exact_amount(max_message_bytes)} of key, value and headers (max.message.bytes), "
                f"found {exact_amount(size)}"
            )
