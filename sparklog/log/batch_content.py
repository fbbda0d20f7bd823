"""What a stored batch really holds, for comparing it with its row of the index."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from sparklog.core.readable import counted
from sparklog.log.batch import PARTITION_KEY, joined_with_schema, timestamps_us
from sparklog.log.index import Index
from sparklog.log.records_schema import RAW_SCHEMA

_TIMESTAMP: int = RAW_SCHEMA.get_field_index("timestamp")


class BatchContent(msgspec.Struct, frozen=True, array_like=True):
    """What the index says about a batch, apart from where it is. Both timestamps are in us and inclusive."""

    partition: int
    records: int
    min_timestamp_us: int
    max_timestamp_us: int

    def __str__(self) -> str:
        times = f"timestamps {self.min_timestamp_us} to {self.max_timestamp_us}"
        return f"{counted(self.records, 'record')} of partition {self.partition}, {times}"


def content_of(message: pa.Buffer) -> BatchContent | None:
    """The content of a batch, decoded from its message; None if Arrow can't decode it, or it holds no record.

    Only the timestamps are decompressed.
    """
    options = pa.ipc.IpcReadOptions(included_fields=[_TIMESTAMP])
    try:
        stream = pa.ipc.open_stream(joined_with_schema(message), options=options)
        batch, metadata = stream.read_next_batch_with_custom_metadata()
        batch.validate()
        partition = int(metadata[PARTITION_KEY])
    except (pa.ArrowException, OSError, StopIteration, LookupError, TypeError, ValueError):
        return None
    if not batch.num_rows:
        return None
    times = timestamps_us(batch.column(0))
    return BatchContent(partition, batch.num_rows, int(times.min()), int(times.max()))


def content_in_index(index: Index, batch: int) -> BatchContent:
    """What the index says about one of its batches."""
    return BatchContent(
        int(index.partition[batch]),
        int(index.records[batch]),
        int(index.min_timestamp_us[batch]),
        int(index.max_timestamp_us[batch]),
    )
