"""The content of a stored batch, to be compared with the batch's row of the index."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from sparklog.core.describe.readable import counted
from sparklog.log.batch import offset_bounds, place_of, timestamps_us
from sparklog.log.index import Index
from sparklog.log.message_decoder import MessageDecoder
from sparklog.log.message_metadata import Malformed
from sparklog.log.number_arrays import numpy_of
from sparklog.log.stored_schema import StoredSchema


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


def content_of(message: pa.Buffer, schema: StoredSchema) -> BatchContent | None:
    """Decode a batch message of an object with this schema, and return its content.

    None if one of its columns can't be decoded, if it names no partition, if it holds no record, or if its offsets
    don't ascend.
    """
    try:
        batch = MessageDecoder(schema.arrow, schema.names).decode(message)
        place = place_of(message)
    except Malformed:
        return None
    if not batch.num_rows:
        return None
    times = timestamps_us(batch.column(schema.timestamp))
    bounds = None
    if schema.offset is not None:
        offsets = numpy_of(batch.column(schema.offset))
        if (offsets[1:] <= offsets[:-1]).any():
            return None
        bounds = offset_bounds(batch.column(schema.offset))
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
