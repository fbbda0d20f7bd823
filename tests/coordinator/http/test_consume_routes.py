"""Records read over HTTP: what a reader finds, in bounded replies, without what is masked, and waiting for more."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import sparklog
from sparklog.chain.head import Head
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.coordinator.http import consume_routes, waiting_requests
from sparklog.coordinator.http.consume_routes import READS
from sparklog.core.access import Access, Principal, parse_right
from sparklog.core.types import Offset, OffsetRange, PartitionIndex, TopicPartition
from sparklog.log.stored_schema import HEADERS as HEADERS_TYPE
from sparklog.storage.memory import MemoryStore
from sparklog.wire.messages import JSON
from sparklog.wire.metadata_messages import SEEN_HEADER
from sparklog.wire.record_messages import MOST_HEADERS, MOST_READ, MOST_READ_BYTES, RecordHeader, RecordsReply
from tests.client.mirrored_topic import MirroredTopic
from tests.coordinator.asgi import Answer, request
from tests.coordinator.record_client import RecordClient, error, path_of, record_client, refusal
from tests.coordinator.served_coordinator import served_coordinator
from tests.kit.log import fill, new_cluster, rows
from tests.maintenance.compacted_log import COMPACTED, ROLLED
from tests.maintenance.keyed_log import KeyedLog
from tests.maintenance.maintained_log import MaintainedLog

TOPIC = path_of("orders")
RECORDS = 37


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topic orders: partition 0 has 37 records in slices of ten, partition 1 is empty."""
    with new_cluster() as cluster:
        cluster.create_topic("orders", partitions=2, config={"retention.ms": -1})
        for first in range(0, RECORDS, 10):
            fill(cluster, 0, min(10, RECORDS - first), first=first)
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Iterator[RecordClient]:
    with record_client(cluster) as client:
        yield client


@pytest.fixture
def standby(cluster: Cluster) -> Iterator[RecordClient]:
    """A client of a coordinator that does not lead, so that nothing changes what it knows."""
    with served_coordinator(cluster.connection.url, leads=False) as coordinator:
        yield RecordClient(coordinator)


def walk(client: RecordClient, topic: str = "orders", **query: Any) -> Iterator[RecordsReply]:
    """Replies one after the other, up to the high watermark."""
    offset = query.pop("offset", 0)
    for _ in range(1_000):
        reply = client.read(topic, offset=offset, **query)
        yield reply
        if reply.next == reply.high_watermark:
            return
        assert reply.next > offset
        offset = reply.next
    raise AssertionError("it never comes to the end")


def offsets(replies: Iterator[RecordsReply]) -> list[int]:
    return [record.offset for reply in replies for record in reply.records]


# ---- what is read ---------------------------------------------------------------------------------------


def test_a_record_comes_as_consume_prints_it(cluster: Cluster, client: RecordClient) -> None:
    cluster.create_topic("t", config={"retention.ms": -1})
    stamps = pa.array([1_700_000_000_123_456], pa.timestamp("us", "UTC"))
    pairs = pa.array([[{"key": "h", "value": b"x"}, {"key": "h", "value": None}]])
    cluster.append("t", pa.table({"key": ["k"], "value": ["é"], "headers": pairs, "timestamp": stamps}))
    cluster.append("t", pa.table({"value": pa.array([None, ""], pa.string())}))
    reply = client.read("t")
    state = cluster.connection.newest_state()
    assert (reply.chain_id, reply.topic, reply.topic_id) == (state.chain_id, "t", state.topic_ids["t"])
    assert (reply.position, reply.log_start, reply.high_watermark, reply.next) == (state.n, 0, 3, 3)
    first, null, empty = reply.records
    assert (first.topic, first.partition, first.offset, first.key, first.value) == ("t", 0, 0, "k", "é")
    assert (first.timestamp, first.timestamp_us) == (1_700_000_000_123, 1_700_000_000_123_456)
    assert first.headers == (RecordHeader("h", "x"), RecordHeader("h", None))
    assert (null.value, empty.value, empty.key, empty.headers) == (None, "", None, ())
    assert (reply.replaced, reply.masked) == (False, False)


@pytest.mark.parametrize("most", [1, 3, 10, 1_000])
def test_replies_lead_through_each_record_once(client: RecordClient, most: int) -> None:
    replies = list(walk(client, max_records=most))
    assert offsets(iter(replies)) == list(range(RECORDS))
    assert all(len(reply.records) == most for reply in replies[:-1])


def test_what_is_appended_can_be_read_and_appended_again(client: RecordClient) -> None:
    records = [{"key": "k", "value": "v", "headers": [{"key": "h", "value": "x"}], "timestamp": 5, "partition": 1}]
    client.append(records)
    (found,) = msgspec.json.decode(client.get(partition=1).body)["records"]
    assert {name: value for name, value in found.items() if name in records[0]} == records[0]


def test_bytes_that_are_no_text_are_replaced_and_the_reply_says_so(cluster: Cluster, client: RecordClient) -> None:
    body = b"\xff\x00a"
    headers = pa.array([[{"key": "h", "value": body}], None])
    cluster.append("orders", rows([b"x", body], 1, headers=headers))
    assert [record.value for record in client.read(partition=1, max_records=1).records] == ["x"]
    assert client.read(partition=1, max_records=1).replaced, "its header"
    text = client.read(partition=1)
    assert ([record.value for record in text.records], text.replaced) == (["x", "\ufffd\0a"], True)
    whole = client.read(partition=1, base64="true")
    assert ([base64.b64decode(record.value or "") for record in whole.records], whole.replaced) == ([b"x", body], False)
    assert whole.records[0].headers == (RecordHeader("h", base64.b64encode(body).decode()),)


def test_a_record_after_the_reply_replaces_nothing_in_it(cluster: Cluster, client: RecordClient) -> None:
    cluster.append("orders", rows([b"x", b"\xff"], 1))
    assert not client.read(partition=1, max_records=1).replaced
    assert not client.read(partition=1, max_bytes=1).replaced
    assert client.read(partition=1, offset=1).replaced


def test_a_log_that_was_compacted_is_what_a_reader_finds(cluster: Cluster, client: RecordClient) -> None:
    log = KeyedLog(MaintainedLog(cluster)).create()
    for text in (*COMPACTED, ROLLED):
        log.segment(text)
    log.compact()
    log.put("d2 A2 C1")
    wanted = [offset for offset, _, _ in log.read()]
    assert len(wanted) < wanted[-1], "there are gaps"
    for most in (1, 4, 100):
        assert offsets(walk(client, "t", max_records=most)) == wanted
    for start in range(wanted[-1] + 1):
        reply = client.read("t", offset=start, max_records=1)
        assert [record.offset for record in reply.records] == [next(each for each in wanted if each >= start)]


def test_a_long_gap_ends_a_reply_after_some_time_and_next_is_behind_it(
    cluster: Cluster, client: RecordClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume_routes, "scan", lambda *_, **__: iter(()))
    assert (client.read().next, client.read().records) == (RECORDS, ())
    monkeypatch.setattr(consume_routes, "TIME_MS", 0)
    reply = client.read(max_records=5)
    assert (reply.next, reply.records, reply.high_watermark) == (5, (), RECORDS)


def test_replies_pass_the_gaps_of_a_mirrored_topic(cluster: Cluster, client: RecordClient) -> None:
    topic = MirroredTopic(cluster, name="m").create()
    topic.append([10**12, 10**12 + 1, 10**12 + 5 * 10**8], end=10**13)
    topic.promote({0: 10**15})
    topic.append_after(["a", "b"])
    reply = client.read("m")
    assert offsets(iter([reply])) == sorted(topic.model[0])
    assert reply.next == reply.high_watermark


def test_only_records_below_the_high_watermark_are_read(standby: RecordClient) -> None:
    changed(standby, high_watermark=Offset(5))
    reply = standby.read(offset=3)
    assert ([record.offset for record in reply.records], reply.next, reply.high_watermark) == ([3, 4], 5, 5)
    assert error(standby.get(offset=6)) == (400, "OFFSET_OUT_OF_RANGE")


# ---- bounds ---------------------------------------------------------------------------------------------


def test_a_reply_has_so_many_bytes_and_at_least_one_record(cluster: Cluster, client: RecordClient) -> None:
    for most in (1, 300, 1_000, 5_000):
        replies = list(walk(client, max_bytes=most))
        assert offsets(iter(replies)) == list(range(RECORDS))
        for reply in replies:
            size = sum(len(msgspec.json.encode(record)) for record in reply.records)
            assert size <= most or len(reply.records) == 1


def test_a_record_that_no_reply_can_have_is_named_once_it_is_the_first(
    cluster: Cluster, client: RecordClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume_routes, "MOST_READ_BYTES", 1_000)
    cluster.append("orders", rows(["small", "x" * 1_000, "last"], 1))
    assert client.read(partition=1).next == 1
    answer = client.get(partition=1, offset=1)
    assert error(answer) == (400, "RECORD_TOO_LARGE")
    assert "the record at offset 1 takes" in refusal(answer).message
    assert "continue at offset 2" in refusal(answer).message
    assert client.read(partition=1, offset=2).next == 3


def test_the_largest_record_of_the_default_fits_in_a_reply_whatever_it_has(
    cluster: Cluster, client: RecordClient
) -> None:
    cluster.append("orders", rows([b"\1" * 1_048_576, b"\xff" * 1_048_576], 1))
    for form in ("true", "false"):
        replies = list(walk(client, partition=1, base64=form))
        assert offsets(iter(replies)) == [0, 1]


def test_memory_is_bounded_by_batches_and_not_by_the_topic(
    cluster: Cluster, client: RecordClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    scan = consume_routes.scan

    def counted(*given: Any, **named: Any) -> Iterator[pa.RecordBatch]:
        for batch in scan(*given, **named):
            read.append(batch.nbytes)
            yield batch

    monkeypatch.setattr(consume_routes, "scan", counted)
    for _ in range(6):
        cluster.append("orders", rows(["y" * 1_000_000] * 4, 1))
    reply = client.read(partition=1, max_bytes=1_500_000)
    assert (len(reply.records), reply.next) == (1, 1)
    assert sum(read) <= 8 << 20


def test_a_batch_that_is_too_large_is_not_read(
    cluster: Cluster, client: RecordClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume_routes, "_BATCH_BYTES", 100_000)
    cluster.append("orders", rows(["0" * 200_000], 1))
    answer = client.get(partition=1)
    assert error(answer) == (400, "RECORD_TOO_LARGE")
    assert "wanted at most 100,000 bytes" in refusal(answer).message


def empty_headers(count: int) -> list[dict[str, object]]:
    return [{"key": "", "value": b""}] * count


def test_a_record_with_very_many_headers_is_named_and_never_converted(
    cluster: Cluster, client: RecordClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = pa.array([None, empty_headers(MOST_HEADERS), empty_headers(MOST_HEADERS + 1), None], HEADERS_TYPE)
    cluster.append("orders", rows(["a", "b", "c", "d"], 1, headers=headers))
    converted: list[int] = []
    convert = consume_routes.record_rows

    def counted(records: pa.RecordBatch, *given: Any) -> list[Any]:
        converted.extend(records.column("offset").to_pylist())
        return convert(records, *given)

    monkeypatch.setattr(consume_routes, "record_rows", counted)
    reply = client.read(partition=1)
    assert ([len(record.headers) for record in reply.records], reply.next) == ([0, MOST_HEADERS], 2)
    answer = client.get(partition=1, offset=2)
    assert error(answer) == (400, "RECORD_TOO_LARGE")
    assert "the record at offset 2 has 10,001 headers" in refusal(answer).message
    assert "continue at offset 3" in refusal(answer).message
    assert [record.value for record in client.read(partition=1, offset=3).records] == ["d"]
    assert set(converted) == {0, 1, 3}


def test_few_headers_are_converted_at_once(
    cluster: Cluster, client: RecordClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = empty_headers(1_000)
    cluster.append("orders", rows(["x"] * 40, 1, headers=pa.array([each] * 40, HEADERS_TYPE)))
    converted: list[int] = []
    convert = consume_routes.record_rows

    def counted(records: pa.RecordBatch, *given: Any) -> list[Any]:
        converted.append(records.num_rows)
        return convert(records, *given)

    monkeypatch.setattr(consume_routes, "record_rows", counted)
    assert offsets(walk(client, partition=1, max_bytes=MOST_READ_BYTES)) == list(range(40))
    assert max(converted) <= 2**20 // 200_000
    converted.clear()
    assert client.read(partition=1, max_bytes=1).next == 1
    assert sum(converted) <= 2**20 // 200_000, "the rest of the batch is not converted"


@pytest.mark.parametrize(
    ("query", "status", "code", "sentence"),
    [
        ({"partition": 2}, 404, "UNKNOWN_TOPIC_OR_PARTITION", "wanted partition 2 of topic orders"),
        ({"partition": "x"}, 400, "INVALID_REQUEST", "partition: wanted a number from 0"),
        ({"offset": -1}, 400, "INVALID_REQUEST", "offset: wanted a number"),
        ({"offset": "9" * 5_000}, 400, "INVALID_REQUEST", "offset: wanted a number"),
        ({"offset": ""}, 400, "INVALID_REQUEST", "offset: wanted a number"),
        ({"offset": RECORDS + 1}, 400, "OFFSET_OUT_OF_RANGE", "the readable range is [0, 37)"),
        ({"offset": 2**63 - 1}, 400, "OFFSET_OUT_OF_RANGE", "the readable range is [0, 37)"),
        ({"max_records": 0}, 400, "INVALID_REQUEST", f"max_records: wanted a number from 1 to {MOST_READ}"),
        ({"max_records": MOST_READ + 1}, 400, "INVALID_REQUEST", "max_records: wanted a number"),
        ({"max_bytes": MOST_READ_BYTES + 1}, 400, "INVALID_REQUEST", "max_bytes: wanted a number"),
        ({"max_wait_ms": 60_001}, 400, "INVALID_REQUEST", "max_wait_ms: wanted a number from 0 to 60000"),
        ({"topic_id": 9}, 404, "UNKNOWN_TOPIC_OR_PARTITION", "wanted topic orders of id 9, found id 1: it was deleted"),
        ({"topic_id": "x"}, 400, "INVALID_REQUEST", "topic_id: wanted a number"),
        ({"max_byte": 1}, 400, "INVALID_REQUEST", "wanted a parameter of partition, offset,"),
        ({"base64": "1"}, 400, "INVALID_REQUEST", "base64: wanted true or false, found '1'"),
    ],
)
def test_bad_input_is_a_refusal(
    client: RecordClient, query: dict[str, Any], status: int, code: str, sentence: str
) -> None:
    answer = client.get(**query)
    assert error(answer) == (status, code)
    assert sentence in refusal(answer).message


def test_a_request_to_read_has_no_body(client: RecordClient) -> None:
    assert error(client.ask("GET", TOPIC, b"x")) == (400, "INVALID_REQUEST")


def test_what_retention_deleted_is_out_of_range_and_the_default_begins_after_it(
    cluster: Cluster, client: RecordClient
) -> None:
    cluster.delete_records("orders", {0: 30})
    answer = client.get(offset=29)
    assert error(answer) == (400, "OFFSET_OUT_OF_RANGE")
    assert "the readable range is [30, 37)" in refusal(answer).message
    assert client.read(max_records=1).records[0].offset == client.read().log_start == 30


def test_few_reads_run_at_once(client: RecordClient, monkeypatch: pytest.MonkeyPatch) -> None:
    hold, running = threading.Event(), []
    read = consume_routes.read_records

    def held(*given: Any, **named: Any) -> RecordsReply:
        running.append(1)
        hold.wait(60)
        return read(*given, **named)

    monkeypatch.setattr(consume_routes, "read_records", held)

    async def run() -> tuple[list[Answer], int]:
        waiting = [asyncio.create_task(client.asked("GET", TOPIC, max_records=1)) for _ in range(2 * READS)]
        while len(running) < READS:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        at_once = len(running)
        assert (await client.asked("GET", "/v1/cluster")).status == 200
        hold.set()
        return await asyncio.gather(*waiting), at_once

    answers, at_once = client.coordinator.run(run())
    assert ({answer.status for answer in answers}, at_once) == ({200}, READS)


# ---- masks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["true", "false"])
def test_masked_parts_are_in_no_reply(cluster: Cluster, form: str) -> None:
    cluster.create_topic("pay-1")
    values = ['{"card":{"number":"4111"},"lines":[{"price":12},{"price":13}],"ok":1}', "4111 as text", '"4111"', "[]"]
    headers = pa.array([[{"key": "h", "value": b"hidden"}]] * 4)
    cluster.append("pay-1", pa.table({"value": values, "key": ["secret", "b", "c", "d"], "headers": headers}))
    masks = ["pay-*:card.number", "pay-1:lines.price", "pay-*:#key", "pay-1:#headers", "orders"]
    with record_client(cluster, masks=masks) as client:

        def shown(text: str | None) -> str:
            return base64.b64decode(text or "").decode() if form == "true" else text or ""

        reply = client.read("pay-1", base64=form)
        first, *others = reply.records
        assert reply.masked
        assert msgspec.json.decode(shown(first.value)) == {
            "card": {"number": "••••"},
            "lines": [{"price": "••••"}, {"price": "••••"}],
            "ok": 1,
        }
        assert [shown(record.value) for record in others] == ["••••", "••••", "[]"]
        assert {shown(record.key) for record in reply.records} == {"••••"}
        assert {shown(record.headers[0].value) for record in reply.records} == {"••••"}
        body = client.get("pay-1", base64=form).body
        for hidden in (b"4111", b"secret", b"hidden"):
            assert hidden not in body
            assert base64.b64encode(hidden)[:5] not in body
        assert {record.value for record in client.read().records} == {"••••"}


def test_the_size_of_what_is_masked_can_not_be_found_out(cluster: Cluster) -> None:
    """Not by the number of records that fit either."""
    cluster.create_topic("short", partitions=1)
    cluster.create_topic("large", partitions=1)
    for topic, size in (("short", 1), ("large", 5_000)):
        stamps = pa.array([1_000_000] * 3, pa.timestamp("us", "UTC"))
        cluster.append(topic, pa.table({"value": ["x" * size] * 3, "timestamp": stamps}))
    with record_client(cluster, masks=["short", "large"]) as client:
        for most in (1, 300, 400, 2_000):
            assert client.read("short", max_bytes=most).next == client.read("large", max_bytes=most).next


# ---- waiting --------------------------------------------------------------------------------------------


async def waiting(client: RecordClient, leaves: asyncio.Event | None = None, **query: Any) -> asyncio.Task[Answer]:
    """A client who waits by now."""
    text = "&".join(f"{name}={value}" for name, value in ({"max_wait_ms": 30_000} | query).items())
    task = asyncio.create_task(request(client.app, "GET", TOPIC, [b""], client.headers, text, leaves))
    waits = client.coordinator.service.waits
    before = len(waits)
    async with asyncio.timeout(30):
        while len(waits) == before and not task.done():
            await asyncio.sleep(0.001)
    return task


def decoded(answer: Answer) -> RecordsReply:
    assert answer.status == 200, answer.body
    return msgspec.json.decode(answer.body, type=RecordsReply)


def test_a_client_at_the_end_waits_for_the_next_record(client: RecordClient) -> None:
    async def run() -> tuple[Answer, Answer]:
        task = await waiting(client, offset=RECORDS)
        other = await waiting(client, partition=1)
        done = await client.asked("POST", TOPIC, b'{"records":[{"value":"new","partition":0}]}')
        assert done.status == 200
        answer = await asyncio.wait_for(task, 30)
        assert not other.done()
        await client.asked("POST", TOPIC, b'{"records":[{"value":"other","partition":1}]}')
        return answer, await asyncio.wait_for(other, 30)

    of_zero, of_one = map(decoded, client.coordinator.run(run()))
    assert [(record.offset, record.value) for record in of_zero.records] == [(RECORDS, "new")]
    assert [(record.offset, record.value) for record in of_one.records] == [(0, "other")]


def test_a_wait_ends_without_a_record(client: RecordClient) -> None:
    reply = client.read(offset=RECORDS, max_wait_ms=20)
    assert (reply.records, reply.next) == ((), RECORDS)
    assert client.read(offset=RECORDS).records == ()


def test_a_right_that_is_taken_during_a_wait_ends_it(cluster: Cluster, client: RecordClient) -> None:
    rights, token = ["read:orders"], "sparklog_the-token-of-anna"

    def access() -> Access:
        anna = Principal("anna", tuple(map(parse_right, rights)))
        return Access(((anna, (hashlib.sha256(token.encode()).hexdigest(),)),))

    headers = {"authorization": f"Bearer {token}"}
    reader = RecordClient(client.coordinator, access=access, headers=headers)

    async def run() -> Answer:
        task = await waiting(reader, offset=RECORDS)
        rights[:] = ["read:others"]
        await client.asked("POST", TOPIC, b'{"records":[{"value":"secret","partition":0}]}')
        return await asyncio.wait_for(task, 30)

    answer = client.coordinator.run(run())
    assert error(answer) == (403, "TOPIC_AUTHORIZATION_FAILED")
    assert b"secret" not in answer.body


def test_a_client_with_something_to_read_does_not_wait(client: RecordClient) -> None:
    assert len(client.read(offset=RECORDS - 1, max_wait_ms=60_000).records) == 1


def test_a_client_that_leaves_waits_no_more(client: RecordClient) -> None:
    async def run() -> None:
        leaves = asyncio.Event()
        task = await waiting(client, leaves, offset=RECORDS)
        leaves.set()
        await asyncio.wait_for(task, 30)
        assert len(client.coordinator.service.waits) == 0

    client.coordinator.run(run())


def test_clients_that_wait_hold_up_no_reads_and_their_number_is_bounded(
    standby: RecordClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = standby.coordinator.service.waits

    async def run() -> Answer:
        tasks = [await waiting(standby, offset=RECORDS) for _ in range(100)]
        assert (await standby.asked("GET", TOPIC)).status == 200
        monkeypatch.setattr(waiting_requests, "MAX_WATCHED", waits.watched)
        refused = await standby.asked("GET", TOPIC, offset=RECORDS, max_wait_ms=30_000)
        waits.end_all()
        assert {answer.status for answer in await asyncio.gather(*tasks)} == {200}
        return refused

    assert error(standby.coordinator.run(run())) == (503, "COORDINATOR_NOT_AVAILABLE")


def test_a_topic_that_is_deleted_meanwhile_is_not_the_next_of_its_name(
    cluster: Cluster, client: RecordClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def again() -> None:
        cluster.delete_topic("orders")
        cluster.create_topic("orders", partitions=2)
        cluster.append("orders", rows(["of another topic"], 1))

    async def wait(*given: object) -> None:
        await asyncio.to_thread(again)

    monkeypatch.setattr(client.coordinator.service, "wait", wait)
    assert error(client.get(partition=1, max_wait_ms=1)) == (404, "UNKNOWN_TOPIC_OR_PARTITION")
    assert client.read(partition=1).records[0].value == "of another topic"


def test_a_reader_that_names_the_topic_id_reads_no_other_topic_of_the_name(
    cluster: Cluster, client: RecordClient
) -> None:
    reply = client.read(offset=RECORDS)
    assert client.read(offset=RECORDS, topic_id=reply.topic_id).next == RECORDS
    cluster.delete_topic("orders")
    cluster.create_topic("orders", partitions=2)
    fill(cluster, 0, RECORDS + 3)
    answer = client.get(offset=RECORDS, topic_id=reply.topic_id)
    assert error(answer) == (404, "UNKNOWN_TOPIC_OR_PARTITION")
    assert "it was deleted and created again" in refusal(answer).message
    assert len(client.read(offset=RECORDS).records) == 3


def test_a_standby_reads_and_waits_too(cluster: Cluster) -> None:
    url = cluster.connection.url
    with served_coordinator(url) as leader, served_coordinator(url, leads=False) as standby:
        reader, writer = RecordClient(standby), RecordClient(leader)

        async def run() -> Answer:
            task = await waiting(reader, partition=1)
            await asyncio.to_thread(writer.append, [{"value": "new", "partition": 1}])
            return await asyncio.wait_for(task, 30)

        assert [record.value for record in decoded(reader.coordinator.run(run())).records] == ["new"]


# ---- what goes wrong ------------------------------------------------------------------------------------


def changed(client: RecordClient, partition: int = 0, **changes: object) -> None:
    """Let the coordinator see another state of a partition of orders."""
    follower = client.coordinator.service.follower
    state = follower.state.fork()
    state.n += 1
    key = TopicPartition(state.topic_ids["orders"], PartitionIndex(partition))
    known = state.partitions[key]
    replication = msgspec.structs.replace(known.replication, **changes)
    state.partitions[key] = msgspec.structs.replace(known, replication=replication)
    follower.publish(Head(state, follower.head.entry_hash))


def test_records_before_lost_ones_are_read_and_then_the_loss_is_an_error(standby: RecordClient) -> None:
    changed(standby, lost=(OffsetRange(Offset(4), Offset(9)),))
    reply = standby.read()
    assert ([record.offset for record in reply.records], reply.next) == ([0, 1, 2, 3], 4)
    answer = standby.get(offset=4)
    assert error(answer) == (500, "DATA_LOSS")
    assert "records [4, 9) were lost" in refusal(answer).message
    assert "a later offset continues with the records that are left" in refusal(answer).message
    assert error(standby.get(offset=8)) == (500, "DATA_LOSS")
    assert offsets(walk(standby, offset=9)) == list(range(9, RECORDS))


def test_an_object_that_is_gone_is_an_error_after_the_records_before_it(tmp_path: Path) -> None:
    init_cluster(str(tmp_path / "log"), stores={"zone-a": "../a"})
    with sparklog.connect(str(tmp_path / "log")) as cluster:
        cluster.create_topic("orders")
        cluster.append("orders", rows(["kept"], 0))
        data = set((tmp_path / "a").rglob("*.arrow"))
        cluster.append("orders", rows(["gone"], 0))
        for path in set((tmp_path / "a").rglob("*.arrow")) - data:
            path.unlink()
        with record_client(cluster) as client:
            assert [record.value for record in client.read().records] == ["kept"]
            answer = client.get(offset=1)
            assert error(answer) == (500, "DATA_LOSS")
            assert "zone-a" in refusal(answer).message
            shutil.rmtree(tmp_path / "a")
            assert "zone-a" in refusal(client.get()).message


def test_damage_is_served_to_nobody(cluster: Cluster, client: RecordClient) -> None:
    cluster.append("orders", rows(["damaged" * 10], 1))
    store = cluster.connection.follower.store
    assert isinstance(store, MemoryStore)
    keys = [each.key for each in store.list_keys("append/") if each.key.endswith(".arrow")]
    for key in keys:
        body = bytes(store.get(key)).replace(b"damaged", b"changed")
        store.delete(key)
        store.put_if_absent(key, body)
    assert error(client.get(partition=1)) == (500, "CORRUPT_MESSAGE")


def test_objects_that_were_replaced_since_are_read_by_a_new_plan(cluster: Cluster, standby: RecordClient) -> None:
    """By a coordinator that has not seen it yet."""
    store = cluster.connection.follower.store
    replaced = [each.key for each in store.list_keys("append/") if each.key.endswith(".arrow")]
    MaintainedLog(cluster).roll()
    for key in replaced:
        store.delete(key)
    standby.headers[SEEN_HEADER] = "0"
    assert standby.read().position < cluster.connection.newest_state().n
    assert offsets(walk(standby)) == list(range(RECORDS))


def test_a_reply_with_records_is_not_stored_by_caches(client: RecordClient) -> None:
    assert client.get().headers["cache-control"] == "no-store"


def test_a_reply_is_encoded_as_the_client_wants_it(client: RecordClient) -> None:
    answer = client.coordinator.run(request(client.app, "GET", TOPIC, headers={"accept": JSON}, query="max_records=1"))
    assert msgspec.json.decode(answer.body, type=RecordsReply).next == 1
    answer = client.coordinator.run(request(client.app, "GET", TOPIC, query="max_records=1"))
    assert msgspec.msgpack.decode(answer.body, type=RecordsReply).next == 1
