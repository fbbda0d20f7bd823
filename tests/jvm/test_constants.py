"""What Java and Python both have to know of the formats, which no plan carries: it is the same in both."""

from __future__ import annotations

from base64 import b64encode
from typing import Final

import msgspec

from sparklog.core.producing import murmur2
from sparklog.core.types import ObjectKind
from sparklog.log import batch, index, ipc_file, message_decoder, message_metadata
from sparklog.log.stored_schema import RAW, RAW_WITH_OFFSETS
from sparklog.spark.planner import planner
from sparklog.spark.write import stream_writer
from sparklog.storage import keys
from tests.jvm.java_program import run_java

_DENSE, _COMPACTED = (format_.decode() for format_ in index._INDEX_SCHEMAS)
OF_PYTHON: Final[dict[str, str | bytes | int]] = {
    "arrow.Decoder.CONTINUATION": message_metadata._CONTINUATION - (1 << 32),
    "arrow.Decoder.PREFIX_BYTES": message_metadata.PREFIX_BYTES,
    "arrow.Decoder.ZSTD_MOST_RATIO": message_decoder._MOST_RATIO["zstd"],
    "arrow.Decoder.LZ4_MOST_RATIO": message_decoder._MOST_RATIO["lz4"],
    "arrow.Decoder.MOST_BYTES": message_decoder._MOST_BYTES,
    "arrow.Decoder.LARGEST_BATCH_BYTES": message_decoder.LARGEST_BATCH_BYTES,
    "arrow.Encoder.PARTITION": batch.PARTITION_KEY.decode(),
    "arrow.IpcFile.MAGIC": ipc_file.MAGIC,
    "arrow.IpcFile.END_OF_STREAM": ipc_file.END_OF_STREAM,
    "arrow.IpcFile.PREFIX_BYTES": message_metadata.PREFIX_BYTES,
    "arrow.Lz4Frame.MAGIC": message_decoder._LZ4_MAGIC,
    "planner.MicroBatchProperties.QUERY_ID": stream_writer.QUERY_ID,
    "planner.MicroBatchProperties.BATCH_ID": stream_writer.BATCH_ID,
    "planner.MicroBatchProperties.RUN_ID": stream_writer.RUN_ID,
    "planner.Planner.PROTOCOL": planner.PROTOCOL,
    "planner.Planner.START": planner.START,
    "planner.Planner.HEAD_BYTES": planner._HEAD.size - planner._LENGTH_BYTES,
    "planner.Planner.PING": ord(planner._PING),
    "read.task.ObjectIndex.FILE_START": ipc_file.FILE_START,
    "read.task.ObjectIndex.FORMAT": index.INDEX_FORMAT_KEY.decode(),
    "read.task.ObjectIndex.DENSE": _DENSE,
    "read.task.ObjectIndex.COMPACTED": _COMPACTED,
    "storage.ObjectStore.INCARNATION": keys.INCARNATION,
    "arrow.Murmur2.SEED": murmur2._SEED - (1 << 32),
    "arrow.Murmur2.M": murmur2._M,
    "arrow.Murmur2.R": murmur2._R,
    "write.task.OpenObject.APPEND": ObjectKind.APPEND.value,
    "write.task.PendingRows.ROW_BYTES": RAW.row_bytes,
    "write.task.PendingRows.HEADER_BYTES": RAW.element_bytes,
}
LAYOUTS: Final = {
    "arrow.Layout.STORED": RAW.arrow,
    "arrow.Layout.COMPACTED": RAW_WITH_OFFSETS.arrow,
    "arrow.Layout.INDEX": index.INDEX_SCHEMA,
    "arrow.Layout.COMPACTED_INDEX": index.COMPACTED_INDEX_SCHEMA,
}


def test_java_has_the_constants_and_the_columns_of_python() -> None:
    done = run_java("Constants", *OF_PYTHON, *LAYOUTS)
    assert done.returncode == 0, done.stderr[-3000:]
    values = msgspec.json.decode(done.stdout)
    layouts = {name: values.pop(name)["names"] for name in LAYOUTS}
    assert values == {name: _as_json(value) for name, value in OF_PYTHON.items()}
    assert layouts == {name: schema.names for name, schema in LAYOUTS.items()}


def _as_json(value: str | bytes | int) -> str | int:
    return b64encode(value).decode() if isinstance(value, bytes) else value
