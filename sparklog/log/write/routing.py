"""Choose a partition for each record and split rows by partition, without a loop over rows.

As in Kafka's default partitioner, a record goes to the partition that it names, else to that of its key's murmur2 hash.
Records without either go to a "sticky" partition, the same for all rows that are split together. Records keep their
order within each partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.core.describe.readable import counted
from sparklog.core.errors import InvalidInput, UnknownTopicOrPartition
from sparklog.core.producing.murmur2 import partitions_for_keys
from sparklog.core.types import PartitionIndex
from sparklog.log.batch import without_null_lists
from sparklog.log.number_arrays import buffer_offsets
from sparklog.log.stored_schema import PARTITION, TOPIC, StoredSchema
from sparklog.log.write.row_sizes import Sizes, cumulative_bytes

Chosen = npt.NDArray[np.uint16] | npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """Rows of one partition, with the stored columns, but without a column of lists that is all null.

    `size_bytes` counts bytes, texts and lists, and `StoredSchema.element_bytes` more for each element of a list.
    """

    partition: PartitionIndex
    rows: pa.RecordBatch
    size_bytes: int


def by_topic(rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Split rows by their column `TOPIC`, and drop that column.

    Topics come in order of first appearance. Raises InvalidInput if the topic of a row is null.
    """
    column = rows.column(TOPIC)
    if column.null_count:
        raise InvalidInput(
            f"column 'topic': wanted a topic in each row, found {counted(column.null_count, 'null')}; "
            "the option topic sets one for all rows"
        )
    rest = rows.drop_columns([TOPIC])
    topics = column.dictionary_encode()
    names = topics.dictionary.to_pylist()
    if len(names) == 1:
        yield names[0], rest
        return
    codes = topics.indices.to_numpy()
    for code, name in enumerate(names):
        yield name, rest.take(pa.array(np.flatnonzero(codes == code)))


def split(
    rows: pa.RecordBatch, schema: StoredSchema, topic: str, partitions: int, sticky: PartitionIndex
) -> list[PartitionRows]:
    """Split rows of one topic by partition, ascending. `rows` have the columns of `schema`, and maybe `PARTITION`.

    `sticky` is the partition for rows with neither a partition nor a key. Partitions without rows are left out. Rows
    already grouped by partition are sliced without a copy; others are first copied into that order. Raises
    UnknownTopicOrPartition for a partition out of range.
    """
    if rows.num_rows == 0:
        return []
    named = rows.column(PARTITION) if PARTITION in rows.schema.names else None
    chosen = partition_of_rows(rows.column(schema.key), named, topic, partitions, sticky)
    raw = without_null_lists(rows, schema)
    element_bytes = schema.element_bytes
    if isinstance(chosen, int):
        sums = cumulative_bytes(raw, schema, np.array([0, rows.num_rows]), element_bytes)
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
    sizes = cumulative_bytes(raw, schema, ends, element_bytes)
    sizes -= cumulative_bytes(raw, schema, starts, element_bytes)
    by_partition = sorted(zip(owners.tolist(), starts.tolist(), ends.tolist(), sizes.tolist(), strict=True))
    return [
        PartitionRows(PartitionIndex(owner), raw.slice(start, end - start), size)
        for owner, start, end, size in by_partition
    ]


def partition_of_rows(
    keys: pa.Array, named: pa.Array | None, topic: str, partitions: int, sticky: PartitionIndex
) -> Chosen | int:
    """Return the partition of each row, or a single number if all rows have the same.

    The partitions of n rows are uint16[n] if each number fits, else int32[n]. There must be at least one row. `keys`
    are their bytes, and `named` the partitions that rows name (int32; null: none). For the other arguments see `split`.
    Raises UnknownTopicOrPartition for a partition out of range.
    """
    if partitions == 1 and named is None:
        return 0
    given = _given_partitions(named, topic, partitions)
    if given is not None and given.null_count == 0:
        return _constant_or(given.to_numpy())
    if keys.null_count == len(keys):
        chosen: Chosen | int = int(sticky)
    else:
        chosen = partitions_for_keys(buffer_offsets(keys), _data(keys), partitions)
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


def _given_partitions(given: pa.Array | None, topic: str, partitions: int) -> pa.Array | None:
    if given is None or given.null_count == len(given):
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


def _data(column: pa.Array) -> npt.NDArray[np.uint8]:
    buffer = column.buffers()[2]
    return np.empty(0, dtype=np.uint8) if buffer is None else np.frombuffer(buffer, dtype=np.uint8)
