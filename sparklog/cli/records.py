"""`sparklog produce` and `sparklog consume`: records from stdin and to stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from sparklog.cli.output import connect, done, settings
from sparklog.core.errors import InvalidInput, InvalidOption, OffsetOutOfRange

if TYPE_CHECKING:
    import pyarrow as pa

    from sparklog.client.cluster import Cluster

FOLLOW_PAUSE_MS = 200


def produce(
    topic: str = typer.Argument(metavar="TOPIC", help="The topic."),
    key_separator: str = typer.Option("", "--key-separator", help="Lines are KEY, this text, VALUE."),
    as_json: bool = typer.Option(
        False, "--json", help="Lines are JSON: value, and optionally key, partition, timestamp (ms), headers."
    ),
    base64: bool = typer.Option(False, "--base64", help="With --json: key, value and header values are base64."),
    batch: int = typer.Option(10_000, "--batch", min=1, help="Records per commit; each commit is atomic."),
    partition: int = typer.Option(-1, "--partition", "-p", help="All records go there."),
    compression: str = typer.Option("", "--compression", help="zstd, lz4 or none."),
) -> None:
    """Append the lines of stdin to a topic, in commits of --batch records.

    Example: printf 'k1:hello\\nk2:world\\n' | sparklog produce orders --key-separator :
    """
    records = 0
    with connect() as cluster:
        for lines in _groups(batch):
            columns = _from_json(lines, records, base64) if as_json else _from_lines(lines, key_separator, records)
            if partition >= 0:
                columns["partition"] = [partition] * len(lines)
            cluster.append(topic, _table(columns), compression=compression or None)
            records += len(lines)
    done(f"appended {records} records to {topic}", {"topic": topic, "records": records})


def _groups(size: int) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    for line in sys.stdin.buffer:
        group.append(line.rstrip(b"\r\n"))
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def _from_lines(lines: list[bytes], separator: str, before: int) -> dict[str, list[Any]]:
    if not separator:
        return {"value": list(lines)}
    keys, values = [], []
    for number, line in enumerate(lines, before + 1):
        key, found, value = line.partition(separator.encode())
        if not found:
            raise InvalidInput(f"line {number}: wanted KEY{separator}VALUE, found {line[:80]!r}")
        keys.append(key)
        values.append(value)
    return {"key": keys, "value": values}


def _from_json(lines: list[bytes], before: int, base64: bool) -> dict[str, list[Any]]:
    import msgspec

    columns: dict[str, list[Any]] = {name: [] for name in ("key", "value", "partition", "timestamp", "headers")}
    for number, line in enumerate(lines, before + 1):
        try:
            record = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise InvalidInput(f"line {number}: wanted a JSON object, found {line[:80]!r} ({error})") from error
        if "value" not in record:
            raise InvalidInput(f"line {number}: wanted 'value' (null is a tombstone), found {', '.join(record)}")
        columns["key"].append(_bytes(record.get("key"), base64, number))
        columns["value"].append(_bytes(record["value"], base64, number))
        columns["partition"].append(record.get("partition"))
        stamp = record.get("timestamp_us", None)
        columns["timestamp"].append(record["timestamp"] * 1000 if stamp is None and "timestamp" in record else stamp)
        headers = record.get("headers")
        columns["headers"].append(
            None if not headers else [(str(each["key"]), _bytes(each.get("value"), base64, number)) for each in headers]
        )
    return {name: column for name, column in columns.items() if name == "value" or any(c is not None for c in column)}


def _bytes(value: Any, base64: bool, number: int) -> bytes | None:
    if value is None:
        return None
    if not base64:
        if isinstance(value, str):
            return value.encode()
        import msgspec

        return msgspec.json.encode(value)
    import binascii

    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except (binascii.Error, TypeError) as error:
        raise InvalidInput(f"line {number}: wanted base64, found {value!r}") from error


def _table(columns: dict[str, list[Any]]) -> pa.Table:
    import pyarrow as pa

    from sparklog.log.records_schema import HEADERS, TIMESTAMP

    kinds = {
        "key": pa.binary(),
        "value": pa.binary(),
        "partition": pa.int32(),
        "timestamp": TIMESTAMP,
        "headers": HEADERS,
    }
    try:
        return pa.table({name: pa.array(column, kinds[name]) for name, column in columns.items()})
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInput(f"the records do not fit: {error}") from error


def consume(
    topic: str = typer.Argument(metavar="TOPIC", help="The topic."),
    offset: str = typer.Option(
        "start", "--offset", "-o", metavar="start|end|N|-N|@TIME[:TIME]", help="Where to begin (and with @a:b to end)."
    ),
    partition: list[int] = typer.Option([], "--partition", "-p", help="Only these partitions. Default: all."),
    num: int = typer.Option(0, "--num", "-n", min=0, help="Stop after so many records. Default: no limit."),
    follow: bool = typer.Option(False, "--follow", "-f", help="Go on with what is appended later, until Ctrl-C."),
    base64: bool = typer.Option(False, "--base64", help="In JSON: key, value and header values as base64."),
) -> None:
    """Print records in offset order, partition by partition: the values, or with --format json one object per line."""
    with connect() as cluster:
        chosen = partition or list(range(len(cluster.describe(topic).partitions)))
        ranges = {each: _range(cluster, topic, each, offset) for each in chosen}
        left = num or None
        at = {each: start for each, (start, _) in ranges.items()}
        while True:
            for each, (_, stop) in ranges.items():
                found = cluster.describe(topic).partitions[each]
                end = found.high_watermark if stop is None else min(stop, found.high_watermark)
                if at[each] < found.log_start:
                    at[each] = found.log_start
                if left is not None:
                    end = min(end, at[each] + left)
                if at[each] >= end:
                    continue
                for batch in cluster.scan(topic, partition=each, start=at[each], end=end, include_headers=True):
                    for line in record_lines(batch, base64=base64) if settings.json else _values(batch):
                        sys.stdout.write(line + "\n")
                if left is not None:
                    left -= end - at[each]
                at[each] = end
            sys.stdout.flush()
            if not follow or left == 0:
                return
            from sparklog.chain.clock import SystemClock

            SystemClock().pause(FOLLOW_PAUSE_MS)


def _range(cluster: Cluster, topic: str, partition: int, offset: str) -> tuple[int, int | None]:
    """Where to begin in a partition, and where to end (None: at its high watermark)."""
    from sparklog.core.plan import partition_of, topic_of
    from sparklog.core.starting_offsets import parse_timestamp_us

    with cluster.connection.follower.current() as state:
        found = partition_of(state, topic_of(state, topic), partition)
    if offset == "start":
        return found.log_start, None
    if offset == "end":
        return found.high_watermark, None
    if offset.startswith("@"):
        times = _two_times(offset[1:])
        bounds = [
            found.high_watermark if at is None else at
            for at in (
                cluster.offset_for_time(topic, partition, parse_timestamp_us("--offset", time)) for time in times
            )
        ]
        return bounds[0], bounds[1] if len(bounds) > 1 else None
    try:
        number = int(offset)
    except ValueError:
        raise InvalidOption(f"--offset is start, end, N, -N or @TIME[:TIME], found {offset!r}") from None
    if offset.startswith("-"):
        return max(found.log_start, found.high_watermark + number), None
    if not found.log_start <= number <= found.high_watermark:
        raise OffsetOutOfRange(
            f"{topic}-{partition}: wanted offset {number}, readable is [{found.log_start}, {found.high_watermark})"
        )
    return number, None


def _two_times(text: str) -> list[str]:
    """The times of A or A:B; an ISO time has colons itself, so B begins where both halves are whole times."""
    from sparklog.core.starting_offsets import parse_timestamp_us

    for at in (index for index, character in enumerate(text) if character == ":"):
        halves = [text[:at], text[at + 1 :]]
        try:
            for each in halves:
                parse_timestamp_us("--offset", each)
        except InvalidOption:
            continue
        return halves
    return [text]


def record_lines(batch: pa.RecordBatch, *, base64: bool) -> Iterator[str]:
    """Each record as a line of JSON (INTERFACE, `consume`)."""
    import msgspec

    for row in batch.to_pylist():
        stamp_us = round(row["timestamp"].timestamp() * 1_000_000)
        yield msgspec.json.encode(
            {
                "topic": row["topic"],
                "partition": row["partition"],
                "offset": row["offset"],
                "timestamp": stamp_us // 1000,
                "timestamp_us": stamp_us,
                "key": _text(row["key"], base64),
                "value": _text(row["value"], base64),
                "headers": [
                    {"key": each["key"], "value": _text(each["value"], base64)} for each in row.get("headers") or []
                ],
            }
        ).decode()


def _text(value: bytes | None, base64: bool) -> str | None:
    if value is None:
        return None
    if base64:
        import binascii

        return binascii.b2a_base64(value, newline=False).decode()
    return value.decode(errors="replace")


def _values(batch: pa.RecordBatch) -> Iterator[str]:
    for value in batch.column("value").to_pylist():
        yield "" if value is None else value.decode(errors="replace")
