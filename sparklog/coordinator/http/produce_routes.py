"""Endpoints that append records, for programs without a client.

The coordinator is the client here: it uploads the records by the same functions, in a thread, and submits one command.
It tries once. After a refusal the caller decides whether to send the request again; with a producer's sequence a repeat
appends nothing.
"""

from __future__ import annotations

import binascii
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace
from starlette.requests import Request

from sparklog.chain.commit.committer import new_command_id
from sparklog.client.commits.commit_write import warn_of_stores
from sparklog.client.plans.task_upload import check_rows, producer_slices, upload_task_rows
from sparklog.client.plans.write_plan import WritePlan, append_command, plan_write
from sparklog.client.producer.record_future import SentRecords
from sparklog.client.producer.waiting_records import RoutedRecords, WaitingRecords, routed
from sparklog.coordinator.access.gate import caller_of
from sparklog.coordinator.access.submitting import submit_for
from sparklog.coordinator.http.endpoint import CHAIN, SEEN, Endpoint, Openness, Parameter, check_query
from sparklog.coordinator.http.exchange import Bodies, Decoders, body_of, decoded
from sparklog.coordinator.http.topic_routes import check_topic_for
from sparklog.coordinator.leading.reader_threads import ReaderThreads
from sparklog.coordinator.leading.record_work import RecordWork
from sparklog.coordinator.leading.service import Service
from sparklog.core.access import Need, Verb
from sparklog.core.commands import AllocateProducer, Append, Submission
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.decide.append import known_append
from sparklog.core.describe.readable import counted
from sparklog.core.errors import (
    FencedLeaderEpoch,
    InconsistentClusterId,
    InvalidInput,
    InvalidProducerEpoch,
    InvalidRecord,
    NotController,
    NotEnoughReplicas,
    OutOfOrderSequence,
    PolicyViolation,
    RecordTooLarge,
    RequestTimedOut,
    SparklogError,
    StoreAccessDenied,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    TryAgain,
    UnknownProducerId,
    UnknownTopicOrPartition,
    WriteLost,
)
from sparklog.core.lookup import existing_topic
from sparklog.core.records import CommandResult
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber, NewSlice, Offset, PartitionIndex, StoreId
from sparklog.host.clock import now_ms
from sparklog.log.cluster_stores import Stores
from sparklog.log.write.store_lanes import reason
from sparklog.wire.error_messages import raised
from sparklog.wire.messages import SubmitRequest, SubmittedCommand
from sparklog.wire.record_messages import (
    MOST_APPENDED,
    PRODUCERS,
    RECORDS,
    AppendedRecord,
    AppendReply,
    AppendRequest,
    ProducerReply,
    ProducerRequest,
    ProducerSequence,
    RecordToAppend,
)

MOST_BODY: Final = 2 * 2**20  # bytes of a request; as Python objects and Arrow columns it takes several times as much
MOST_BODIES: Final = 32 * MOST_BODY  # of all requests together, until their records are uploaded
APPENDS: Final = 4  # uploads at once
WAITING_APPENDS: Final = 60
COMMIT_MS: Final = 30_000  # of the command; the caller waits

_append_request = Decoders(AppendRequest)
_producer_request = Decoders(ProducerRequest)
_NAME: Final = Parameter("name", "path", "The name of the topic.")


class ProducerLost(WriteLost):
    """A WriteLost of an idempotent producer: until its next epoch, the same call fails again."""

    retriable = False


@dataclass(frozen=True, slots=True)
class UploadedAppend:
    """An append whose records are uploaded, to be submitted. `not_taken`: see `TaskWritten`.

    If it repeats an earlier append, nothing is uploaded, and the command names no objects.
    """

    plan: WritePlan
    command: Append
    topic: RoutedRecords
    not_taken: Mapping[StoreId, str]


def produce_routes(service: Service, reading: ReaderThreads) -> list[Endpoint]:
    """The endpoints that append records, and that allocate producer ids. Only the leading coordinator appends."""
    bodies, one_by_one = Bodies(MOST_BODY, MOST_BODIES), threading.Lock()
    work = RecordWork(APPENDS, WAITING_APPENDS, busy=f"{counted(APPENDS + WAITING_APPENDS, 'append')} wait already")

    async def producer(request: Request) -> ProducerReply:
        check_query(request)
        state = await _checked(request)
        wanted = await decoded(request, _producer_request)
        command = AllocateProducer(wanted.producer_id)
        position, result = await _committed(request, Submission(new_command_id(), state.n0, command))
        assert result.producer_id is not None
        assert result.producer_epoch is not None
        return ProducerReply(state.chain_id, position, result.producer_id, result.producer_epoch)

    async def append(request: Request) -> AppendReply:
        check_query(request)
        name = request.path_params["name"]
        await _checked(request, name)
        body = await body_of(request, bodies)  # may take minutes
        state = service.follower.state
        check_topic_for(request, Verb.WRITE, name, state)
        with bodies.holding(len(body)):
            kind, path = request.headers.get("content-type", ""), request.url.path

            def uploaded_body() -> UploadedAppend:
                with one_by_one:  # a decoder holds the interpreter's lock: several of them would hold up commits
                    wanted = _append_request.decode(body, kind, path)
                return uploaded_append(state, service.stores(state), name, wanted)

            lag_ms = effective_cluster(state.config).replica_lag_time_max_ms  # after it, a store that hangs is left out
            uploaded = await work.run(uploaded_body, lag_ms)
        plan, command = uploaded.plan, uploaded.command
        newest = service.follower.state
        check_topic_for(request, Verb.WRITE, name, newest)
        existing_topic(newest, uploaded.topic.topic_id)  # not another one that has the name now
        position, result = await _committed(request, Submission(plan.command_id, plan.n0, command))
        warn_of_stores(plan, command, uploaded.not_taken)
        records = appended_records(uploaded.topic, result)
        return AppendReply(state.chain_id, position, name, uploaded.topic.topic_id, records)

    async def _checked(request: Request, topic: str | None = None) -> ClusterState:
        """The newest state. Before the body is read, raises the errors of rights on the topic, and NotController."""
        state = await reading.state(request)
        if topic is not None:
            check_topic_for(request, Verb.WRITE, topic, state)
        service.control.check_leads(state)
        return state

    async def _committed(request: Request, submission: Submission) -> tuple[EntryNumber, CommandResult]:
        """Submit the command as if the caller had sent it. Returns the chain position and the result."""
        state = service.follower.state
        sent = SubmitRequest(state.chain_id, EntryNumber(state.n), (SubmittedCommand(submission, COMMIT_MS),))
        reply = await submit_for(caller_of(request.scope), service, sent)
        (outcome,) = reply.outcomes
        if outcome.error is not None:
            error = raised(outcome.error)
            raise ProducerLost(error.message, landed=error.landed) if isinstance(error, WriteLost) else error
        assert outcome.result is not None
        return reply.position, outcome.result

    return [
        Endpoint(
            "POST",
            PRODUCERS,
            producer,
            "Allocate a producer id, or the next epoch of one, which fences the older epochs",
            needs=Need(Verb.WRITE, any_topic=True),
            takes=_producer_request,
            gives=ProducerReply,
            parameters=(CHAIN, SEEN),
            errors=(NotController, InconsistentClusterId, UnknownProducerId, RequestTimedOut),
        ),
        Endpoint(
            "POST",
            RECORDS,
            append,
            f"Append up to {MOST_APPENDED:,} records to a topic, in one commit: all or none",
            needs=Openness.BY_TOPIC,
            takes=_append_request,
            gives=AppendReply,
            parameters=(_NAME, CHAIN, SEEN),
            errors=(
                NotController,
                InconsistentClusterId,
                UnknownTopicOrPartition,
                InvalidRecord,
                RecordTooLarge,
                UnknownProducerId,
                InvalidProducerEpoch,
                OutOfOrderSequence,
                WriteLost,
                FencedLeaderEpoch,
                NotEnoughReplicas,
                PolicyViolation,
                RequestTimedOut,
                StoreAccessDenied,
                StoreFull,
                StoreReadOnly,
            ),
        ),
    ]


def uploaded_append(state: ClusterState, stores: Stores, topic: str, wanted: AppendRequest) -> UploadedAppend:
    """Check the records by the rules of all writers, and upload them. To be called in a thread.

    Raises InvalidInput (text that is no base64; with a producer, no single partition), the errors of `plan_write`,
    `routed` and `check_rows`, and NoReplicaOnline or a store's error, which names the store.
    """
    if wanted.producer is not None:
        _check_one_partition(wanted.records)
    command_id = new_command_id()
    plan = plan_write(state, stores.addresses, command_id, topic=topic, compression=None, now_ms=now_ms())
    waiting = WaitingRecords(SentRecords(topic), 0)
    for number, record in enumerate(wanted.records):
        waiting.cells.extend(_cells(record, number, base64=wanted.base64))
    of_topic = routed(waiting, state, int(command_id[:4], 16))
    check_rows(plan, of_topic.rows)  # so that later errors are those of stores
    repeat = None if wanted.producer is None else _repeat(state, of_topic, wanted.producer)
    if repeat is not None:
        return UploadedAppend(plan, repeat, of_topic, {})
    try:
        written = upload_task_rows(plan, [of_topic.rows], stores=stores)
    except Exception as error:
        raise _failed_upload(plan, error) from error
    command = append_command(plan, [written])
    assert command is not None, "a request has records"
    if wanted.producer is not None:
        command = replace(command, slices=producer_slices(command.slices, _numbers(wanted.producer)))
    return UploadedAppend(plan, command, of_topic, written.not_taken)


def appended_records(topic: RoutedRecords, result: CommandResult) -> tuple[AppendedRecord, ...]:
    """The partition and offset of each record of an append, in the order of the request."""
    chosen = topic.rows.column("partition").to_pylist()
    next_offsets = {int(range_.partition): int(range_.start) for range_ in result.ranges}
    records = []
    for partition in chosen:
        records.append(AppendedRecord(PartitionIndex(partition), Offset(next_offsets[partition])))
        next_offsets[partition] += 1
    return tuple(records)


def _failed_upload(plan: WritePlan, error: Exception) -> SparklogError:
    """The error of an upload that failed, with the names of its stores. Nothing was appended."""
    of_topics = (holders for topic in plan.topics.values() for holders in topic.store_sets)
    stores = sorted({holder.store for holders in of_topics for holder in holders})
    if not isinstance(error, TryAgain | StoreAccessDenied | StoreFull | StoreReadOnly):
        error = StoreUnavailable(reason(error))
    return type(error)(f"upload to {', '.join(stores) or 'no store'}: {error.message}")


def _repeat(state: ClusterState, topic: RoutedRecords, producer: ProducerSequence) -> Append | None:
    """The command that gets the result of the append that these records repeat; None if they certainly repeat none."""
    ((key, records),) = topic.parts().items()
    no_object = NewSlice(
        object_index=0,
        topic_id=key.topic_id,
        partition=key.partition,
        records=records,
        position=0,
        length=0,
        first_batch=0,
        batches=0,
        min_timestamp_us=0,
        max_timestamp_us=0,
    )
    command = Append((), producer_slices([no_object], _numbers(producer)), ())
    try:
        return None if known_append(state, command) is None else command
    except SparklogError:  # the state may be older than the producer's last batch
        return None


def _cells(record: RecordToAppend, number: int, *, base64: bool) -> tuple[object, ...]:
    """The cells of a record, as `WaitingRecords` has them. `number`: its place in the request, for errors."""

    def bytes_of(text: str | None, what: str) -> bytes | None:
        if text is None or not base64:
            return None if text is None else text.encode()
        try:
            read = binascii.a2b_base64(text)  # it skips what is no base64, so compare
            if binascii.b2a_base64(read, newline=False).decode() == text:
                return read
        except ValueError:
            pass
        raise InvalidInput(f"records[{number}]: the {what} can't be read as base64: {text[:80]!r}")

    key, value = bytes_of(record.key, "key"), bytes_of(record.value, "value")
    headers = [(header.key, bytes_of(header.value, "header")) for header in record.headers] or None
    timestamp_us = None if record.timestamp is None else record.timestamp * 1000
    return key, value, headers, timestamp_us, record.partition


def _check_one_partition(records: tuple[RecordToAppend, ...]) -> None:
    """Raise InvalidInput unless all records name the same partition: sequences are counted per partition."""
    named = {record.partition for record in records}
    if len(named) > 1 or None in named:
        raise InvalidInput(
            "a request with a producer goes to one partition, because sequences are counted per partition: wanted the "
            f"same partition in each record, found {', '.join(map(str, list(named)[:5]))}"
        )


def _numbers(producer: ProducerSequence) -> tuple[int, int, int]:
    return producer.producer_id, producer.producer_epoch, producer.sequence
