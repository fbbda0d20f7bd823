"""Topics, plans and offsets over HTTP: the answers of the client's own functions, bounded, at one chain position."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import msgspec
import pyarrow as pa
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware

from sparklog.chain.follow.follower import Follower
from sparklog.client.cluster import Cluster
from sparklog.coordinator.access.gate import Gate
from sparklog.coordinator.http.topic_routes import planned, query_routes
from sparklog.coordinator.leading.reader_threads import ReaderThreads
from sparklog.core.config.storage import StorageSettings
from sparklog.core.reading.plan import plan_range
from sparklog.core.types import Offset, OffsetRange
from sparklog.log.cluster_stores import Stores, addresses_in
from sparklog.storage.keys import data_key
from sparklog.storage.open_store import open_store
from sparklog.wire.metadata_messages import CHAIN_HEADER, SEEN_HEADER
from sparklog.wire.topic_messages import (
    OFFSETS,
    PLAN,
    TOPICS,
    OffsetsReply,
    PlanReply,
    PlanRequest,
    TopicReply,
    TopicsReply,
    WantedRange,
)
from tests.coordinator.asgi import Answer, request
from tests.core.replicated_log import ReplicatedLog
from tests.kit.log import new_cluster

JSON = {"content-type": "application/json", "accept": "application/json"}
TIME_MS = 1_700_000_000_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topic t with two partitions: 0 has three slices of two records, a second apart, 1 is empty."""
    with new_cluster() as cluster:
        cluster.create_topic("t", partitions=2, config={"retention.ms": -1})
        for second in range(3):
            stamps = pa.array([(TIME_MS + second * 1000) * 1000] * 2, pa.timestamp("us", "UTC"))
            rows = {"value": ["x", "y"], "partition": pa.array([0, 0], pa.int32()), "timestamp": stamps}
            cluster.append("t", pa.table(rows))
        yield cluster


def app(cluster: Cluster, follower: Follower | None = None) -> Starlette:
    """The endpoints of a coordinator that has a follower of its own."""
    url = cluster.connection.url
    if follower is None:
        follower = Follower(open_store(url))
        follower.open()
    reading = ReaderThreads(follower, 100)
    routes = query_routes(reading, url, lambda state: Stores(addresses_in(state, url, StorageSettings())))
    gate = Middleware(Gate, routes=routes, state=lambda: follower.state, access=None)
    return Starlette(routes=list(routes), middleware=[gate])


def ask(app: Starlette, path: str, body: Any = None, headers: dict[str, str] | None = None, **fields: Any) -> Answer:
    chunk = b"" if body is None else msgspec.json.encode(body)
    method = "GET" if body is None else "POST"
    return asyncio.run(request(app, method, path, [chunk], JSON | (headers or {}), urlencode(fields)))


def code(answer: Answer) -> tuple[int, str]:
    return answer.status, msgspec.json.decode(answer.body)["code"]


def test_topics_come_by_name_a_page_at_a_time(cluster: Cluster) -> None:
    for name in ("b", "a", "z"):
        cluster.create_topic(name)
    served = app(cluster)
    names, after, more = [], "", True
    while more:
        reply = msgspec.json.decode(ask(served, TOPICS, after=after, limit=3).body, type=TopicsReply)
        names += [topic.topic for topic in reply.topics]
        after, more = names[-1], reply.more
    assert names == cluster.topics() == ["a", "b", "t", "z"]
    assert (reply.chain_id, reply.position) == (cluster.connection.follower.state.chain_id, reply.position)


# M: N-02
def test_a_topic_is_described_as_by_the_client(cluster: Cluster) -> None:
    reply = msgspec.json.decode(ask(app(cluster), "/v1/topics/t").body, type=TopicReply)
    described = cluster.describe("t")
    first = described.partitions[0]
    assert [partition.partition for partition in reply.partitions] == [0, 1]
    found = reply.partitions[0]
    assert (found.leader, found.leader_epoch, found.isr) == ("local", 0, ("local",))
    assert (found.log_start, found.high_watermark, found.log_end) == (0, 6, 6)
    assert [(replica.store, replica.log_end) for replica in found.replicas] == [("local", 6)]
    assert found.size_bytes == first.size_bytes
    assert (reply.config["retention.ms"].value, reply.config["retention.ms"].origin) == ("-1", "topic")
    assert set(reply.config) == set(described.config)


def test_partitions_come_a_page_at_a_time(cluster: Cluster) -> None:
    served = app(cluster)
    for first, limit, shown, more in ((0, 1, [0], True), (1, 1, [1], False), (2, 5, [], False)):
        reply = msgspec.json.decode(ask(served, "/v1/topics/t", first=first, limit=limit).body, type=TopicReply)
        assert ([each.partition for each in reply.partitions], reply.more) == (shown, more)
        assert reply.partitions_total == 2


def test_a_plan_names_the_bytes_that_hold_a_range(cluster: Cluster) -> None:
    wanted = {"topic": "t", "ranges": [{"partition": 0, "start": 1, "end": 4}, {"partition": 1}]}
    reply = msgspec.json.decode(ask(app(cluster), PLAN, wanted).body, type=PlanReply)
    state = cluster.connection.follower.state
    direct = plan_range(state, state.topics[state.topic_ids["t"]], 0, OffsetRange(Offset(1), Offset(4)))
    assert [
        (part.object, part.position, part.length, part.start, part.end, part.records, part.stores)
        for part in reply.ranges[0].slices
    ] == [(data_key(part.object.object, "t"), *part_of(part.slice), part.stores) for part in direct.slices]
    assert (reply.ranges[0].start, reply.ranges[0].end, reply.ranges[0].next, reply.more) == (1, 4, None, False)
    assert (reply.ranges[1].slices, reply.ranges[1].end) == ((), 0)
    assert reply.stores == {"local": cluster.connection.url}
    part = reply.ranges[0].slices[0]
    (body,) = open_store(reply.stores["local"]).get_ranges(part.object, [(part.position, part.position + part.length)])
    assert len(body) == part.length


def part_of(slice_: Any) -> tuple[int, ...]:
    return slice_.position, slice_.length, slice_.start, slice_.end, slice_.records


def test_a_plan_goes_on_where_its_limit_ended_it(cluster: Cluster) -> None:
    served = app(cluster)
    starts, at, pages = [], 0, 0
    while at is not None:
        wanted = {"topic": "t", "ranges": [{"partition": 0, "start": at}], "limit": 1}
        reply = msgspec.json.decode(ask(served, PLAN, wanted).body, type=PlanReply)
        (range_,) = reply.ranges
        assert (range_.start, reply.more) == (at, range_.next is not None)
        starts += [part.start for part in range_.slices]
        at, pages = range_.next, pages + 1
    assert (starts, pages) == ([0, 2, 4], 3)


def test_the_limit_holds_for_all_ranges_of_a_plan_together(cluster: Cluster) -> None:
    state = cluster.connection.follower.catch_up().state
    ranges = (WantedRange(0, 0, 4), WantedRange(0, 4, 6), WantedRange(0, 0, 6))
    reply = planned(state, cluster.connection.url, PlanRequest("t", ranges, 3))
    assert [len(range_.slices) for range_ in reply.ranges] == [2, 1, 0]
    assert ([range_.next for range_ in reply.ranges], reply.more) == ([None, None, 0], True)


@pytest.mark.parametrize(
    ("at", "offset", "epoch"),
    [
        ({"type": "earliest"}, 0, 0),
        ({"type": "latest"}, 6, 0),
        ({"type": "time", "timestamp_ms": TIME_MS}, 0, 0),
        ({"type": "time", "timestamp_ms": TIME_MS + 1}, 2, 0),
        ({"type": "time", "timestamp_ms": TIME_MS + 2001}, None, None),
        ({"type": "time", "timestamp_ms": -(2**53)}, 0, 0),
        ({"type": "time", "timestamp_ms": 2**53}, None, None),
        ({"type": "epoch", "leader_epoch": 0}, 6, 0),
        ({"type": "epoch", "leader_epoch": 1}, None, None),
        ({"type": "epoch", "leader_epoch": 2**63 - 1}, None, None),
    ],
)
def test_offsets(cluster: Cluster, at: dict[str, Any], offset: int | None, epoch: int | None) -> None:
    wanted = {"topic": "t", "offsets": [{"partition": 0, "at": at}]}
    reply = msgspec.json.decode(ask(app(cluster), OFFSETS, wanted).body, type=OffsetsReply)
    (found,) = reply.offsets
    assert (found.offset, found.leader_epoch) == (offset, epoch)


# M: L-05
def test_where_leader_epochs_end_is_answered_by_kafkas_rules() -> None:
    from sparklog.coordinator.http.topic_routes import offsets_of
    from sparklog.wire.topic_messages import EndOfEpoch, OffsetsRequest, WantedOffset

    log = ReplicatedLog()
    log.write("abc", 2)
    log.elect("b")
    log.elect("c")  # nothing was written in epoch 1
    log.write("abc", 3)
    wanted = tuple(WantedOffset(0, EndOfEpoch(epoch)) for epoch in range(4))  # type: ignore[arg-type]
    topic = next(iter(log.state.topics.values())).name
    reply = offsets_of(log.state, OffsetsRequest(topic, wanted), None, None)  # type: ignore[arg-type]
    # older -> the start of the next greater one; one that wrote nothing -> as the one before; latest -> LEO; else none
    assert [(each.leader_epoch, each.offset) for each in reply.offsets] == [(0, 2), (0, 2), (2, 5), (None, None)]


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("/v1/topics/tt", None, 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        (PLAN, {"topic": "tt"}, 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        (PLAN, {"topic": "t", "ranges": [{"partition": 2}]}, 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        (PLAN, {"topic": "t", "ranges": [{"partition": 0, "end": 7}]}, 400, "OFFSET_OUT_OF_RANGE"),
        (PLAN, {"topic": "t", "ranges": [{"partition": 0, "start": 4, "end": 3}]}, 400, "OFFSET_OUT_OF_RANGE"),
        (PLAN, {"topic": "t", "ranges": [{"partition": 0, "start": -1}]}, 400, "INVALID_REQUEST"),
        (PLAN, {"topic": "t", "ranges": [{"partition": 0, "strt": 1}]}, 400, "INVALID_REQUEST"),
        (PLAN, {"topic": "t", "limit": 5_001}, 400, "INVALID_REQUEST"),
        (PLAN, {"topic": "t", "limit": 10**30}, 400, "INVALID_REQUEST"),
        (PLAN, {"topic": "t", "ranges": [{"partition": 0}] * 1_001}, 400, "INVALID_REQUEST"),
        (OFFSETS, {"topic": "t", "offsets": []}, 400, "INVALID_REQUEST"),
        (OFFSETS, {"topic": "t", "offsets": [{"partition": 0, "at": {"type": "x"}}]}, 400, "INVALID_REQUEST"),
        (
            OFFSETS,
            {"topic": "t", "offsets": [{"partition": 0, "at": {"type": "time", "timestamp_ms": 0}}] * 101},
            400,
            "INVALID_REQUEST",
        ),
    ],
)
def test_what_can_not_be_answered_is_refused(cluster: Cluster, path: str, body: Any, status: int, error: str) -> None:
    assert code(ask(app(cluster), path, body)) == (status, error)


# ---- how new an answer is ---------------------------------------------------------------------------------


def test_without_a_word_the_answer_is_the_newest_and_else_no_older_than_what_was_seen(cluster: Cluster) -> None:
    follower = Follower(open_store(cluster.connection.url))
    follower.open()
    served = app(cluster, follower)
    behind = follower.head.n
    cluster.create_topic("new")
    n = cluster.connection.follower.head.n

    def names(headers: dict[str, str]) -> list[str]:
        reply = msgspec.json.decode(ask(served, TOPICS, headers=headers).body, type=TopicsReply)
        assert reply.position == follower.head.n
        return [topic.topic for topic in reply.topics]

    assert names({SEEN_HEADER: str(behind)}) == ["t"]  # it need not be newer
    assert names({SEEN_HEADER: str(n)}) == ["new", "t"]
    cluster.create_topic("newer")
    assert names({}) == ["new", "newer", "t"]


def test_a_coordinator_that_can_not_catch_up_says_so(cluster: Cluster) -> None:
    n = cluster.connection.follower.catch_up().n
    answer = ask(app(cluster), TOPICS, headers={SEEN_HEADER: str(n + 1)})
    assert code(answer) == (503, "COORDINATOR_NOT_AVAILABLE")


@pytest.mark.parametrize("seen", ["-1", "x", "", "1" * 20, "1_0"])
def test_a_position_that_is_none_is_refused(cluster: Cluster, seen: str) -> None:
    assert code(ask(app(cluster), TOPICS, headers={SEEN_HEADER: seen})) == (400, "INVALID_REQUEST")


def test_a_question_to_another_cluster_is_refused(cluster: Cluster) -> None:
    answer = ask(app(cluster), TOPICS, headers={CHAIN_HEADER: "e" * 32})
    assert code(answer) == (409, "INCONSISTENT_CLUSTER_ID")
