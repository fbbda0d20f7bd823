"""`sparklog produce`: append records from stdin, as lines or as JSON, in atomic commits, one after the other.

Batches are appended whole and in order. So after an error, the appended lines are the first lines of the input, and the
rest can be sent again. A Producer would not ensure this: it has several flushes in flight, and splits a flush that a
partition refuses.
"""

from __future__ import annotations

import binascii
import os
import re
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from sparklog.cli.completion import completed_topics
from sparklog.cli.output import connect, done, ending
from sparklog.core.config.key import did_you_mean
from sparklog.core.describe.readable import counted, exact_amount
from sparklog.core.errors import InvalidInput, InvalidOption, RecordTooLarge, SparklogError
from sparklog.core.texts.json_text import fields_of, json_fault
from sparklog.core.texts.user_text import is_encodable

if TYPE_CHECKING:
    import pyarrow as pa

    from sparklog.client.cluster import Cluster
    from sparklog.core.config.topic_config import TopicConfig
    from sparklog.core.records import CommandResult
    from sparklog.host.clock import Clock

# Returns the next bytes of the input, b"" at its end, or None if nothing arrives within the given ms (None: no limit).
Read = Callable[["float | None"], "bytes | None"]

COMMIT_BYTES = 64 << 20  # a commit is due once its lines reach this size, which bounds memory
LONGEST_LINE_BYTES = 256 << 20
READ_BYTES = 1 << 20
_NULL = msgspec.Raw(b"null")
_UNKNOWN_FIELD = re.compile(r"unknown field `(.*?)`")

EPILOG = ending(
    "printf 'anna:1 tea\\nben:2 cups\\n' | sparklog produce orders --key-separator :",
    """echo '{"key": "anna", "value": "1 tea", "headers": [{"key": "h", "value": "x"}]}' |""",
    "    sparklog produce orders --json",
    "sparklog produce pictures a.png b.png --key cats",
    "sparklog consume orders --format json --base64 | sparklog produce copies --json --base64",
)


def produce(
    topic: str = typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=completed_topics),
    files: list[Path] | None = typer.Argument(
        None,
        metavar="FILE",
        help="Files to append, each as one record, unchanged. Default: the lines of stdin.",
    ),
    key: str | None = typer.Option(None, "--key", "-k", metavar="TEXT", help="The key of every record."),
    key_separator: str | None = typer.Option(
        None, "--key-separator", metavar="TEXT", help="Each line is KEY, this text, VALUE. Default: a line is a value."
    ),
    as_json: bool = typer.Option(
        False,
        "--json",
        help="Each line is a JSON object, as consume prints it: value (null is a tombstone), and optionally key, "
        "partition, timestamp (ms) or timestamp_us, headers. A key or value other than a string is kept as JSON text.",
    ),
    base64: bool = typer.Option(False, "--base64", help="With --json: key, value and header values are base64."),
    batch: int = typer.Option(10_000, "--batch", min=1, metavar="N", help="Maximum number of records in one commit."),
    linger_ms: int = typer.Option(
        1_000, "--linger-ms", min=0, metavar="MS", help="Commit a smaller batch after this time."
    ),
    partition: int | None = typer.Option(
        None, "--partition", "-p", min=0, metavar="P", help="The partition of every record. Default: by key."
    ),
    compression: str | None = typer.Option(
        None,
        "--compression",
        "-z",
        metavar="zstd|lz4|none",
        help="The codec, unless the topic's compression.type names one. Default: zstd.",
    ),
) -> None:
    """Append the lines of stdin, or whole files, to a topic as one record each.

    Each batch is one atomic commit. An error stops the run, and its message says how many records were appended before
    it. The topic's flush.messages and flush.ms apply if they are lower than --batch and --linger-ms.
    """
    from sparklog.host.clock import SystemClock

    if files and (as_json or key_separator is not None):
        raise InvalidOption("--json and --key-separator apply to lines: a file is one value")
    if key is not None and (as_json or key_separator is not None):
        raise InvalidOption(
            "--key sets the key of every record: leave out --key-separator and --json, which set others"
        )
    if base64 and not as_json:
        raise InvalidOption("--base64 needs --json: plain lines are appended unchanged")
    if as_json and key_separator is not None:
        raise InvalidOption("--key-separator applies to plain lines, --json has its own keys: give only one of them")
    if key_separator == "":
        raise InvalidOption("--key-separator: wanted a text, found an empty one")
    records = commits = 0
    clock = SystemClock()
    ranges: dict[int, list[list[int]]] = {}
    with connect() as cluster:
        config = _check_target(cluster, topic, partition, compression)
        batch = min(batch, config.flush_messages or batch)
        linger_ms = linger_ms if config.flush_ms is None else min(linger_ms, config.flush_ms)
        try:
            for lines in (
                _file_groups(files, batch, config.max_message_bytes)
                if files
                else line_groups(stdin_reader(), batch, linger_ms, clock)
            ):
                first = records + 1
                columns = json_columns(lines, first, base64) if as_json else line_columns(lines, key_separator, first)
                if key is not None:
                    columns["key"] = [os.fsencode(key)] * len(lines)
                if partition is not None:
                    columns["partition"] = [partition] * len(lines)
                result = cluster.append(topic, _table(columns), compression=compression)
                records, commits = records + len(lines), commits + 1
                _note(ranges, result)
        except SparklogError as error:
            if records:
                error.message += f"; appended before it: {counted(records, 'record')}"
            raise
        except KeyboardInterrupt:
            print(f"interrupted: {counted(records, 'record')} appended", file=sys.stderr)
            raise
    done(
        f"appended {counted(records, 'record')} to {topic} in {counted(commits, 'commit')}",
        {
            "topic": topic,
            "records": records,
            "commits": commits,
            "ranges": [
                {"partition": index, "start": start, "end": end}
                for index, of_partition in sorted(ranges.items())
                for start, end in of_partition
            ],
        },
    )


def _check_target(cluster: Cluster, topic: str, partition: int | None, compression: str | None) -> TopicConfig:
    """Return the topic's config. Raises an error for an unknown topic, partition or compression."""
    from sparklog.core.lookup import partition_of, topic_of
    from sparklog.log.batch import check_compression

    state = cluster.connection.newest_state()
    target = topic_of(state, topic)
    if partition is not None:
        partition_of(state, target, partition)
    if compression is not None:
        check_compression(compression)
    return state.topic_config(target)


def _note(ranges: dict[int, list[list[int]]], result: CommandResult) -> None:
    """Add to `ranges` the offsets [start, end) that a commit wrote to each partition. Join consecutive ranges."""
    for written in result.ranges:
        known = ranges.setdefault(written.partition, [])
        if known and known[-1][1] == written.start:
            known[-1][1] = written.end
        else:
            known.append([written.start, written.end])


def _file_groups(files: Sequence[Path], most: int, max_message_bytes: int) -> Iterator[list[bytes]]:
    """Yield the contents of the files in groups. A group ends at `most` files, or once it has COMMIT_BYTES.

    Raises InvalidInput for an unreadable file, and RecordTooLarge for a file larger than `max_message_bytes`, which is
    not read.
    """
    bodies: list[bytes] = []
    size_bytes = 0
    for file in files:
        try:
            if file.is_file() and file.stat().st_size > max_message_bytes:
                raise RecordTooLarge(
                    f"{file}: wanted at most {exact_amount(max_message_bytes)} (max.message.bytes), found "
                    f"{exact_amount(file.stat().st_size)}"
                )
            bodies.append(file.read_bytes())
        except OSError as error:
            raise InvalidInput(f"{file}: wanted a file that can be read, found: {error.strerror}") from error
        size_bytes += len(bodies[-1])
        if len(bodies) == most or size_bytes >= COMMIT_BYTES:
            yield bodies
            bodies, size_bytes = [], 0
    if bodies:
        yield bodies


# ---- from bytes to groups of lines ------------------------------------------------------------------


def stdin_reader() -> Read:
    """Return a function that reads the bytes of stdin as they arrive, without waiting for a full buffer.

    The function takes the longest wait in ms (None: no limit). It returns b"" at the end of the input, and None if
    nothing arrived in time. If stdin has no file descriptor, the function waits without a limit.
    """
    try:
        file = sys.stdin.fileno()
    except OSError:  # not a file
        stream: Any = sys.stdin.buffer
        return lambda _: bytes(stream.read1(READ_BYTES))

    def read(wait_ms: float | None) -> bytes | None:
        ready, _, _ = select.select([file], [], [], None if wait_ms is None else wait_ms / 1000)
        return os.read(file, READ_BYTES) if ready else None

    return read


def line_groups(read: Read, most_lines: int, linger_ms: int, clock: Clock) -> Iterator[list[bytes]]:
    """Yield the lines of the input in groups, without their ends (LF or CRLF).

    A group is yielded when it has `most_lines` or COMMIT_BYTES, when its first line is `linger_ms` old, and at the end
    of the input. Raises InvalidInput for a line longer than LONGEST_LINE_BYTES.
    """
    lines: list[bytes] = []
    begun: list[bytes] = []  # the pieces of a line whose end has not arrived
    size_bytes = begun_bytes = number = 0
    first_ms = clock.monotonic_ms()
    while True:
        chunk = read(max(0, first_ms + linger_ms - clock.monotonic_ms()) if lines else None)
        *whole, rest = (chunk or b"").split(b"\n")
        for piece in whole:
            if not lines:
                first_ms = clock.monotonic_ms()
            line = b"".join([*begun, piece]).removesuffix(b"\r")
            lines.append(line)
            begun, begun_bytes, size_bytes, number = [], 0, size_bytes + len(line), number + 1
            if len(lines) == most_lines or size_bytes >= COMMIT_BYTES:
                yield lines
                lines, size_bytes = [], 0
        begun.append(rest)
        begun_bytes += len(rest)
        if begun_bytes > LONGEST_LINE_BYTES:
            raise InvalidInput(f"line {number + 1}: wanted at most {exact_amount(LONGEST_LINE_BYTES)}, found more")
        if chunk == b"" and begun_bytes:
            lines.append(b"".join(begun).removesuffix(b"\r"))
        if lines and (not chunk or clock.monotonic_ms() >= first_ms + linger_ms):
            yield lines
            lines, size_bytes = [], 0
        if chunk == b"":
            return


# ---- from lines to columns --------------------------------------------------------------------------


def line_columns(lines: list[bytes], separator: str | None, first: int) -> dict[str, list[Any]]:
    """Return the columns of plain lines: value and, with a `separator`, key (the bytes before its first occurrence).

    `first`: the number of the first of these lines in the input. Raises InvalidInput for a line without the separator.
    """
    if separator is None:
        return {"value": list(lines)}
    keys, values = [], []
    for number, line in enumerate(lines, first):
        key, split_at, value = line.partition(os.fsencode(separator))
        if not split_at:
            raise InvalidInput(f"line {number}: wanted KEY{separator}VALUE, found {_shown(line)}")
        keys.append(key)
        values.append(value)
    return {"key": keys, "value": values}


def json_columns(lines: list[bytes], first: int, base64: bool) -> dict[str, list[Any]]:
    """Return the columns of JSON lines. A column that no record has is left out, except value.

    `first`: the number of the first of these lines in the input. Raises InvalidInput for a line that is not a valid
    record.
    """
    columns: dict[str, list[Any]] = {name: [] for name in ("key", "value", "partition", "timestamp", "headers")}
    for number, line in enumerate(lines, first):
        record = _json_record(line, number)
        columns["key"].append(_bytes(record.key, base64, number, "key"))
        columns["value"].append(_bytes(record.value, base64, number, "value"))
        columns["partition"].append(record.partition)
        columns["timestamp"].append(_timestamp_us(record, number))
        headers = [(header.key, _bytes(header.value, base64, number, "header")) for header in record.headers or ()]
        columns["headers"].append(headers or None)
    return {
        name: column for name, column in columns.items() if name == "value" or any(cell is not None for cell in column)
    }


class JsonHeader(msgspec.Struct, forbid_unknown_fields=True):
    """A header of a record."""

    key: str
    value: msgspec.Raw = _NULL


class JsonRecord(msgspec.Struct, forbid_unknown_fields=True):
    """A line of input, in the form that `consume` prints. Topic, offset and timestamp type are accepted but ignored."""

    value: msgspec.Raw
    key: msgspec.Raw = _NULL
    partition: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)] | None = None
    timestamp: Annotated[int, msgspec.Meta(ge=-(1 << 53), le=1 << 53)] | None = None
    timestamp_us: Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)] | None = None
    headers: list[JsonHeader] | None = None
    topic: str | None = None
    offset: int | None = None
    timestampType: int | None = None  # noqa: N815 (name of the column)


def _json_record(line: bytes, number: int) -> JsonRecord:
    try:
        return msgspec.json.decode(line, type=JsonRecord)
    except msgspec.ValidationError as error:
        unknown = _UNKNOWN_FIELD.search(str(error))
        near = did_you_mean(unknown[1], JsonRecord.__struct_fields__) if unknown else ""
        raise InvalidInput(f"line {number}: {error}{near}; found {_shown(line)}") from error
    except msgspec.DecodeError:
        return _record_with_surrogates(line, number)


def _record_with_surrogates(line: bytes, number: int) -> JsonRecord:
    """Return a record whose key or value is JSON with half of a surrogate pair somewhere inside: it is kept as it is.

    Raises InvalidInput if the line is no JSON object, or if a text has such a half.
    """
    try:
        text = line.decode()
        reason = json_fault(text, "a JSON object", dict)
    except UnicodeDecodeError as error:
        reason = f"wanted a JSON object in UTF-8, found byte 0x{line[error.start]:02x} at byte {error.start + 1:,}"
    except RecursionError:
        reason = "wanted a JSON object, found one that is nested too deep"
    if reason is not None:
        raise InvalidInput(f"line {number}: {reason}: {_shown(line)}")
    fields = fields_of(text)
    kept = {name: fields.pop(name) for name in ("key", "value") if fields.get(name, "")[:1] in ("{", "[")}
    rest = {name: msgspec.Raw(value.encode()) for name, value in fields.items() if is_encodable(name)}
    try:
        rest |= dict.fromkeys(kept, _NULL)
        record = msgspec.json.decode(msgspec.json.encode(rest), type=JsonRecord)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"line {number}: {error}; found {_shown(line)}") from error
    except msgspec.DecodeError:
        raise InvalidInput(
            f"line {number}: wanted text, found half of a surrogate pair, which UTF-8 can't encode: {_shown(line)}"
        ) from None
    return msgspec.structs.replace(record, **{name: msgspec.Raw(value.encode()) for name, value in kept.items()})


def _timestamp_us(record: JsonRecord, number: int) -> int | None:
    if record.timestamp_us is None:
        return None if record.timestamp is None else record.timestamp * 1000
    if record.timestamp is not None and record.timestamp != record.timestamp_us // 1000:
        raise InvalidInput(
            f"line {number}: wanted timestamp (ms) and timestamp_us to be the same time, found {record.timestamp} and "
            f"{record.timestamp_us}: leave one out"
        )
    return record.timestamp_us


def _bytes(raw: msgspec.Raw, base64: bool, number: int, what: str) -> bytes | None:
    """Return the bytes of a JSON value: None for null, the UTF-8 of a string, the JSON text of anything else.

    With `base64`, the value must be null or a base64 string, which is decoded. Raises InvalidInput, whose message has
    `number` (the number of the line) and `what` (key, value or header).
    """
    body = bytes(raw)
    if body == b"null":
        return None
    try:
        text = msgspec.json.decode(body, type=str) if body.startswith(b'"') else None
        if not base64:
            return body if text is None else text.encode()
        if text is not None:
            return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise InvalidInput(f"line {number}: the {what} can't be read as base64: {_shown(body)}") from None
    raise InvalidInput(f"line {number}: wanted the {what} as a base64 string, found {_shown(body)}")


def _shown(line: bytes) -> str:
    return repr(line[:80].decode(errors="replace")) + ("…" if len(line) > 80 else "")


def _table(columns: dict[str, list[Any]]) -> pa.Table:
    import pyarrow as pa

    from sparklog.log.stored_schema import HEADERS, TIMESTAMP

    kinds = {
        "key": pa.binary(),
        "value": pa.binary(),
        "partition": pa.int32(),
        "timestamp": TIMESTAMP,
        "headers": HEADERS,
    }
    return pa.table({name: pa.array(column, kinds[name]) for name, column in columns.items()})
