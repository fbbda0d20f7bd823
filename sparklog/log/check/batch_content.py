"""The content of a stored batch, to be compared with the batch's row of the index."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from sparklog.core.describe.readable import counted
from sparklog.log.batch import joined_with_schema, offset_bounds, place_in, timestamps_us
from sparklog.log.index import Index
from sparklog.log.records_schema import COMPACTED_SCHEMA


class BatchContent(msgspec.Struct, frozen=True, array_like=True):
    """The fields of an index row that describe the content of a batch: all but its position, length and checksum.

    Bounds are inclusive. `offsets`: the first and the last offset, if the batch stores them.
    """

    topic_id: int
    partition: int
    records: int
    min_timestamp_us: int
    max_timestamp_us: int
    offsets: tuple[int, int] | None = None

    def __str__(self) -> str:
        times = f"timestamps {self.min_timestamp_us} to {self.max_timestamp_us}"
        offsets = "" if self.offsets is None else f", offsets {self.offsets[0]} to {self.offsets[1]}"
        place = f"partition {self.partition} of topic id {self.topic_id}"
        return f"{counted(self.records, 'record')} of {place}, {times}{offsets}"


def content_of(message: pa.Buffer, schema: pa.Schema) -> BatchContent | None:
    """Decode a batch message of an object with this schema, and return its content.

    None if Arrow can't decode it, if it names no partition, if it holds no record, or if its offsets don't ascend. Only
    the timestamps and the offsets are decompressed.
    """
    stores_offsets = schema == COMPACTED_SCHEMA
    wanted = ["timestamp", "offset"] if stores_offsets else ["timestamp"]
    options = pa.ipc.IpcReadOptions(included_fields=[schema.get_field_index(name) for name in wanted])
    try:
        stream = pa.ipc.open_stream(joined_with_schema(message, schema), options=options)
        batch, metadata = stream.read_next_batch_with_custom_metadata()
        batch.validate()
        place = place_in(metadata)
    except (pa.ArrowException, OSError, StopIteration, LookupError, TypeError, ValueError):
        return None
    if not batch.num_rows:
        return None
    times = timestamps_us(batch.column("timestamp"))
    bounds = None
    if stores_offsets:
        if (np.diff(batch.column("offset").to_numpy()) <= 0).any():
            return None
        bounds = offset_bounds(batch)
    return BatchContent(place.topic_id, place.partition, batch.num_rows, int(times.min()), int(times.max()), bounds)


def content_in_index(index: Index, batch: int) -> BatchContent:
    """Return the content of one batch according to the index. `batch` is its row number."""
    bounds = None
    if index.base_offset is not None and index.last_offset is not None:
        bounds = int(index.base_offset[batch]), int(index.last_offset[batch])
    return BatchContent(
        int(index.topic_id[batch]),
        int(index.partition[batch]),
        int(index.records[batch]),
        int(index.min_timestamp_us[batch]),
        int(index.max_timestamp_us[batch]),
        bounds,
    )
