"""The endpoint that reads records, for programs without a client: those of one partition, from an offset on.

Any coordinator reads, in a thread. A reply is limited in records, bytes and time, and it says where to continue.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

from sparklog.client.describe.record_rows import before_many_headers, in_runs, record_rows
from sparklog.coordinator.http.endpoint import CHAIN, SEEN, Endpoint, Openness, Parameter, check_query
from sparklog.coordinator.http.exchange import Bodies, answer, body_of
from sparklog.coordinator.http.record_replies import MOST_REPLIES, Replies
from sparklog.coordinator.http.topic_routes import check_topic_for
from sparklog.coordinator.http.waiting_requests import MAX_WAIT_MS
from sparklog.coordinator.leading.reader_threads import ReaderThreads
from sparklog.coordinator.leading.record_work import RecordWork
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.page.records.masks import UNMASKED, Mask, MaskRule, mask_of
from sparklog.core.access import Verb
from sparklog.core.decide.append import OFFSETS_END
from sparklog.core.describe.readable import amount, counted
from sparklog.core.errors import (
    Damaged,
    DataLoss,
    InconsistentClusterId,
    InvalidInput,
    OffsetOutOfRange,
    RecordTooLarge,
    SparklogError,
    StoreAccessDenied,
    UnknownTopicOrPartition,
)
from sparklog.core.lookup import existing_topic, partition_of, topic_of
from sparklog.core.purgatory import Records
from sparklog.core.reading.pieces import next_piece
from sparklog.core.reading.plan import check_range, plan_range, replanned
from sparklog.core.reading.positions import Position
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.types import EntryNumber, Offset, OffsetRange, TopicPartition
from sparklog.host.clock import SystemClock
from sparklog.log.cluster_stores import Stores
from sparklog.log.read.scan import Replan, scan
from sparklog.wire.messages import WaitRequest
from sparklog.wire.record_messages import (
    MOST_READ,
    MOST_READ_BYTES,
    RECORDS,
    RecordHeader,
    RecordReply,
    RecordsReply,
)

READS: Final = 4  # at once
WAITING_READS: Final = 1_000  # one append may end the waits of many clients
TIME_MS: Final = 5_000  # of a read; what was read until then is the reply
_PIECE_BYTES: Final = 8 << 20  # stored
_BATCH_BYTES: Final = 32 << 20  # as stored, or before compression
_LONGEST_PIECE: Final = OFFSETS_END  # if nearly no offset has a record
_COLUMNS: Final = ("offset", "timestamp", "partition", "key", "value", "headers")

_NAME: Final = Parameter("name", "path", "The name of the topic.")
_PARTITION: Final = Parameter("partition", "query", "The number of the partition.", 0, 0, 2**31 - 1)
_OFFSET: Final = Parameter("offset", "query", "The first offset. Without it, the log start.", most=2**63 - 1)
_MAX_RECORDS: Final = Parameter("max_records", "query", "Maximum number of records.", 500, 1, MOST_READ)
_MAX_BYTES: Final = Parameter(
    "max_bytes",
    "query",
    "Maximum size of the records as JSON. One record may have more.",
    2**20,
    1,
    MOST_READ_BYTES,
)
_MAX_WAIT_MS: Final = Parameter(
    "max_wait_ms", "query", "How long to wait for a record, if the offset is the high watermark.", 0, 0, MAX_WAIT_MS
)
_BASE64: Final = Parameter("base64", "query", "true: keys, values and header values as base64.", default="false")

_TOPIC_ID: Final = Parameter(
    "topic_id", "query", "The id of the topic: another topic that has the name now is not read.", most=2**63 - 1
)
_PARAMETERS: Final = (
    _NAME,
    _PARTITION,
    _OFFSET,
    _TOPIC_ID,
    _MAX_RECORDS,
    _MAX_BYTES,
    _MAX_WAIT_MS,
    _BASE64,
    CHAIN,
    SEEN,
)

_encoder: Final = msgspec.json.Encoder()
_no_body: Final = Bodies(0, 0)


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """Limits of a reply: records, their size as JSON, and the time until which more are read, by a monotonic clock."""

    records: int
    size_bytes: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class PartitionSource:
    """A state, and the stores to read one of its partitions from. For `replan` see `scan`."""

    state: ClusterState
    stores: Callable[[], Stores]
    replan: Replan
    topic: Topic
    partition: Partition
    monotonic_ms: Callable[[], int]


def consume_routes(service: Service, reading: ReaderThreads, masks: Sequence[MaskRule]) -> list[Endpoint]:
    """The endpoint that reads records. `masks`: rules for the parts that no reply has."""
    work = RecordWork(READS, WAITING_READS, busy=f"{counted(READS + WAITING_READS, 'read')} of records wait already")
    clock = SystemClock()
    replies = Replies(MOST_REPLIES, clock.monotonic_ms)

    async def records(request: Request) -> Response:
        check_query(request, _PARAMETERS)
        name, number, offset = request.path_params["name"], _PARTITION.number(request), _OFFSET.given(request)
        most, most_bytes = _MAX_RECORDS.number(request), _MAX_BYTES.number(request)
        wait_ms, base64 = _MAX_WAIT_MS.number(request), _is_true(request, _BASE64)
        topic_id = _TOPIC_ID.given(request)
        state = await reading.state(request)
        check_topic_for(request, Verb.READ, name, state)
        await body_of(request, _no_body)  # then only a client that leaves ends a wait early
        topic = topic_of(state, name)
        if topic_id is not None and topic.topic_id != topic_id:
            raise UnknownTopicOrPartition(
                f"wanted topic {name} of id {topic_id}, found id {topic.topic_id}: it was deleted and created again, "
                "and its offsets begin at 0 again"
            )
        partition = partition_of(state, topic, number)
        start = partition.log_start if offset is None else Offset(offset)
        if wait_ms and start == partition.high_watermark:
            await _wait(request, state, topic, partition, wait_ms)
            state = service.follower.state
            check_topic_for(request, Verb.READ, name, state)
            topic = existing_topic(state, topic.topic_id)  # not another one that has the name now
            partition = partition_of(state, topic, number)

        def read() -> Response:
            stores = partial(service.stores, state)
            source = PartitionSource(state, stores, replan, topic, partition, clock.monotonic_ms)
            limits = RecordLimits(most, most_bytes, clock.monotonic_ms() + TIME_MS)
            return answer(request, read_records(source, start, limits, mask_of(masks, name), base64=base64))

        reply = read() if start == partition.high_watermark else await work.run(read)
        return replies.held_reply(request, reply)

    async def _wait(request: Request, state: ClusterState, topic: Topic, partition: Partition, wait_ms: int) -> None:
        """Wait until the partition has records from its high watermark on, or for `wait_ms`."""
        epoch, end = partition.replication.leader_epoch, partition.high_watermark
        at = Position(state.chain_id, topic.topic_id, partition.partition, end, epoch)
        wanted = WaitRequest(state.chain_id, EntryNumber(state.n), Records((at,)), wait_ms)
        await service.wait(wanted, request.receive)

    replan: Replan = lambda plan, at: replanned(service.follower.catch_up().state, plan, at)  # noqa: E731

    return [
        Endpoint(
            "GET",
            RECORDS,
            records,
            "Records of a partition, from an offset on, up to the high watermark",
            needs=Openness.BY_TOPIC,
            gives=RecordsReply,
            parameters=_PARAMETERS,
            errors=(
                InconsistentClusterId,
                UnknownTopicOrPartition,
                OffsetOutOfRange,
                RecordTooLarge,
                DataLoss,
                Damaged,
                StoreAccessDenied,
            ),
        )
    ]


def read_records(
    source: PartitionSource, start: Offset, limits: RecordLimits, mask: Mask, *, base64: bool
) -> RecordsReply:
    """Read records from offset `start` on. To be called in a thread.

    Raises OffsetOutOfRange, RecordTooLarge (the first record alone is too large for a reply), and the errors of `scan`:
    but if records were read before the error, these are the reply, and the next read raises it.
    """
    partition = source.partition
    check_range(source.topic.name, partition, start, max(start, partition.high_watermark))
    reading = _Reading(source, start, limits, mask, base64)
    try:
        reading.read()
    except SparklogError:
        if not reading.records:
            raise
    return RecordsReply(
        source.state.chain_id,
        EntryNumber(source.state.n),
        source.topic.name,
        source.topic.topic_id,
        partition.partition,
        partition.log_start,
        partition.high_watermark,
        Offset(reading.next),
        tuple(reading.records),
        reading.replaced,
        mask != UNMASKED,
    )


class _Reading:
    """The records of a reply, and the offset after them (`next`). The attributes are right whenever `read` ends."""

    def __init__(self, source: PartitionSource, start: Offset, limits: RecordLimits, mask: Mask, base64: bool) -> None:
        self.records: list[RecordReply] = []
        self.next: int = start
        self.replaced = False
        self._source = source
        self._limits = limits
        self._mask = mask
        self._base64 = base64
        self._size_bytes = 0

    def read(self) -> None:
        """Read piece by piece, until a limit or the high watermark is reached."""
        end, step = self._source.partition.high_watermark, self._limits.records
        while self.next < end and self._read_piece(step):
            step = min(_LONGEST_PIECE, 2 * step)  # few of the offsets have a record

    def _read_piece(self, step: int) -> bool:
        """Read the next piece, of at most `step` offsets. False if a limit was reached."""
        piece = self._up_to_loss(step)
        with closing(self._scan(piece)) as batches:
            for batch in batches:
                left = batch.slice(0, self._limits.records - len(self.records))
                for readable in before_many_headers(left, self._source.topic.name):
                    for rows in in_runs(readable):
                        fits = self._add(record_rows(rows, self._source.topic.name, *self._masked()))
                        if not fits or self._is_enough():
                            return False
        self.next = max(self.next, piece.end)
        return not self._is_enough()

    def _scan(self, piece: OffsetRange) -> Generator[pa.RecordBatch, None, None]:
        source = self._source
        plan = plan_range(source.state, source.topic, source.partition.partition, piece)
        yield from scan(
            plan,
            source.stores(),
            _COLUMNS,
            source.replan,
            skip_option="a later offset",
            most_batch_bytes=_BATCH_BYTES,
        )

    def _up_to_loss(self, step: int) -> OffsetRange:
        """The next piece. It ends before offsets that were lost, unless it begins there: then it has only those."""
        source = self._source
        key = TopicPartition(source.topic.topic_id, source.partition.partition)
        rest = OffsetRange(Offset(self.next), source.partition.high_watermark)
        piece = next_piece(source.state, key, rest, step, _PIECE_BYTES, down=False)
        later = [lost.start for lost in source.partition.replication.lost if piece.start < lost.start < piece.end]
        return OffsetRange(piece.start, min([piece.end, *later]))

    def _add(self, rows: Sequence[dict[str, Any]]) -> bool:
        """Add records to the reply. False if one of them does not fit."""
        for row in rows:
            replaced = [] if self._base64 else [part for part in _parts(row) if not _is_utf8(part)]
            record = self._record(row)
            size = len(_encoder.encode(record))
            if self.records and self._size_bytes + size > self._limits.size_bytes:
                return False
            if size > MOST_READ_BYTES:
                raise RecordTooLarge(
                    f"{row['topic']}-{row['partition']}: the record at offset {row['offset']} takes {amount(size)} as "
                    f"JSON, a reply has at most {amount(MOST_READ_BYTES)}: read it with a client, or continue at "
                    f"offset {row['offset'] + 1}"
                )
            self.records.append(record)
            self.next = record.offset + 1
            self.replaced = self.replaced or bool(replaced)
            self._size_bytes += size
        return True

    def _record(self, row: dict[str, Any]) -> RecordReply:
        headers = tuple(RecordHeader(header["key"], self._text(header["value"])) for header in row["headers"])
        texts = {"key": self._text(row["key"]), "value": self._text(row["value"]), "headers": headers}
        return RecordReply(**{**row, **texts})

    def _text(self, value: bytes | None) -> str | None:
        if value is None:
            return None
        return binascii.b2a_base64(value, newline=False).decode() if self._base64 else value.decode(errors="replace")

    def _masked(self) -> tuple[Callable[[bytes | None], bytes | None], ...]:
        return self._mask.of_key, self._mask.of_value, self._mask.of_header

    def _is_enough(self) -> bool:
        return len(self.records) == self._limits.records or self._source.monotonic_ms() >= self._limits.until_ms


def _parts(row: dict[str, Any]) -> list[bytes | None]:
    """Key, value and header values of a record."""
    return [row["key"], row["value"], *(header["value"] for header in row["headers"])]


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_true(request: Request, parameter: Parameter) -> bool:
    """The value of a parameter that is true or false. Raises InvalidInput if it is neither."""
    text = request.query_params.get(parameter.name, parameter.default)
    if text not in ("true", "false"):
        raise InvalidInput(f"{parameter.name}: wanted true or false, found {str(text)[:30]!r}")
    return text == "true"
