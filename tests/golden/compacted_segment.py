"""Makes the golden compacted segment: `python -m tests.golden.compacted_segment`, once per format of objects.

It holds the records of the first golden cluster's rows at the offsets `KEPT`, in two batches.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa

from sparklog.core.types import LeaderEpoch, NewObject, Offset, TimestampSource, UploadId
from sparklog.log.kafka_columns import canonical
from sparklog.log.stored_schema import RAW_WITH_OFFSETS
from sparklog.log.write.segments_writer import Origin, SegmentsWriter
from sparklog.storage.keys import data_key, index_key
from tests.golden.make_golden import rows
from tests.log.compacted_log import target
from tests.log.written_log import empty_store, lanes_of

FOLDER = Path(__file__).parent / "objects-4"
OLDER = Path(__file__).parent / "older"  # a segment, and an entry of a chain, as no version writes them now
KEPT = [3, 4, 9, 17, 18, 29, 31, 44, 45, 58]
END = Offset(60)


def records() -> pa.RecordBatch:
    """The rows of the segment, with their offsets."""
    (batch,) = canonical(rows(0, 60).drop_columns(["partition"])).combine_chunks().to_batches()
    kept = batch.take(pa.array(KEPT))
    columns = [kept.column(name) for name in RAW_WITH_OFFSETS.names[:-1]]
    return pa.RecordBatch.from_arrays([*columns, pa.array(KEPT, pa.int64())], schema=RAW_WITH_OFFSETS.arrow)


def made() -> tuple[NewObject, bytes, bytes]:
    """The segment as the chain would name it, its bytes and those of its index."""
    store = empty_store()
    with SegmentsWriter(
        target(compression="none"), lanes_of(a=store), Offset(0), lambda: UploadId("0" * 32), RAW_WITH_OFFSETS
    ) as writer:
        writer.begin_run(Origin(LeaderEpoch(0), TimestampSource.CREATE_TIME), 0)
        writer.add(records().slice(0, 6))
        writer._encode_pending()  # a batch of six
        writer.add(records().slice(6))
        (named,) = writer.finish(END).objects
    key = data_key(named, "orders")
    return named, bytes(store.get(key)), bytes(store.get(index_key(key)))


if __name__ == "__main__":
    if FOLDER.exists():
        sys.exit(f"{FOLDER} is there: a golden segment is never made again; a changed format has a new number")
    named, body, index = made()
    FOLDER.mkdir()
    (FOLDER / "segment.arrow").write_bytes(body)
    (FOLDER / "segment.index").write_bytes(index)
    checksums = {"crc32c": named.crc32c, "index_crc32c": named.index_crc32c}
    (FOLDER / "expected.json").write_text(json.dumps(checksums, indent=1) + "\n")
