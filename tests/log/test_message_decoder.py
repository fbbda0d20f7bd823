"""Messages with right checksums and wrong content: each is Malformed, and none is read beyond its buffers."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from sparklog.core.config.topic_keys import TOPIC_KEYS
from sparklog.core.errors import Damaged, InvalidConfig, RecordTooLarge
from sparklog.core.types import PartitionIndex, TopicId, TopicPartition
from sparklog.log.batch import BatchEncoder, crc32c, decodings, place_of
from sparklog.log.message_decoder import LARGEST_BATCH_BYTES, LARGEST_TIMES_BYTES, MessageDecoder, TooLarge
from sparklog.log.message_metadata import INT64, Malformed, batch_numbers
from sparklog.log.stored_schema import HEADERS, RAW, STORED_HEADERS, TIMESTAMP
from sparklog.log.write.task_memory import WriterLimits
from tests.jvm.hostile import Places, bomb

# Numbers of field nodes and buffers of RAW
KEY, VALUE, LISTS, PAIRS, HEADER_KEYS, HEADER_VALUES, TIMES = range(7)
KEY_BITS, KEY_ENDS, KEY_DATA, VALUE_BITS, VALUE_ENDS, VALUE_DATA = range(6)
LIST_ENDS, PAIR_KEY_ENDS, HEADER_KEY_DATA, TIME_DATA = 7, 10, 11, 16
TOO_MANY = r"buffers of \d+ bytes before compression"
PLACE = TopicPartition(TopicId(7), PartitionIndex(3))


def encoded(
    rows: int = 3,
    compression: str = "none",
    headers: object = ({"key": b"h", "value": b"x"},),
    place: TopicPartition = PLACE,
) -> bytearray:
    """A message of rows with keys, of which the first is null, values of 8 bytes, headers and times."""
    columns = [
        pa.array([None, *[b"key"] * (rows - 1)], pa.binary()),
        pa.array([b"12345678"] * rows, pa.binary()),
        pa.array([headers] * rows, STORED_HEADERS).view(HEADERS),
        pa.array(range(rows), TIMESTAMP),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=RAW.arrow)
    return bytearray(BatchEncoder(compression).encode(place, batch).message.to_pybytes())


def read(message: bytearray, columns: list[str] | None = None) -> pa.RecordBatch:
    return MessageDecoder(RAW.arrow, columns or RAW.names).decode(pa.py_buffer(bytes(message)))


def set_node(message: bytearray, node: int, *, length: int | None = None, nulls: int | None = None) -> bytearray:
    at = Places(message).nodes + 16 * node
    for place, number in ((at, length), (at + 8, nulls)):
        if number is not None:
            INT64.pack_into(message, place, number)
    return message


def set_buffer(message: bytearray, buffer: int, *, start: int | None = None, length: int | None = None) -> bytearray:
    at = Places(message).buffers + 16 * buffer
    for place, number in ((at, start), (at + 8, length)):
        if number is not None:
            INT64.pack_into(message, place, number)
    return message


def set_offsets(message: bytearray, buffer: int, *offsets: int) -> bytearray:
    numbers = batch_numbers(pa.py_buffer(bytes(message)))
    struct.pack_into(f"<{len(offsets)}i", message, numbers.body_start + numbers.buffers[2 * buffer], *offsets)
    return message


def refused(message: bytearray, found: str, columns: list[str] | None = None) -> None:
    with pytest.raises(Malformed, match=found):
        read(message, columns)


def test_a_message_as_it_was_written_is_read() -> None:
    rows = read(encoded())
    assert rows.column("key").to_pylist() == [None, b"key", b"key"]
    assert rows.column("headers").to_pylist() == [[{"key": "h", "value": b"x"}]] * 3
    assert read(encoded(5000, "zstd")).column("value").to_pylist() == [b"12345678"] * 5000


def test_offsets_beyond_the_data_show_no_memory_of_the_process() -> None:
    message = set_offsets(encoded(2), VALUE_ENDS, 0, 3000, 16)
    refused(message, "Arrow can't decode column value: .*ffset")
    body = pa.py_buffer(bytes(message))
    with pytest.raises(Damaged, match=r"record batch at byte 480 of k: it can't be decoded: "):
        next(decodings("k", 480, body, [body.size], [crc32c(body)], ["value"]))()
    refused(set_offsets(encoded(2), LIST_ENDS, 0, 5, 2), "ffset", ["headers"])
    refused(set_offsets(encoded(2), PAIR_KEY_ENDS, 0, 900, 2), "ffset", ["headers"])
    refused(set_offsets(encoded(2), KEY_ENDS, -8), "ffset", ["key"])


def test_a_last_offset_beyond_the_data_is_refused() -> None:
    refused(
        set_offsets(encoded(2), VALUE_ENDS, 0, 8, 4000), "Arrow can't decode column value: .*(ffset|buffer)", ["value"]
    )


@pytest.mark.parametrize("nulls", [0, 2, -1, 2**40])
def test_a_column_has_as_many_nulls_as_its_bits_say(nulls: int) -> None:
    message = set_node(encoded(), KEY, nulls=nulls)
    if nulls == 0:  # then the bits are not looked at, in Java neither
        assert read(message, ["key"]).column(0).to_pylist() == [b"", b"key", b"key"]
    else:
        refused(message, "[Nn]ull", ["key"])


@pytest.mark.parametrize("node", [TIMES, PAIRS, HEADER_KEYS])
def test_numbers_and_headers_and_their_keys_are_never_null(node: int) -> None:
    refused(set_node(encoded(), node, nulls=1), "numbers with 1 nulls|headers without keys")


def test_a_header_of_null_or_with_a_null_as_key_is_refused() -> None:
    refused(encoded(headers=[None]), "headers without keys")
    refused(encoded(headers=[{"key": None, "value": b"x"}]), "headers without keys")


@pytest.mark.parametrize("length", [0, 2, 4, -1, 2**31, 2**62])
def test_each_column_has_as_many_rows_as_the_batch(length: int) -> None:
    refused(set_node(encoded(), VALUE, length=length), f"a column of {length} rows")
    refused(set_node(encoded(), HEADER_VALUES, length=length), "headers of different lengths")


@pytest.mark.parametrize("count", [-1, 2**31, 2**62])
def test_a_batch_has_a_possible_number_of_headers(count: int) -> None:
    message = encoded()
    for node in (PAIRS, HEADER_KEYS, HEADER_VALUES):
        set_node(message, node, length=count)
    refused(message, "headers of different lengths", ["headers"])


@pytest.mark.parametrize("rows", [-1, 2**31, 2**62])
def test_a_batch_has_a_possible_number_of_rows(rows: int) -> None:
    message = encoded()
    INT64.pack_into(message, Places(message).rows, rows)
    refused(message, f"a batch of {rows} rows")


@pytest.mark.parametrize(("start", "length"), [(-8, None), (2**62, None), (None, -1), (None, 2**62), (2**40, 0)])
def test_a_buffer_lies_within_the_message(start: int | None, length: int | None) -> None:
    refused(set_buffer(encoded(), VALUE_DATA, start=start, length=length), "a buffer out of bounds")


def test_a_buffer_begins_at_a_multiple_of_8() -> None:
    refused(set_buffer(encoded(), VALUE_DATA, start=12), "a buffer at byte 12")


def test_a_buffer_has_the_bytes_of_its_rows() -> None:
    refused(set_buffer(encoded(), TIME_DATA, length=16), "Buffer #1 too small")
    refused(set_buffer(encoded(), VALUE_ENDS, length=8), "Buffer #1 too small")


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("raw", [-2, 2**31 - 1, 2**40, 2**62, -(2**63)])
def test_no_room_is_made_for_what_a_compressed_buffer_can_not_hold(compression: str, raw: int) -> None:
    message = encoded(5000, compression)
    numbers = batch_numbers(pa.py_buffer(bytes(message)))
    assert numbers.codec == compression
    INT64.pack_into(message, numbers.body_start + numbers.buffers[2 * VALUE_DATA], raw)
    before = pa.total_allocated_bytes()
    refused(message, f"a length of {raw} bytes before compression" if raw < 0 else TOO_MANY, ["value"])
    assert pa.total_allocated_bytes() == before


@pytest.mark.parametrize(("compression", "ratio"), [("zstd", 1 << 15), ("lz4", 255)])
def test_no_buffer_claims_more_than_its_codec_can_pack_into_it(compression: str, ratio: int) -> None:
    message = encoded(5000, compression)
    numbers = batch_numbers(pa.py_buffer(bytes(message)))
    start, length = numbers.buffers[2 * VALUE_DATA : 2 * VALUE_DATA + 2]
    raw = ratio * (length - 8) + 1
    INT64.pack_into(message, numbers.body_start + start, raw)
    refused(message, f"a length of {raw} bytes before compression", ["value"])


# ---- how much memory a batch may take -----------------------------------------------------------------


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths before compression of the buffers that were unpacked: of the first one only."""
    lengths = []

    def note(stored: pa.Buffer, codec: str) -> pa.Buffer:
        lengths.append(INT64.unpack_from(stored)[0])
        raise Malformed("it would be unpacked")

    monkeypatch.setattr("sparklog.log.message_decoder._unpacked", note)
    return lengths


def claiming(message: bytearray, **claims: int) -> bytearray:
    numbers = batch_numbers(pa.py_buffer(bytes(message)))
    for buffer, raw in claims.items():
        INT64.pack_into(message, numbers.body_start + numbers.buffers[2 * globals()[buffer]], raw)
    return message


def test_buffers_that_claim_more_than_the_largest_batch_are_refused_before_one_is_unpacked(unpacked: list[int]) -> None:
    message = encoded(5000, "zstd") + bytes(LARGEST_BATCH_BYTES >> 15)
    rest = sum(claims(message)) - sum(claims(message)[at] for at in (KEY_DATA, VALUE_DATA))
    most = LARGEST_BATCH_BYTES - rest
    refused(claiming(message, KEY_DATA=most // 2, VALUE_DATA=most - most // 2), "it would be unpacked")
    assert unpacked
    unpacked.clear()
    refused(claiming(message, VALUE_DATA=most - most // 2 + 1), "buffers of 4294967297 bytes before compression")
    assert not unpacked
    refused(message, "it would be unpacked", ["key", "headers"])  # the others are not looked at
    unpacked.clear()
    refused(
        claiming(message, VALUE_DATA=most, HEADER_KEY_DATA=-(1 << 62)), TOO_MANY
    )  # a negative length makes up for none
    assert not unpacked


def claims(message: bytearray) -> list[int]:
    """The length before compression of each buffer."""
    numbers = batch_numbers(pa.py_buffer(bytes(message)))
    pairs = zip(numbers.buffers[::2], numbers.buffers[1::2], strict=True)
    return [INT64.unpack_from(message, numbers.body_start + at)[0] if length else 0 for at, length in pairs]


def test_no_legal_batch_is_larger_than_the_largest() -> None:
    largest = (1 << 31) - 1
    TOPIC_KEYS["max.message.bytes"].parse(str(largest))
    with pytest.raises(InvalidConfig):
        TOPIC_KEYS["max.message.bytes"].parse(str(largest + 1))
    headers = 250_000_000
    assert largest + 8 * headers + headers // 8 + 4096 <= LARGEST_BATCH_BYTES
    assert 28 * WriterLimits().largest_batch_bytes < LARGEST_TIMES_BYTES  # even if it had a record for each byte


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_buffers_that_share_their_bytes_claim_no_more_than_the_message_can_hold(
    unpacked: list[int], compression: str
) -> None:
    shared = bomb(bytes(encoded(700, compression)), 16 << 20 if compression == "lz4" else 128 << 20)
    refused(bytearray(shared), TOO_MANY)
    assert not unpacked


def test_a_reader_may_allow_less_memory_than_a_batch_takes(unpacked: list[int]) -> None:
    message = pa.py_buffer(bytes(encoded(5000, "zstd")))
    needed = sum(claims(bytearray(message)))
    given = ("k", 480, message, [message.size], [crc32c(message)], RAW.names, RAW)
    with pytest.raises(Damaged, match="it would be unpacked"):
        next(decodings(*given, needed))()
    unpacked.clear()
    found = f"record batch at byte 480 of k: wanted at most .* before compression, found .*{needed:,}"
    with pytest.raises(RecordTooLarge, match=found):
        next(decodings(*given, needed - 1))()
    assert not unpacked


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_buffers_that_are_stored_as_they_are_count_too(compression: str) -> None:
    message = encoded(5000, compression)
    if compression == "zstd":
        raw = bytes(40_000)
        set_buffer(message, VALUE_DATA, start=len(message) - Places(message).body, length=8 + len(raw))
        message += struct.pack("<q", -1) + raw
    buffer = pa.py_buffer(bytes(message))
    assert MessageDecoder(RAW.arrow, ["value"], 60_004).arrays(buffer)
    with pytest.raises(TooLarge, match="found 60,004 bytes"):
        MessageDecoder(RAW.arrow, ["value"], 60_003).arrays(buffer)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_compressed_buffer_holds_as_many_bytes_as_it_claims(compression: str) -> None:
    """Else the rest would be memory that nobody wrote."""
    message = encoded(5000, compression)
    numbers = batch_numbers(pa.py_buffer(bytes(message)))
    at = numbers.body_start + numbers.buffers[2 * VALUE_DATA]
    INT64.pack_into(message, at, INT64.unpack_from(message, at)[0] + 8)
    refused(message, "Corrupt ZSTD compressed data|an LZ4 frame with another length than 40008 bytes", ["value"])
    INT64.pack_into(message, at, 40_000 - 8)
    refused(message, "Destination buffer is too small|another length than 39992 bytes", ["value"])
    refused(set_buffer(encoded(5000, compression), VALUE_DATA, length=7), "a compressed buffer of 7 bytes", ["value"])


def test_a_buffer_is_one_lz4_frame_and_nothing_else() -> None:
    """Arrow's stream would read several frames and skip others, which Java refuses."""
    frame = pa.compress(b"".join(b"%08d" % row for row in range(5000)), "lz4", asbytes=True)
    for wrong, found in (
        (frame + pa.compress(b"", "lz4", asbytes=True), "bytes after an LZ4 frame"),
        (frame + bytes(8), "bytes after an LZ4 frame"),
        (struct.pack("<II", 0x184D2A50, 0) + frame, "no LZ4 frame"),
        (frame[:-4], "an LZ4 frame without an end"),
        (frame[:200], "an LZ4 frame without an end"),
    ):
        message = encoded(5000, "lz4")
        start = len(message)
        message += struct.pack("<q", 40_000) + wrong
        set_buffer(message, VALUE_DATA, start=start - Places(message).body, length=8 + len(wrong))
        refused(message, found, ["value"])


@pytest.mark.parametrize("flags", [0, 4, 8, 16, 28])
def test_an_lz4_frame_may_have_a_length_and_checksums(flags: int) -> None:
    content = b"8 bytes!"
    start = struct.pack("<BB", 0x60 | flags, 0x40) + (struct.pack("<q", len(content)) if flags & 8 else b"")
    frame = struct.pack("<I", 0x184D2204) + start + bytes([short_xxh32(start) >> 8 & 0xFF])
    frame += struct.pack("<I", 0x80000000 | len(content)) + content  # a block that is not compressed
    frame += (struct.pack("<I", short_xxh32(content)) if flags & 16 else b"") + bytes(4)
    frame += struct.pack("<I", short_xxh32(content)) if flags & 4 else b""
    message = encoded(5000, "lz4")
    end = len(message)
    message += struct.pack("<q", len(content)) + frame
    set_buffer(message, HEADER_KEY_DATA, start=end - Places(message).body, length=8 + len(frame))
    ends = struct.pack("<q", -1) + struct.pack("<5001i", 0, *[8] * 5000)
    message += bytes(-len(message) % 8)
    set_buffer(message, PAIR_KEY_ENDS, start=len(message) - Places(message).body, length=len(ends))
    first = read(message + ends, ["headers"]).column(0)[0]
    assert first.as_py() == [{"key": "8 bytes!", "value": b"x"}]


def short_xxh32(data: bytes) -> int:
    """The checksum in LZ4 frames, of fewer than 16 bytes."""

    def mixed(number: int, bits: int, factor: int) -> int:
        number &= 0xFFFFFFFF
        return (number << bits | number >> (32 - bits)) * factor & 0xFFFFFFFF

    found = 0x165667B1 + len(data)
    words = len(data) // 4
    for word in struct.unpack_from(f"<{words}I", data):
        found = mixed(found + word * 0xC2B2AE3D, 17, 0x27D4EB2F)
    for byte in data[4 * words :]:
        found = mixed(found + byte * 0x165667B1, 11, 0x9E3779B1)
    found = (found ^ found >> 15) * 0x85EBCA77 & 0xFFFFFFFF
    found = (found ^ found >> 13) * 0xC2B2AE3D & 0xFFFFFFFF
    return found ^ found >> 16


def test_a_lack_of_memory_is_no_fault_of_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 40000 failed")

    monkeypatch.setattr("sparklog.log.message_decoder._unpacked", no_memory)
    with pytest.raises(MemoryError, match="malloc of size 40000 failed"):
        read(encoded(5000, "zstd"), ["value"])


def test_no_headers_have_no_nulls() -> None:
    assert read(encoded(headers=None), ["headers"]).column(0).to_pylist() == [None] * 3
    refused(set_node(encoded(headers=None), HEADER_VALUES, nulls=1), "no headers with 1 nulls", ["headers"])


def test_columns_that_are_not_wanted_are_not_looked_at() -> None:
    message = set_offsets(set_buffer(encoded(2), VALUE_DATA, start=2**40), LIST_ENDS, 7)
    assert read(message, ["key", "timestamp"]).column(0).to_pylist() == [None, b"key"]


def test_the_bits_of_a_column_without_nulls_are_not_looked_at() -> None:
    message = set_buffer(encoded(), VALUE_BITS, start=2**40, length=7)
    assert read(message, ["value"]).column(0).to_pylist() == [b"12345678"] * 3


def test_metadata_of_other_columns_or_another_kind_of_message_are_refused() -> None:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"key": pa.array([b"k"])})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    stream = sink.getvalue()
    with pytest.raises(Malformed, match="a message of type 1"):
        MessageDecoder(RAW.arrow, ["key"]).decode(stream)
    schema_bytes = 8 + struct.unpack_from("<i", stream, 4)[0]
    with pytest.raises(Malformed, match="columns of another schema"):
        MessageDecoder(RAW.arrow, ["key"]).decode(stream.slice(schema_bytes))


@pytest.mark.parametrize("compression", ["none", "zstd", "lz4"])
def test_a_message_cut_at_any_byte_or_with_any_bit_of_its_metadata_flipped_is_read_or_malformed(
    compression: str,
) -> None:
    message = encoded(40 if compression == "none" else 1500, compression)
    metadata = batch_numbers(pa.py_buffer(bytes(message))).body_start
    for size in [*range(0, metadata, 3), metadata, len(message) - 8]:
        with pytest.raises(Malformed):
            read(message[:size])
    for bit in range(0, 8 * metadata, 5):
        flipped = bytearray(message)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            read(flipped).validate(full=True)
        except Malformed:
            continue


@pytest.mark.parametrize("root", [-4, -8, -(2**31)])
def test_metadata_point_to_nothing_before_their_beginning(root: int) -> None:
    message = encoded()
    struct.pack_into("<i", message, 8, root)
    refused(message, "metadata that point before their beginning")


def test_metadata_end_at_a_multiple_of_8() -> None:
    message = encoded()
    (length,) = struct.unpack_from("<i", message, 4)
    struct.pack_into("<i", message, 4, length + 4)
    refused(message, f"metadata of {length + 4} bytes")


@pytest.mark.parametrize("version", [2, 5, -1])
def test_metadata_of_another_version_are_refused(version: int) -> None:
    message = encoded()
    at = Places(message).version
    assert struct.unpack_from("<h", message, at) == (4,)
    struct.pack_into("<h", message, at, version)
    refused(message, f"metadata of version {version}")


@pytest.mark.parametrize("count", [-1, 2**31 - 1])
def test_a_vector_lies_within_the_metadata(count: int) -> None:
    message = encoded()
    struct.pack_into("<i", message, Places(message).nodes - 4, count)
    refused(message, f"a vector of {count} elements")


@pytest.mark.parametrize("field", [1, 2])
def test_a_batch_has_nodes_and_buffers(field: int) -> None:
    message = encoded()
    table = Places(message).batch
    vtable = table - struct.unpack_from("<i", message, table)[0]
    struct.pack_into("<H", message, vtable + 4 + 2 * field, 0)
    refused(message, "metadata that lack a part")


@pytest.mark.parametrize("length", [-1, 2**31 - 1])
def test_a_text_lies_within_the_metadata(length: int) -> None:
    message = bytes(encoded())
    wrong = message.replace(b"\x03\0\0\x007-3\0", struct.pack("<i", length) + b"7-3\0")
    assert wrong != message
    with pytest.raises(Malformed, match=f"a text of {length} bytes"):
        place_of(pa.py_buffer(wrong))


def test_a_message_that_names_no_partition_is_refused() -> None:
    message = bytes(encoded())
    assert place_of(pa.py_buffer(message)) == PLACE
    for wrong in (
        message.replace(b"sparklog.partition", b"sparklog.partitiom"),
        message.replace(b"\x03\0\0\x007-3\0", b"\x03\0\0\x007-x\0"),
    ):
        assert wrong != message
        with pytest.raises(Malformed, match="a batch of partition"):
            place_of(pa.py_buffer(wrong))


@pytest.mark.parametrize("numbers", [(1 << 31, 3), (7, 1 << 31), ((1 << 32) + 7, 3)])
def test_a_message_of_a_partition_that_no_index_can_name_is_refused(numbers: tuple[int, int]) -> None:
    """In 32 bits, its number would be that of another topic or partition."""
    topic_id, partition = numbers
    largest = TopicPartition(TopicId((1 << 31) - 1), PartitionIndex((1 << 31) - 1))
    assert place_of(pa.py_buffer(bytes(encoded(place=largest)))) == largest
    wrong = encoded(place=TopicPartition(TopicId(topic_id), PartitionIndex(partition)))
    with pytest.raises(Malformed, match=f"a batch of partition b'{topic_id}-{partition}'"):
        place_of(pa.py_buffer(bytes(wrong)))
