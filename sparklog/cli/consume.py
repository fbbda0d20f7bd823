"""`sparklog consume`: print records on stdout, as lines or as JSON."""

from __future__ import annotations

import binascii
import re
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from sparklog.cli.output import connect, ending, print_warning
from sparklog.cli.settings import settings
from sparklog.core.errors import InvalidOption, OffsetOutOfRange, UnknownTopicOrPartition
from sparklog.host.interrupts import interrupts_noted

if TYPE_CHECKING:
    import pyarrow as pa

    from sparklog.client.cluster import Cluster
    from sparklog.core.state import Partition

FOLLOW_WAIT_MS = 5_000  # then the reader looks, whether it was woken or not
RECORDS_PER_COMMIT = 10_000  # a member of a group commits after so many, which also shows that it is alive
_NUMBER = re.compile(r"-?[0-9]{1,40}")  # int() also accepts 1_0 and the digits of other scripts

EPILOG = ending(
    "sparklog consume orders",
    "sparklog consume orders --offset -10 --partition 0 --format json",
    "sparklog consume orders --offset @2026-01-01T00:00:00Z:2026-02-01T00:00:00Z",
    "sparklog consume orders --offset end --follow --key-separator ': '",
    "sparklog consume orders --group billing --follow",
)


def consume(
    topic: str = typer.Argument(metavar="TOPIC", help="The topic."),
    offset: str = typer.Option(
        "start",
        "--offset",
        "-o",
        metavar="start|end|N|-N|@TIME[:TIME]",
        help="Where to start in each partition: an offset, N records before the end, or the first record at or after "
        "a time (ISO 8601 with a zone, or ms); @A:B stops before the first record at or after B.",
    ),
    partition: list[int] = typer.Option(
        [], "--partition", "-p", metavar="P", help="Only this partition; may be given several times. Default: all."
    ),
    num: int | None = typer.Option(None, "--num", "-n", min=1, metavar="N", help="Stop after N records."),
    follow: bool = typer.Option(False, "--follow", "-f", help="Keep printing new records until Ctrl-C."),
    group: str | None = typer.Option(
        None,
        "--group",
        "-g",
        metavar="GROUP",
        help="Join this consumer group: read its share of the partitions from where the group has committed, and "
        "commit what was printed. Where nothing is committed yet, --offset is committed first.",
    ),
    key_separator: str | None = typer.Option(
        None, "--key-separator", metavar="TEXT", help="Print KEY, this text, VALUE. Default: the value alone."
    ),
    base64: bool = typer.Option(
        False,
        "--base64",
        help="With --format json: key, value and header values as base64, for data that is not UTF-8.",
    ),
) -> None:
    """Print the records of a topic.

    Records are printed partition by partition in offset order: the bytes of each value and a line end, or with
    --format json an object per line. Plain lines show a null as the word null. JSON has topic, partition, offset,
    timestamp (ms), timestamp_us, key, value and headers. Without --follow, consume stops at the end that each partition
    has when it gets there. With --group, offsets are committed after their records were printed: after a crash, the
    last ones are printed again.
    """
    if settings.json and key_separator is not None:
        raise InvalidOption("--key-separator goes with lines, JSON has the key as a field")
    if base64 and not settings.json:
        raise InvalidOption("--base64 goes with --format json: lines are printed as they are")
    if group is not None and partition:
        raise InvalidOption("--partition does not go with --group: the members share the partitions")
    separator = None if key_separator is None else key_separator.encode()
    as_json = JsonLines(base64=base64)

    def show(batch: pa.RecordBatch) -> None:
        sys.stdout.buffer.write(as_json.of(batch) if settings.json else _lines(batch, separator))

    with connect() as cluster, interrupts_noted() as check_interrupts:
        if group is not None:
            with closing(_tables_of_member(cluster, topic, group, offset, num, follow)) as tables:
                for table in tables:
                    for batch in table.to_batches():
                        show(batch)
                    sys.stdout.flush()
                    check_interrupts()
            return
        reader = _Reader(cluster, topic, partition, offset, num)
        while True:
            for piece in reader.ready():
                rows = cluster.scan(
                    topic, partition=piece.partition, start=piece.start, end=piece.end, include_headers=settings.json
                )
                for batch in rows:
                    show(reader.take(batch))
                    if reader.left == 0:
                        break
                reader.has_read(piece)
            sys.stdout.flush()
            if reader.left == 0 or not follow or reader.at_end():
                return
            reader.wait()
            check_interrupts()


def _tables_of_member(
    cluster: Cluster, topic: str, group: str, offset: str, num: int | None, follow: bool
) -> Generator[pa.Table, None, None]:
    """What a member of the group reads. When the next table is asked for, the one before it is committed."""
    from sparklog.client.consumer.listener import RebalanceListener
    from sparklog.core.errors import IllegalGeneration, UnknownMemberId

    ranges = {
        (topic, int(partition.partition)): _range(cluster, topic, partition, offset)
        for partition in cluster.describe(topic).partitions
    }
    if any(end is not None for _, end in ranges.values()):
        raise InvalidOption("--offset @A:B does not go with --group: a group reads on from what it has committed")

    def commit(offsets: dict[tuple[str, int], int] | None = None) -> None:
        try:
            consumer.commit(offsets)
        except (IllegalGeneration, UnknownMemberId) as error:  # others may print these records again
            print_warning(error.message)

    class FromOffset(RebalanceListener):
        def on_partitions_assigned(self, partitions: Sequence[tuple[str, int]]) -> None:
            new = [place for place in partitions if place in ranges and consumer.committed(place) is None]
            for place in new:
                consumer.seek(place, ranges[place][0])
            if new:
                commit({place: ranges[place][0] for place in new})  # so --offset counts once for a group

    consumer = cluster.consumer(
        topic, group=group, listener=FromOffset(), auto_offset_reset="earliest", enable_auto_commit=False
    )
    left = num
    with consumer:
        while left != 0:
            most = RECORDS_PER_COMMIT if left is None else min(left, RECORDS_PER_COMMIT)
            table = consumer.poll_table(FOLLOW_WAIT_MS if follow else 0, most)
            yield table
            commit()
            if not table.num_rows and not follow:
                return
            left = None if left is None else left - table.num_rows


@dataclass(frozen=True, slots=True)
class _Piece:
    """Offsets [start, end) of a partition that can be read now."""

    partition: int
    start: int
    end: int


class _Reader:
    """The position of a reader in each partition. If none were chosen, partitions added later are read too.

    `left`: how many records are still wanted; None for all.
    """

    def __init__(self, cluster: Cluster, topic: str, chosen: Sequence[int], offset: str, num: int | None) -> None:
        from sparklog.core.types import TopicId

        self.left = num
        self._cluster, self._topic, self._chosen = cluster, topic, tuple(dict.fromkeys(chosen))
        self._watch = cluster.connection.waiting.watch()
        self._topic_id = TopicId(cluster.describe(topic).topic_id)
        ranges = {partition.partition: _range(cluster, topic, partition, offset) for partition in self._partitions()}
        self._next_offsets: dict[int, int] = {index: start for index, (start, _) in ranges.items()}
        self._ends: dict[int, int] = {index: end for index, (_, end) in ranges.items() if end is not None}

    def has_read(self, piece: _Piece) -> None:
        """The records of a piece were printed, or as many as were wanted."""
        self._next_offsets[piece.partition] = piece.end

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The part of a batch that is wanted. It counts as read."""
        if self.left is None:
            return batch
        wanted = batch.slice(0, self.left)
        self.left -= wanted.num_rows
        return wanted

    def ready(self) -> Iterator[_Piece]:
        """The pieces that can be read now. The caller takes their records, and calls `has_read` after each."""
        partitions = self._partitions()
        for number in range(len(partitions)):
            if partitions[0].topic_id != self._topic_id:
                raise UnknownTopicOrPartition(f"topic {self._topic} was deleted and created again while it was read")
            partition = partitions[number]
            index = partition.partition
            if self._ends and index not in self._ends:
                continue  # added after the ends were looked up
            start = self._next_offsets.setdefault(index, partition.log_start)
            if start < partition.log_start:
                gone = f"[{start}, {partition.log_start})"
                print_warning(f"{self._topic}-{index}: records {gone} were removed before they were read")
                start = self._next_offsets[index] = partition.log_start
            end = min(partition.high_watermark, self._ends.get(index, partition.high_watermark))
            while start < end and self.left != 0:
                yield _Piece(index, start, self._piece_end(partition, start, end))
                start = self._next_offsets[index]
                partitions = self._partitions()  # the caller may have taken a long time to read the piece

    def _piece_end(self, partition: Partition, start: int, end: int) -> int:
        """Where to stop in [start, end) so that not many more records are fetched than are wanted."""
        from sparklog.core.numbering import end_of_records
        from sparklog.core.types import Offset, OffsetRange, TopicPartition

        if self.left is None:
            return end
        key, offsets = TopicPartition(partition.topic_id, partition.partition), OffsetRange(Offset(start), Offset(end))
        with self._cluster.connection.follower.current() as state:
            return end_of_records(state.slices.walk(key, offsets), offsets, self.left)

    def at_end(self) -> bool:
        """True if every partition has an end and has been read up to it."""
        return len(self._ends) == len(self._next_offsets) and all(
            self._next_offsets[index] >= end for index, end in self._ends.items()
        )

    def wait(self) -> None:
        """Wait for new records, or new partitions."""
        from sparklog.core.purgatory import KnownTopic, Records
        from sparklog.core.reading.positions import Position
        from sparklog.core.types import Offset

        chain_id = self._cluster.connection.follower.state.chain_id
        positions = []
        for partition in self._known:
            index = partition.partition
            at, end = self._next_offsets.get(index), self._ends.get(index)
            if at is not None and (end is None or at < end):
                epoch = partition.replication.leader_epoch
                positions.append(Position(chain_id, partition.topic_id, index, Offset(at), epoch))
        topics = () if self._chosen else (KnownTopic(self._topic_id, len(self._known)),)
        self._watch.wait(Records(tuple(positions), topics=topics), FOLLOW_WAIT_MS)

    def _partitions(self) -> list[Partition]:
        """The partitions to read as they are now, ascending. Raises UnknownTopicOrPartition."""
        from sparklog.core.reading.plan import chosen_partitions, topic_of

        with self._cluster.connection.follower.current() as state:
            self._known = chosen_partitions(state, topic_of(state, self._topic), self._chosen)
        return self._known


# ---- --offset -----------------------------------------------------------------------------------------


def _range(cluster: Cluster, topic: str, partition: Partition, offset: str) -> tuple[int, int | None]:
    """Where to start in a partition and where to stop (None: at the end of the log).

    Raises InvalidOption, OffsetOutOfRange.
    """
    low, high = partition.log_start, partition.high_watermark
    if offset == "start":
        return low, None
    if offset == "end":
        return high, None
    if offset.startswith("@"):
        offsets = [cluster.offset_for_time(topic, partition.partition, at_us) for at_us in times_of(offset[1:])]
        bounds = [high if at is None else at for at in offsets]
        return bounds[0], bounds[1] if len(bounds) > 1 else None
    if _NUMBER.fullmatch(offset) is None:
        raise InvalidOption(f"--offset: wanted start, end, N, -N or @TIME[:TIME], found {offset!r}")
    number = int(offset)
    if offset.startswith("-"):
        return cluster.offset_of_last(topic, partition.partition, -number), None
    if not low <= number <= high:
        raise OffsetOutOfRange(
            f"{topic}-{partition.partition}: wanted offset {number}, the readable range is [{low}, {high}); "
            "--partition chooses a partition"
        )
    return number, None


def times_of(text: str) -> list[int]:
    """Parse A or A:B into microseconds. ISO times contain colons, so split at the first one with a time on each side.

    Raises InvalidOption, also if B is before A.
    """
    from sparklog.options.starting_offsets import parse_timestamp_us

    colons = [index for index, character in enumerate(text) if character == ":"]
    for times in ([text], *([text[:at], text[at + 1 :]] for at in colons)):
        try:
            parsed = [parse_timestamp_us("--offset", time) for time in times]
        except InvalidOption:
            continue
        if parsed[0] > parsed[-1]:
            raise InvalidOption(f"--offset: wanted @A:B with A not after B, found {text!r}")
        return parsed
    return [parse_timestamp_us("--offset @TIME[:TIME]", text)]


# ---- from batches to bytes ------------------------------------------------------------------------------


def _lines(batch: pa.RecordBatch, separator: bytes | None) -> bytes:
    """The values, or keys and values, one line for each record."""
    values = [b"null" if value is None else value for value in batch.column("value").to_pylist()]
    if separator is not None:
        keys = [b"null" if key is None else key for key in batch.column("key").to_pylist()]
        values = [key + separator + value for key, value in zip(keys, values, strict=True)]
    return b"".join(part for value in values for part in (value, b"\n"))


class JsonLines:
    """Turns batches with all columns into lines of JSON, one object per record."""

    def __init__(self, *, base64: bool) -> None:
        import msgspec

        self._base64 = base64
        self._warned = False
        self._encoder = msgspec.json.Encoder()

    def of(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        import pyarrow as pa

        stamps = batch.column("timestamp").cast(pa.int64()).to_pylist()
        names = ("topic", "partition", "offset", "key", "value", "headers")
        columns = [batch.column(name).to_pylist() for name in names]
        rows = [
            {
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "timestamp": stamp_us // 1000,
                "timestamp_us": stamp_us,
                "key": self._text(key),
                "value": self._text(value),
                "headers": [{"key": header["key"], "value": self._text(header["value"])} for header in headers or ()],
            }
            for stamp_us, topic, partition, offset, key, value, headers in zip(stamps, *columns, strict=True)
        ]
        return self._encoder.encode_lines(rows)

    def _text(self, value: bytes | None) -> str | None:
        if value is None:
            return None
        if self._base64:
            return binascii.b2a_base64(value, newline=False).decode()
        try:
            return value.decode()
        except UnicodeDecodeError:
            if not self._warned:
                self._warned = True
                print_warning("some keys or values are not UTF-8 and are shown with U+FFFD: --base64 shows their bytes")
            return value.decode(errors="replace")
