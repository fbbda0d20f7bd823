"""Endpoints for topics, plans of reading, and offsets.

The core computes the answers; this module limits their size, and puts them into messages.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import structs
from starlette.requests import Request

from sparklog.chain.follow.follower import Follower
from sparklog.coordinator.access.audit import audit_refused
from sparklog.coordinator.access.gate import caller_of, renewed_caller
from sparklog.coordinator.http.endpoint import CHAIN, SEEN, Endpoint, Openness, Parameter
from sparklog.coordinator.http.exchange import Decoders, decoded
from sparklog.coordinator.leading.reader_threads import ReaderThreads
from sparklog.core.access import Need, Principal, Verb, check_access
from sparklog.core.describe.readable import counted
from sparklog.core.describe.topic_rows import describe_topic, topic_row
from sparklog.core.errors import (
    AccessRefused,
    DataLoss,
    InconsistentClusterId,
    InvalidInput,
    OffsetOutOfRange,
    StoreAccessDenied,
    UnknownTopicOrPartition,
)
from sparklog.core.lookup import partition_of, topic_of, unknown_topic
from sparklog.core.reading.plan import SliceToRead, check_range, plan_range
from sparklog.core.replication.leader_epochs import end_of_leader_epoch
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.types import EntryNumber
from sparklog.log.cluster_stores import Stores
from sparklog.log.read.time_lookup import first_at_or_after
from sparklog.storage.keys import data_key
from sparklog.storage.open_store import registered_url
from sparklog.wire.topic_messages import (
    MOST_LOOKUPS,
    MOST_PARTITIONS,
    MOST_TOPICS,
    OFFSETS,
    PLAN,
    TOPIC,
    TOPICS,
    AtTime,
    EarliestOffset,
    EndOfEpoch,
    LatestOffset,
    OffsetReply,
    OffsetsReply,
    OffsetsRequest,
    PlanReply,
    PlanRequest,
    RangeReply,
    SliceReply,
    TopicReply,
    TopicsReply,
    WantedOffset,
    WantedRange,
)

_plan_request = Decoders(PlanRequest)
_offsets_request = Decoders(OffsetsRequest)

_AFTER = Parameter("after", "query", "Begin after the topic of this name.", default="")
_TOPICS_LIMIT = Parameter("limit", "query", "Maximum number of topics.", MOST_TOPICS, 1, MOST_TOPICS)
_NAME = Parameter("name", "path", "The name of the topic.")
_FIRST = Parameter("first", "query", "The first partition to show.", 0, 0, 2**31 - 1)
_PARTITIONS_LIMIT = Parameter("limit", "query", "Maximum number of partitions.", MOST_PARTITIONS, 1, MOST_PARTITIONS)
_ALWAYS = (CHAIN, SEEN)


def query_routes(reading: ReaderThreads, metadata: str, stores: Callable[[ClusterState], Stores]) -> list[Endpoint]:
    """The endpoints for topics, plans of reading, and offsets.

    `metadata` is the address of the metadata. `stores` opens the stores, for look-ups by time.
    """

    async def topics(request: Request) -> TopicsReply:
        after, limit = request.query_params.get("after", ""), _TOPICS_LIMIT.number(request)
        state = await reading.state(request)
        principal = caller_of(request.scope).principal
        return await reading.run(partial(topics_after, state, after, limit, partial(principal.may, Verb.DESCRIBE)))

    async def topic(request: Request) -> TopicReply:
        first, limit = _FIRST.number(request), _PARTITIONS_LIMIT.number(request)
        state = await reading.state(request)
        name = request.path_params["name"]
        check_topic(caller_of(request.scope).principal, Verb.DESCRIBE, name, state)
        return await reading.run(partial(described, state, name, first, limit))

    async def plan(request: Request) -> PlanReply:
        wanted = await decoded(request, _plan_request)
        state = await reading.state(request)
        check_topic(caller_of(request.scope).principal, Verb.READ, wanted.topic, state)
        return await reading.run(partial(planned, state, metadata, wanted))

    async def offsets(request: Request) -> OffsetsReply:
        wanted = await decoded(request, _offsets_request)
        lookups = sum(isinstance(offset.at, AtTime) for offset in wanted.offsets)
        if lookups > MOST_LOOKUPS:
            raise InvalidInput(f"offsets: wanted at most {MOST_LOOKUPS} by time, found {counted(lookups, 'look-up')}")
        state = await reading.state(request)
        check_topic(caller_of(request.scope).principal, Verb.DESCRIBE, wanted.topic, state)
        work = partial(offsets_of, state, wanted, reading.follower, stores)
        return await (reading.look_up(work) if lookups else reading.run(work))

    return [
        Endpoint(
            "GET",
            TOPICS,
            topics,
            "The topics, by name",
            needs=Openness.BY_TOPIC,
            gives=TopicsReply,
            parameters=(_AFTER, _TOPICS_LIMIT, *_ALWAYS),
            errors=(InconsistentClusterId,),
        ),
        Endpoint(
            "GET",
            TOPIC,
            topic,
            "One topic: its partitions with leader, ISR, LEO and HW, and its config",
            needs=Openness.BY_TOPIC,
            gives=TopicReply,
            parameters=(_NAME, _FIRST, _PARTITIONS_LIMIT, *_ALWAYS),
            errors=(InconsistentClusterId, UnknownTopicOrPartition),
        ),
        Endpoint(
            "POST",
            PLAN,
            plan,
            "Plan a read: the slices of offset ranges, with their objects, byte ranges and stores",
            needs=Openness.BY_TOPIC,
            takes=_plan_request,
            gives=PlanReply,
            parameters=_ALWAYS,
            errors=(InconsistentClusterId, UnknownTopicOrPartition, OffsetOutOfRange),
        ),
        Endpoint(
            "POST",
            OFFSETS,
            offsets,
            "Offsets: earliest, latest, by time, and the end of a leader epoch",
            needs=Openness.BY_TOPIC,
            takes=_offsets_request,
            gives=OffsetsReply,
            parameters=_ALWAYS,
            errors=(InconsistentClusterId, UnknownTopicOrPartition, DataLoss, StoreAccessDenied),
        ),
    ]


def check_topic(principal: Principal, verb: Verb, name: str, state: ClusterState) -> None:
    """Raise the error of `check_access` if the principal lacks the right `verb` on the topic.

    Raise UnknownTopicOrPartition if there is no such topic. The error suggests only topics that the principal may see.
    """
    check_access(principal, Need(verb, (name,)), state)
    if name not in state.topic_ids:
        raise unknown_topic(name, [known for known in state.topic_ids if principal.may(Verb.DESCRIBE, known)])


def check_topic_for(request: Request, verb: Verb, name: str, state: ClusterState) -> None:
    """Check the caller of a request for a topic's records by `check_topic`. Audit the request if it is refused.

    The caller has the rights of the access file in force now: those of a request that has waited may be gone.
    """
    caller = caller_of(request.scope)
    try:
        caller = renewed_caller(request.scope)
        check_topic(caller.principal, verb, name, state)
    except AccessRefused as error:
        audit_refused(caller.principal.name, caller.address, f"{request.method} {request.url.path}", error)
        raise


def topics_after(state: ClusterState, after: str, limit: int, may_see: Callable[[str], bool]) -> TopicsReply:
    """The first `limit` topics, by name, whose names are greater than `after` and that the caller may see."""
    names = sorted(name for name in state.topic_ids if name > after and may_see(name))
    topics = (state.topics[state.topic_ids[name]] for name in names[:limit])
    rows = tuple(topic_row(state, topic) for topic in topics)
    return TopicsReply(state.chain_id, EntryNumber(state.n), rows, len(names) > limit)


def described(state: ClusterState, name: str, first: int, limit: int) -> TopicReply:
    """A topic with at most `limit` partitions from number `first` on. Raises UnknownTopicOrPartition."""
    total = topic_of(state, name).partitions
    return TopicReply(
        **structs.asdict(describe_topic(state, name, first, limit)),
        chain_id=state.chain_id,
        position=EntryNumber(state.n),
        partitions_total=total,
        more=first + limit < total,
    )


def planned(state: ClusterState, metadata: str, wanted: PlanRequest) -> PlanReply:
    """The slices in the wanted ranges of offsets, with their objects and stores; at most `wanted.limit` slices.

    If the request names no ranges, the plan has all readable offsets of the first MOST_PARTITIONS partitions. Raises
    UnknownTopicOrPartition, and OffsetOutOfRange if a range is not readable.
    """
    topic = topic_of(state, wanted.topic)
    left = wanted.limit
    ranges, more = [], False
    for range_ in wanted.ranges or map(WantedRange, range(min(topic.partitions, MOST_PARTITIONS))):
        planned_range = _planned_range(state, topic, range_, left)
        left -= len(planned_range.slices)
        more = more or planned_range.next is not None
        ranges.append(planned_range)
    more = more or (not wanted.ranges and topic.partitions > MOST_PARTITIONS)
    used = {store for range_ in ranges for slice_ in range_.slices for store in slice_.stores}
    stores = {store: registered_url(metadata, state.stores[store].url) for store in sorted(used)}
    return PlanReply(state.chain_id, EntryNumber(state.n), topic.name, topic.topic_id, tuple(ranges), stores, more)


def offsets_of(
    state: ClusterState, wanted: OffsetsRequest, follower: Follower, stores: Callable[[ClusterState], Stores]
) -> OffsetsReply:
    """The wanted offsets of partitions: earliest, latest, by time, or the end of a leader epoch.

    For a look-up by time, `follower` first reads the chain to its end, and then objects are read. Raises
    UnknownTopicOrPartition, and the errors of `first_at_or_after`.
    """
    topic = topic_of(state, wanted.topic)
    partitions = [partition_of(state, topic, offset.partition) for offset in wanted.offsets]

    def now() -> tuple[ClusterState, Stores]:
        newest = follower.catch_up().state
        return newest, stores(newest)

    replies = []
    for offset, partition in zip(wanted.offsets, partitions, strict=True):
        replies.append(_offset(state, topic, partition, offset, now))
    return OffsetsReply(state.chain_id, EntryNumber(state.n), topic.topic_id, tuple(replies))


def _offset(
    state: ClusterState,
    topic: Topic,
    partition: Partition,
    wanted: WantedOffset,
    now: Callable[[], tuple[ClusterState, Stores]],
) -> OffsetReply:
    epoch = partition.replication.leader_epoch
    match wanted.at:
        case EarliestOffset():
            return OffsetReply(partition.partition, partition.log_start, epoch)
        case LatestOffset():
            return OffsetReply(partition.partition, partition.high_watermark, epoch)
        case AtTime(timestamp_ms=timestamp_ms):
            at = first_at_or_after(now, topic.name, partition.partition, timestamp_ms * 1000)
            return OffsetReply(partition.partition, at, None if at is None else epoch)
        case EndOfEpoch(leader_epoch=leader_epoch):
            ended = end_of_leader_epoch(state, topic, partition.partition, leader_epoch)
            if ended is None:
                return OffsetReply(partition.partition, None, None)
            return OffsetReply(partition.partition, ended.end, ended.leader_epoch)


def _planned_range(state: ClusterState, topic: Topic, wanted: WantedRange, most_slices: int) -> RangeReply:
    partition = partition_of(state, topic, wanted.partition)
    low = partition.log_start if wanted.start is None else wanted.start
    high = partition.high_watermark if wanted.end is None else wanted.end
    offsets = check_range(topic.name, partition, low, high)
    plan = plan_range(state, topic, wanted.partition, offsets, most_slices)
    slices = tuple(_slice(part, topic.name) for part in plan.slices)
    rest = plan.end if plan.end < offsets.end else None
    return RangeReply(plan.partition, plan.leader_epoch, plan.start, plan.end, slices, rest, plan.lost)


def _slice(part: SliceToRead, topic: str) -> SliceReply:
    slice_ = part.slice
    return SliceReply(
        data_key(part.object.object, topic),
        part.stores,
        slice_.position,
        slice_.length,
        slice_.start,
        slice_.end,
        slice_.records,
    )
