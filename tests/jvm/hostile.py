"""Objects whose checksums are right and whose content is not: made, and read by Python, `hostile FOLDER SEED CASES`.

Each case spoils a batch or an index of a good object: bits, numbers, lengths, offsets, what a compressed buffer holds.
Then all checksums are made right again. The files and their plans in hostile.json are for Java; hostile.txt gets a line
for each case: "refused" (Damaged), or the rows. It is written case by case, so that its last line tells what a crash
came from.
"""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import google_crc32c
import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from sparklog.core.errors import Damaged, UnsupportedVersion
from sparklog.core.types import (
    EntryNumber,
    LeaderEpoch,
    NamedObject,
    NewObject,
    ObjectKind,
    ObjectNumber,
    Offset,
    OffsetRange,
    PartitionIndex,
    Slice,
    TimestampSource,
    TopicId,
    TopicPartition,
    UploadId,
)
from sparklog.log.batch import BatchEncoder
from sparklog.log.check.object_check import check_object
from sparklog.log.index import BatchRow, Index, decode_index, encode_index, index_of, rebuild_index
from sparklog.log.ipc_file import IpcFileWriter
from sparklog.log.kafka_columns import READ_SCHEMA
from sparklog.log.read.object_reader import read_slice
from sparklog.log.stored_schema import HEADERS, RAW, RAW_WITH_OFFSETS, StoredSchema
from sparklog.storage.keys import index_key
from sparklog.storage.local.store import LocalStore

ROWS: Final = 40, 900  # of a small batch, which is stored without compression, and of a larger one
EDGES: Final = (0, 1, -1, 2, 7, 8, 255, 2**15, 2**31 - 1, -(2**31), 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63))
DATA_BUFFERS: Final = 2, 5, 11, 14  # of the keys, the values, and those of the headers
KEYS: Final = ("h", "ключ", "", "trace-id")


@dataclass(frozen=True, slots=True)
class Original:
    """A good object of one slice, its index and the slice."""

    body: bytes
    index: Index
    slice: Slice

    def message(self, batch: int) -> bytes:
        """The bytes of a batch."""
        at = int(self.index.position[batch])
        return self.body[at : at + int(self.index.length[batch])]


@dataclass(frozen=True, slots=True)
class Case:
    """An object of one slice, its index, and the columns to read."""

    body: bytes
    index: bytes
    slice: Slice
    columns: list[str]


def originals(seed: int) -> list[Original]:
    """Good objects of each compression, with headers, nulls and empty values: appended, compacted, and mirrored.

    Of a mirrored one, every offset has a record, and the object stores the offsets all the same.
    """
    dice = random.Random(seed)
    return [
        _original(dice, compression, schema, rows, most_step)
        for compression in ("zstd", "lz4", "none")
        for schema, most_step in ((RAW, 1), (RAW_WITH_OFFSETS, 3), (RAW_WITH_OFFSETS, 1))
        for rows in ROWS
    ]


def _original(dice: random.Random, compression: str, schema: StoredSchema, rows: int, most_step: int) -> Original:
    batches, at = [], 100
    for number in range(3):
        batches.append(_rows(dice, schema, rows, at, most_step, nulls=number != 1))
        at = batches[-1].column("offset")[-1].as_py() + 1 if schema is RAW_WITH_OFFSETS else at + rows
    return original_of(batches, compression, schema, at)


def original_of(batches: list[pa.RecordBatch], compression: str, schema: StoredSchema, end_offset: int) -> Original:
    """An object of these batches, as a slice from offset 100 on."""
    sink = pa.BufferOutputStream()
    writer = IpcFileWriter(sink, schema.arrow)
    encoder = BatchEncoder(compression, schema)
    cells: list[BatchRow] = []
    crcs, offsets = [], []
    for batch in batches:
        encoded = encoder.encode(TopicPartition(TopicId(1), PartitionIndex(0)), batch)
        position = writer.append(encoded.message)
        low, high = encoded.min_timestamp_us, encoded.max_timestamp_us
        cells.append((1, 0, batch.num_rows, position, encoded.message.size, low, high))
        crcs.append(encoded.crc32c)
        if encoded.offsets:
            offsets.append(encoded.offsets)
    writer.finish()
    index = index_of(cells, crcs, offsets if schema is RAW_WITH_OFFSETS else None)
    end = int(index.position[-1] + index.length[-1])
    slice_ = Slice(
        topic_id=TopicId(1), partition=PartitionIndex(0), start=Offset(100), end=Offset(end_offset),
        records=int(index.records.sum()), object_number=ObjectNumber(1), position=int(index.position[0]),
        length=end - int(index.position[0]), first_batch=0, batches=len(batches), min_timestamp_us=0,
        max_timestamp_us=10**9, append_time_ms=0, timestamp_source=TimestampSource.CREATE_TIME,
        leader_epoch=LeaderEpoch(0),
    )  # fmt: skip
    return Original(sink.getvalue().to_pybytes(), index, slice_)


def _rows(
    dice: random.Random, schema: StoredSchema, rows: int, start: int, most_step: int, *, nulls: bool
) -> pa.RecordBatch:
    def some(made: Any) -> Any:
        return None if nulls and dice.random() < 0.2 else made

    headers = [
        some([{"key": dice.choice(KEYS), "value": some(dice.randbytes(3))} for _ in range(dice.randrange(3))])
        for _ in range(rows)
    ]
    columns = [
        pa.array([some(b"key %d" % dice.randrange(50)) for _ in range(rows)], pa.binary()),
        pa.array([some(b"value %d " % row * dice.randrange(5)) for row in range(rows)], pa.binary()),
        pa.array(headers if nulls or dice.random() < 0.5 else [None] * rows, HEADERS),
        pa.array([dice.randrange(10**9) for _ in range(rows)], RAW.arrow.field("timestamp").type),
    ]
    if schema is RAW_WITH_OFFSETS:
        columns.append(pa.array(np.cumsum([dice.randint(1, most_step) for _ in range(rows)]) + start - 1, pa.int64()))
    return pa.RecordBatch.from_arrays(columns, schema=schema.arrow)


# ---- spoiling -------------------------------------------------------------------------------------


class Places:
    """Where the numbers of a message lie: found as Arrow's flatbuffers describe them."""

    def __init__(self, message: bytes | bytearray) -> None:
        self.bytes = message
        self.body = 8 + self._int(4, "<i")
        table = 8 + self._int(8, "<I")
        self.version = self._field(table, 0)
        header = self._field(table, 2)
        self.batch = batch = header + self._int(header, "<I")
        self.rows = self._field(batch, 0)
        self.nodes, self.node_count = self._vector(self._field(batch, 1))
        self.buffers, self.buffer_count = self._vector(self._field(batch, 2))
        compression = self._field(batch, 3)
        codec = self._field(compression + self._int(compression, "<I"), 0) if compression else 0
        self.codec = ("zstd" if codec and message[codec] else "lz4") if compression else None

    def span(self, buffer: int) -> tuple[int, int]:
        start, length = struct.unpack_from("<qq", self.bytes, self.buffers + 16 * buffer)
        return self.body + start, length

    def _int(self, at: int, form: str) -> int:
        return int(struct.unpack_from(form, self.bytes, at)[0])

    def _field(self, table: int, number: int) -> int:
        vtable = table - self._int(table, "<i")
        place = 4 + 2 * number
        offset = self._int(vtable + place, "<H") if place < self._int(vtable, "<H") else 0
        return table + offset if offset else 0

    def _vector(self, field: int) -> tuple[int, int]:
        at = field + self._int(field, "<I")
        return at + 4, self._int(at, "<I")


def spoilt_message(dice: random.Random, message: bytes) -> bytes:
    """A message that differs from `message` in one way, and is as long."""
    places = Places(message)
    body = bytearray(message)
    filled = [number for number in range(places.buffer_count) if places.span(number)[1]]
    match dice.randrange(9):
        case 0:  # a bit of the metadata
            _flip(dice, body, 0, places.body)
        case 1:  # a number in the metadata
            at = dice.randrange(0, places.body - 8, 4)
            _set(dice, body, at, dice.choice("iq"))
        case 2:  # a length or number of nulls
            _set(dice, body, places.nodes + 8 * dice.randrange(2 * places.node_count), "q")
        case 3:  # where a buffer lies
            _set(dice, body, places.buffers + 8 * dice.randrange(2 * places.buffer_count), "q")
        case 4:  # the length before compression, or the first offset
            start, _ = places.span(dice.choice(filled))
            _set(dice, body, start, dice.choice("iq"))
        case 5:  # bits of one buffer
            start, length = places.span(dice.choice(filled))
            for _ in range(dice.randrange(1, 4)):
                _flip(dice, body, start, start + length)
        case 6:  # a message that is cut
            at = dice.randrange(8, len(body))
            body[at:] = bytes(len(body) - at)
        case _:  # a number in a buffer, also in a compressed one
            return _with_other_number(dice, places, dice.choice(filled))
    return bytes(body)


def _with_other_number(dice: random.Random, places: Places, buffer: int) -> bytes:
    start, length = places.span(buffer)
    body = bytearray(places.bytes)
    stored = bytes(body[start : start + length])
    if places.codec is None or length <= 8 or struct.unpack_from("<q", stored)[0] == -1:
        skipped = 0 if places.codec is None else 8
        at = start + skipped + 4 * dice.randrange(max(1, (length - skipped) // 4))
        _set(dice, body, at, "i", near=True)
        return bytes(body)
    (raw,) = struct.unpack_from("<q", stored)
    plain = bytearray(pa.decompress(stored[8:], raw, places.codec, asbytes=True))
    if len(plain) >= 4:
        _set(dice, plain, 4 * dice.randrange(len(plain) // 4), "i", near=True)
    packed = struct.pack("<q", raw) + pa.compress(bytes(plain), places.codec, asbytes=True)
    # It may be longer than before: then it goes to the end of the message, behind everything else.
    padded = -(-len(body) // 8) * 8
    body += bytes(padded - len(body)) + packed + bytes(-len(packed) % 8)
    struct.pack_into("<qq", body, places.buffers + 16 * buffer, padded - places.body, len(packed))
    return bytes(body)


def _flip(dice: random.Random, body: bytearray, start: int, end: int) -> None:
    body[dice.randrange(start, end)] ^= 1 << dice.randrange(8)


def _set(dice: random.Random, body: bytearray, at: int, form: str, *, near: bool = False) -> None:
    if at + struct.calcsize(form) > len(body):
        return
    (before,) = struct.unpack_from(f"<{form}", body, at)
    value = before + dice.choice((-8, -1, 1, 2, 8, 3000)) if near or dice.random() < 0.4 else dice.choice(EDGES)
    bits = 8 * struct.calcsize(form)
    value = (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    struct.pack_into(f"<{form}", body, at, value)


def spoilt(dice: random.Random, original: Original) -> tuple[bytes, bytes, Slice]:
    """An object, its index and its slice, of which one batch or the index is spoilt, with right checksums."""
    body, index, slice_ = original.body, original.index, original.slice
    if dice.random() < 0.7:
        batch = dice.randrange(len(index))
        return with_message(original, batch, spoilt_message(dice, original.message(batch)))
    encoded = bytearray(encode_index(index).to_pybytes())
    match dice.randrange(3):
        case 0:
            _flip(dice, encoded, 0, len(encoded))
        case 1:
            _set(dice, encoded, dice.randrange(0, len(encoded) - 8, 4), dice.choice("iq"))
        case _:  # one cell
            name = dice.choice([name for name in Index.__slots__ if getattr(index, name) is not None])
            column = getattr(index, name).tobytes()
            at = bytes(encoded).find(column)
            form = "i" if len(column) == 4 * len(index) else "q"
            _set(dice, encoded, at + struct.calcsize(form) * dice.randrange(len(index)), form, near=True)
    return body, bytes(encoded), slice_


def with_message(original: Original, batch: int, message: bytes) -> tuple[bytes, bytes, Slice]:
    """The object with another message in place of a batch, its index and its slice, with right checksums."""
    index, at, length = original.index, int(original.index.position[batch]), int(original.index.length[batch])
    more = len(message) - length
    body = original.body[:at] + message + original.body[at + length :]
    cells = {name: getattr(index, name).copy() for name in Index.__slots__ if getattr(index, name) is not None}
    cells["position"][batch + 1 :] += more
    cells["length"][batch] += more
    cells["crc32c"][batch] = google_crc32c.value(message)
    slice_ = replace(original.slice, length=original.slice.length + more)
    return body, encode_index(Index(**cells)).to_pybytes(), slice_


def bomb(message: bytes, raw_bytes: int) -> bytes:
    """A message whose four buffers of bytes are the same frame, of `raw_bytes` zeros: all that it says is right."""
    places = Places(message)
    assert places.codec is not None
    body = bytearray(message) + bytes(-len(message) % 8)
    packed = struct.pack("<q", raw_bytes) + pa.compress(bytes(raw_bytes), places.codec, asbytes=True)
    for buffer in DATA_BUFFERS:
        struct.pack_into("<qq", body, places.buffers + 16 * buffer, len(body) - places.body, len(packed))
    return bytes(body + packed + bytes(-len(packed) % 8))


# ---- reading --------------------------------------------------------------------------------------


def outcome(store: LocalStore, key: str, named: NamedObject, slice_: Slice, columns: list[str]) -> Iterator[str]:
    """Yield the rows that a read gives, and "refused" if it ends with Damaged. Any other error is raised."""
    body, index = store.get(key), store.get(index_key(key))
    with suppress(UnsupportedVersion):
        check_object(store, key, named, [slice_], content=True)
    try:
        decode_index(index_key(key), index, named.object)
    except (Damaged, UnsupportedVersion):
        _rebuilt(key, body, named.object)
        yield "refused"
        return
    try:
        for _, batch in read_slice(store, key, named, slice_, OffsetRange(Offset(0), Offset(10**6)), "t", columns):
            yield from (row_text(row) for row in batch_rows(batch))
    except (Damaged, UnsupportedVersion):
        yield "refused"
    _rebuilt(key, body, named.object)


def _rebuilt(key: str, body: memoryview, named: NewObject) -> None:
    """What repairs do with the object must end with an error that has a code at worst, too."""
    with suppress(Damaged, UnsupportedVersion):
        rebuild_index(key, body, named)


def batch_rows(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """The rows, with times as numbers."""
    columns = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for column in batch.columns
    ]
    return list(zip(*columns, strict=True))


def row_text(row: tuple[Any, ...]) -> str:
    """A row as `Fuzz.text` of Java writes it."""
    return "".join(f"{_cell(cell)} " for cell in row)


def _cell(cell: Any) -> str:
    if cell is None:
        return "null"
    if isinstance(cell, bytes):
        return cell.hex() + "."
    if isinstance(cell, list):
        return (
            "[" + "".join("null;" if pair is None else _cell(pair["key"]) + _cell(pair["value"]) for pair in cell) + "]"
        )
    return str(cell)


def digest(lines: Iterator[str]) -> str:
    """The number of rows, the CRC32C of their texts, and "refused" if the read ended so."""
    seen, rows, end = 0, 0, ""
    for line in lines:
        if line == "refused":
            end = " refused"
        else:
            seen, rows = google_crc32c.extend(seen, line.encode()), rows + 1
    return f"{rows} {seen & 0xFFFFFFFF:08x}{end}"


def cases_of(seed: int, count: int) -> Iterator[Case]:
    """Yield the cases of a seed."""
    good = originals(seed // 50)
    for number in range(count):
        dice = random.Random(f"{seed}:{number}")
        made = spoilt(dice, dice.choice(good))
        # Without a stored column, neither would look at the index.
        yield Case(*made, [name for name in READ_SCHEMA.names if name == "value" or dice.random() < 0.75])


def run(folder: Path, cases: Iterable[Case]) -> None:
    """Write the cases into a folder, and read them."""
    folder.mkdir(parents=True, exist_ok=True)
    store = LocalStore(str(folder))
    with (folder / "hostile.json").open("wb") as plans, (folder / "hostile.txt").open("w", buffering=1) as outcomes:
        for number, case in enumerate(cases):
            key = f"{number}.arrow"
            (folder / key).write_bytes(case.body)
            (folder / index_key(key)).write_bytes(case.index)
            named = NamedObject(ObjectNumber(1), _named(case.body, case.index))
            plans.write(msgspec.json.encode(_plan(key, case.slice, named.object, case.columns)) + b"\n")
            plans.flush()
            outcomes.write(f"{number} ")
            outcomes.write(f"{digest(outcome(store, key, named, case.slice, case.columns))}\n")


def _named(body: bytes, index: bytes) -> NewObject:
    return NewObject(
        kind=ObjectKind.APPEND, n0=EntryNumber(0), upload_id=UploadId("0" * 32), topic_id=TopicId(1),
        size_bytes=len(body), crc32c=google_crc32c.value(body), index_size_bytes=len(index),
        index_crc32c=google_crc32c.value(index), holders=(),
    )  # fmt: skip


def _plan(key: str, slice_: Slice, named: NewObject, columns: list[str]) -> dict[str, Any]:
    names = ("topic_id", "partition", "start", "end", "records", "position", "length", "first_batch", "batches")
    part = {name: getattr(slice_, name) for name in (*names, "min_timestamp_us", "max_timestamp_us")} | {
        "key": key, "index_key": index_key(key), "index_size_bytes": named.index_size_bytes,
        "index_crc32c": named.index_crc32c, "holders": ["local"], "timestamp_type": 0,
    }  # fmt: skip
    whole = {"topic": "t", "partition": 0, "start": 0, "end": 10**6, "lost": False, "slices": [part]}
    return {"columns": columns, "range": whole}


if __name__ == "__main__":
    run(Path(sys.argv[1]), cases_of(int(sys.argv[2]), int(sys.argv[3])))
