"""Records appended over HTTP: routed and checked as by a client, all or none, once per sequence, in bounded memory."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.coordinator.http import produce_routes
from sparklog.coordinator.http.produce_routes import APPENDS, MOST_BODY, WAITING_APPENDS
from sparklog.coordinator.leading import record_work
from sparklog.core.access import Access, Principal, parse_right
from sparklog.core.errors import (
    Landed,
    OutcomeUnknown,
    SparklogError,
    StoreAccessDenied,
    StoreFull,
    StoreReadOnly,
    TryAgain,
    WriteLost,
)
from sparklog.core.types import EntryNumber
from sparklog.storage.local.store import LocalStore
from sparklog.wire.error_messages import error_reply
from sparklog.wire.messages import JSON, Outcome, SubmitReply
from sparklog.wire.record_messages import MOST_APPENDED, MOST_HEADERS, PRODUCERS, AppendReply
from tests.client.mirrored_topic import MirroredTopic
from tests.coordinator.asgi import Answer, request
from tests.coordinator.record_client import HEADERS, RecordClient, error, path_of, record_client, refusal
from tests.coordinator.served_coordinator import served_coordinator
from tests.kit.log import new_cluster, values

TOPIC = path_of("orders")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topic orders with three partitions, and topic compacted."""
    with new_cluster() as cluster:
        cluster.create_topic("orders", partitions=3, config={"retention.ms": -1})
        cluster.create_topic("compacted", config={"cleanup.policy": "compact"})
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Iterator[RecordClient]:
    with record_client(cluster) as client:
        yield client


def ends(cluster: Cluster, topic: str = "orders") -> list[int]:
    """The high watermark of each partition."""
    state = cluster.connection.newest_state()
    return [partition.high_watermark for partition in state.partitions_of(state.topics[state.topic_ids[topic]])]


# ---- what is appended -----------------------------------------------------------------------------------


def test_records_arrive_as_they_were_sent_and_each_has_its_offset(cluster: Cluster, client: RecordClient) -> None:
    headers = [{"key": "h", "value": "x"}, {"key": "h"}, {"key": "", "value": ""}]
    records = [
        {"key": "k", "value": "v", "headers": headers, "timestamp": 1_700_000_000_123, "partition": 1},
        {"key": None, "value": None, "partition": 1},
        {"key": "", "value": "", "partition": 0},
        {"value": "é\u0000\U0001f600", "partition": 1},
    ]
    assert client.append(records) == [(1, 0), (1, 1), (0, 0), (1, 2)]
    found = cluster.read("orders", partition=1, columns=["offset", "timestamp", "key", "value", "headers"])
    assert found["key"].to_pylist() == [b"k", None, None]
    assert found["value"].to_pylist() == [b"v", None, "é\u0000\U0001f600".encode()]
    assert found["timestamp"].cast(pa.int64()).to_pylist()[0] == 1_700_000_000_123_000
    pairs = [{"key": "h", "value": b"x"}, {"key": "h", "value": None}, {"key": "", "value": b""}]
    assert found["headers"].to_pylist() == [pairs, None, None]
    empty = cluster.read("orders", partition=0, columns=["key", "value"])
    assert (empty["key"].to_pylist(), empty["value"].to_pylist()) == ([b""], [b""])


def test_base64_carries_any_bytes(cluster: Cluster, client: RecordClient) -> None:
    body = bytes(range(256))
    text = base64.b64encode(body).decode()
    record = {"key": text, "value": text, "headers": [{"key": "h", "value": text}], "partition": 0}
    client.append([record, {"value": None, "partition": 0}], base64=True)
    found = cluster.read("orders", partition=0, columns=["key", "value", "headers"])
    assert (found["key"].to_pylist(), found["value"].to_pylist()) == ([body, None], [body, None])
    assert found["headers"].to_pylist() == [[{"key": "h", "value": body}], None]


def test_keys_choose_the_partition_of_the_client(cluster: Cluster, client: RecordClient) -> None:
    keys = [f"key-{number}" for number in range(50)]
    places = client.append([{"key": key, "value": "x"} for key in keys])
    cluster.append("orders", pa.table({"key": keys, "value": ["again"] * 50}))
    for partition in range(3):
        found = cluster.read("orders", partition=partition, columns=["key", "value"])
        own = [key.encode() for key, place in zip(keys, places, strict=True) if place[0] == partition]
        assert found["key"].to_pylist() == own * 2
    assert [[offset for at, offset in places if at == partition] for partition in range(3)] == [
        list(range(end // 2)) for end in ends(cluster)
    ]


def test_records_with_neither_key_nor_partition_share_a_partition(client: RecordClient) -> None:
    assert len({partition for partition, _ in client.append([{"value": "x"}] * 5)}) == 1
    requests = [client.append([{"value": "x"}]) for _ in range(40)]
    assert {partition for ((partition, _),) in requests} == {0, 1, 2}, "and each request chooses one"


def test_one_request_is_one_append_of_all_partitions(cluster: Cluster, client: RecordClient) -> None:
    before = cluster.connection.newest_state().n
    client.append([{"value": "x", "partition": partition} for partition in (0, 1, 2)])
    assert cluster.connection.newest_state().n == before + 1
    assert ends(cluster) == [1, 1, 1]


def test_a_reply_in_messagepack_has_the_same(client: RecordClient) -> None:
    body = msgspec.msgpack.encode({"records": [{"value": "x", "partition": 2}]})
    answer = client.coordinator.run(request(client.app, "POST", TOPIC, [body]))
    reply = msgspec.msgpack.decode(answer.body, type=AppendReply)
    assert [(each.partition, each.offset) for each in reply.records] == [(2, 0)]


def test_the_position_of_a_reply_shows_its_records(cluster: Cluster, client: RecordClient) -> None:
    reply = msgspec.json.decode(client.post([{"value": "x", "partition": 0}]).body, type=AppendReply)
    state = cluster.connection.newest_state()
    assert (reply.chain_id, reply.topic, reply.topic_id) == (state.chain_id, "orders", state.topic_ids["orders"])
    assert reply.position == state.n


# ---- bad input ------------------------------------------------------------------------------------------


def record(**fields: Any) -> dict[str, Any]:
    return {"records": [{"value": "x", "partition": 0}, {"value": "x", "partition": 1, **fields}]}


def base64_of(text: str) -> dict[str, Any]:
    return {"records": [{"value": "eA=="}, {"value": text}], "base64": True}


@pytest.mark.parametrize(
    ("body", "code", "sentence"),
    [
        ({}, "INVALID_REQUEST", "missing required field `records`"),
        ({"records": []}, "INVALID_REQUEST", "length >= 1"),
        ({"records": [{"value": "x"}] * (MOST_APPENDED + 1)}, "INVALID_REQUEST", f"length <= {MOST_APPENDED}"),
        ({"records": [{"key": "k"}]}, "INVALID_REQUEST", "missing required field `value`"),
        (record(value=5), "INVALID_REQUEST", "`$.records[1].value`"),
        (record(value={"a": 1}), "INVALID_REQUEST", "`$.records[1].value`"),
        (record(kee="k"), "INVALID_REQUEST", "unknown field `kee`"),
        (record(offset=5), "INVALID_REQUEST", "unknown field `offset`"),
        (record() | {"acks": 1}, "INVALID_REQUEST", "unknown field `acks`"),
        (record(partition=-1), "INVALID_REQUEST", "`$.records[1].partition`"),
        (record(partition=2**31), "INVALID_REQUEST", "`$.records[1].partition`"),
        (record(partition=1.5), "INVALID_REQUEST", "`$.records[1].partition`"),
        (record(partition=3), "UNKNOWN_TOPIC_OR_PARTITION", "found 3"),
        (record(timestamp=2**53 + 1), "INVALID_REQUEST", "`$.records[1].timestamp`"),
        (record(timestamp="now"), "INVALID_REQUEST", "`$.records[1].timestamp`"),
        (record(headers=[{"key": None}]), "INVALID_REQUEST", "headers[0].key"),
        (record(headers=[{"value": "x"}]), "INVALID_REQUEST", "missing required field `key`"),
        (record(headers={"a": "b"}), "INVALID_REQUEST", "`$.records[1].headers`"),
        (record(headers=[{"key": ""}] * (MOST_HEADERS + 1)), "INVALID_REQUEST", f"length <= {MOST_HEADERS}"),
        (record(value="x" * 1_048_589), "RECORD_TOO_LARGE", "max.message.bytes"),
        (record(value="x") | {"base64": True}, "INVALID_REQUEST", "records[0]: the value can't be read as base64"),
        (base64_of("eA==!"), "INVALID_REQUEST", "records[1]: the value can't be read as base64"),
        (base64_of("e A=="), "INVALID_REQUEST", "records[1]: the value can't be read as base64"),
        (base64_of("eB=="), "INVALID_REQUEST", "records[1]: the value can't be read as base64"),
        (base64_of("eA"), "INVALID_REQUEST", "records[1]: the value can't be read as base64"),
        (record() | {"base64": "yes"}, "INVALID_REQUEST", "`$.base64`"),
        (record() | {"producer": {"producer_id": 0}}, "INVALID_REQUEST", "`$.producer`"),
    ],
)  # fmt: skip
def test_bad_input_appends_nothing(cluster: Cluster, client: RecordClient, body: Any, code: str, sentence: str) -> None:
    answer = client.ask("POST", TOPIC, msgspec.json.encode(body))
    assert answer.status in (400, 404)
    assert (refusal(answer).code, refusal(answer).landed) == (code, Landed.NO)
    assert sentence in refusal(answer).message
    assert ends(cluster) == [0, 0, 0]


def test_a_body_that_is_compressed_and_unknown_parameters_are_refused(cluster: Cluster, client: RecordClient) -> None:
    body = msgspec.json.encode(record())
    coded = [HEADERS | {"content-encoding": name} for name in ("gzip", "Identity")]
    gzip, identity = (client.coordinator.run(request(client.app, "POST", TOPIC, [body], each)) for each in coded)
    assert (*error(gzip), gzip.chunks_read) == (400, "INVALID_REQUEST", 0)
    assert "wanted a body without content-encoding, found 'gzip'" in refusal(gzip).message
    assert identity.status == 200
    for path in (TOPIC, PRODUCERS):
        answer = client.ask("POST", path, body, acks=1)
        assert (*error(answer), answer.chunks_read) == (400, "INVALID_REQUEST", 0)
        assert "found 'acks'" in refusal(answer).message
    assert ends(cluster) == [1, 1, 0]


def test_a_mirrored_topic_is_refused_before_the_upload(
    cluster: Cluster, client: RecordClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce_routes, "upload_task_rows", None)
    MirroredTopic(cluster, name="mirrored").create()
    answer = client.post([{"value": "x"}], "mirrored")
    assert (*error(answer), refusal(answer).landed) == (400, "POLICY_VIOLATION", Landed.NO)
    assert "topic mirrored mirrors" in refusal(answer).message


def test_a_store_that_can_not_be_opened_is_named(cluster: Cluster, client: RecordClient) -> None:
    def no_driver(state: object) -> Any:
        raise ModuleNotFoundError("no module named gcsfs")

    stores = client.coordinator.service.stores(client.coordinator.service.follower.state)
    stores.get = no_driver  # type: ignore[method-assign]
    client.coordinator.service.stores = lambda state: stores
    answer = client.post([{"value": "x"}])
    assert (*error(answer), refusal(answer).landed) == (503, "KAFKA_STORAGE_ERROR", Landed.NO)
    assert "upload to local: ModuleNotFoundError('no module named gcsfs')" in refusal(answer).message


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"records",
        b"[" * 100_000,
        b'{"records":' + b"[" * 100_000,
        b'{"records":[{"value":' + b'{"a":' * 100_000,
        b'{"records":[{"value":"x","timestamp":' + b"9" * 100_000 + b"}]}",
        b'{"records":[{"value":"x","timestamp":1e400}]}',
        b'{"records":[{"value":"x","timestamp":NaN}]}',
        b'{"records":[{"value":"x","partition":1e0}]}',
        b'{"records":[{"value":"\\ud800"}]}',
        b'{"records":[{"value":"\xff"}]}',
        b'{"records":[{"value":"x"}]}x',
        b'\xef\xbb\xbf{"records":[{"value":"x"}]}',
    ],
    ids=lambda text: text[:30],
)
def test_hostile_json_is_a_refusal(cluster: Cluster, client: RecordClient, text: bytes) -> None:
    assert error(client.ask("POST", TOPIC, text)) == (400, "INVALID_REQUEST")
    assert ends(cluster) == [0, 0, 0]


def test_the_last_of_two_fields_of_one_name_counts(cluster: Cluster, client: RecordClient) -> None:
    text = b'{"records":[{"value":"lost"}],"records":[{"value":"a","value":"b","partition":1,"partition":0}]}'
    assert client.ask("POST", TOPIC, text).status == 200
    assert values(cluster, 0, "orders") == ["b"]
    assert ends(cluster) == [1, 0, 0]


def test_the_rules_of_the_topic_are_those_of_the_client(cluster: Cluster, client: RecordClient) -> None:
    assert error(client.post([{"value": "x"}], "compacted")) == (400, "INVALID_RECORD")
    assert client.append([{"key": "k", "value": None}], "compacted") == [(0, 0)]
    cluster.create_topic("timely", config={"message.timestamp.after.max.ms": 1_000})
    late = client.post([{"value": "x", "timestamp": 2**52}], "timely")
    assert error(late) == (400, "INVALID_RECORD")
    assert (ends(cluster, "compacted"), ends(cluster, "timely")) == ([1], [0])


def test_a_topic_that_is_not_there_is_said_before_the_body_is_read(client: RecordClient) -> None:
    answer = client.post([{"value": "x"}], "order")
    assert error(answer) == (404, "UNKNOWN_TOPIC_OR_PARTITION")
    assert "did you mean orders" in refusal(answer).message
    assert answer.chunks_read == 0


def test_a_standby_names_the_leader_and_reads_no_body(cluster: Cluster) -> None:
    url = cluster.connection.url
    with served_coordinator(url) as leader, served_coordinator(url, leads=False) as standby:
        for path in (TOPIC, PRODUCERS):
            answer = RecordClient(standby).ask("POST", path, b"{}")
            assert (*error(answer), answer.chunks_read) == (421, "NOT_CONTROLLER", 0)
            assert leader.address in refusal(answer).message


def test_a_body_that_took_long_meets_the_topic_as_it_is_then(
    cluster: Cluster, client: RecordClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    body_of = produce_routes.body_of

    async def slow(*given: Any) -> bytes:
        body = await body_of(*given)
        await asyncio.to_thread(cluster.add_partitions, "orders", 4)
        return body

    monkeypatch.setattr(produce_routes, "body_of", slow)
    assert client.append([{"value": "x", "partition": 3}]) == [(3, 0)]

    async def slower(*given: Any) -> bytes:
        body = await body_of(*given)
        await asyncio.to_thread(cluster.delete_topic, "orders")
        return body

    monkeypatch.setattr(produce_routes, "body_of", slower)
    answer = client.post([{"value": "x"}])
    assert (*error(answer), refusal(answer).landed) == (404, "UNKNOWN_TOPIC_OR_PARTITION", Landed.NO)


def writer(client: RecordClient, rights: list[str]) -> RecordClient:
    """A client with these rights, as long as they are in the list."""
    token = "sparklog_the-token-of-anna"

    def access() -> Access:
        anna = Principal("anna", tuple(map(parse_right, rights)))
        return Access(((anna, (hashlib.sha256(token.encode()).hexdigest(),)),))

    return RecordClient(client.coordinator, access=access, headers={"authorization": f"Bearer {token}"})


def test_a_right_that_is_taken_during_the_upload_is_gone(
    cluster: Cluster, client: RecordClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload, rights = produce_routes.upload_task_rows, ["write:orders"]

    def taken(*given: Any, **named: Any) -> Any:
        rights[:] = ["write:others"]
        return upload(*given, **named)

    monkeypatch.setattr(produce_routes, "upload_task_rows", taken)
    answer = writer(client, rights).post([{"value": "x"}])
    assert (*error(answer), refusal(answer).landed) == (403, "TOPIC_AUTHORIZATION_FAILED", Landed.NO)
    assert ends(cluster) == [0, 0, 0]


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_that_is_deleted_during_the_upload_is_not_found(
    cluster: Cluster, client: RecordClient, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """Also by a principal that has no other right."""
    upload = produce_routes.upload_task_rows

    def deleted(*given: Any, **named: Any) -> Any:
        written = upload(*given, **named)
        cluster.delete_topic("orders")
        if again:
            cluster.create_topic("orders", partitions=3)
        client.coordinator.service.follower.catch_up()
        return written

    monkeypatch.setattr(produce_routes, "upload_task_rows", deleted)
    answer = writer(client, ["write:orders"]).post([{"value": "x"}])
    assert (*error(answer), refusal(answer).landed) == (404, "UNKNOWN_TOPIC_OR_PARTITION", Landed.NO)


def test_a_request_for_another_cluster_is_refused(cluster: Cluster) -> None:
    with record_client(cluster, headers={"sparklog-chain": "d" * 32}) as client:
        assert error(client.post([{"value": "x"}])) == (409, "INCONSISTENT_CLUSTER_ID")
        assert error(client.ask("POST", PRODUCERS, b"{}")) == (409, "INCONSISTENT_CLUSTER_ID")
    assert ends(cluster) == [0, 0, 0]


# ---- producers ------------------------------------------------------------------------------------------


def test_a_repeat_appends_nothing_and_gets_the_same_offsets(cluster: Cluster, client: RecordClient) -> None:
    producer = client.producer()
    records = [{"value": str(number), "partition": 1} for number in range(3)]
    first = client.append(records, producer={**producer, "sequence": 0})
    client.append([{"value": "other", "partition": 1}])
    for _ in range(2):
        assert client.append(records, producer={**producer, "sequence": 0}) == first == [(1, 0), (1, 1), (1, 2)]
    assert client.append(records[:1], producer={**producer, "sequence": 3}) == [(1, 4)]
    assert client.append(records, producer={**producer, "sequence": 0}) == first
    assert values(cluster, 1, "orders") == ["0", "1", "2", "other", "0"]


def test_a_repeat_uploads_nothing(tmp_path: Path) -> None:
    """So it is answered even while the store is down."""
    init_cluster(str(tmp_path / "log"), stores={"zone-a": "../a"})
    with sparklog.connect(str(tmp_path / "log")) as cluster:
        cluster.create_topic("orders")
        with record_client(cluster) as client:
            producer, records = client.producer(), [{"value": "x", "partition": 0}] * 3
            places = client.append(records, producer={**producer, "sequence": 0})
            stored = set((tmp_path / "a").rglob("*"))
            assert client.append(records, producer={**producer, "sequence": 0}) == places
            assert set((tmp_path / "a").rglob("*")) == stored
            shutil.rmtree(tmp_path / "a")
            assert client.append(records, producer={**producer, "sequence": 0}) == places
            assert error(client.post(records, producer={**producer, "sequence": 3})) == (503, "KAFKA_STORAGE_ERROR")
            longer = client.post(records * 2, producer={**producer, "sequence": 0})
            assert error(longer) == (503, "KAFKA_STORAGE_ERROR"), "it is no exact repeat"
        assert ends(cluster) == [3]


def test_each_partition_counts_for_itself(client: RecordClient) -> None:
    producer = client.producer()
    for partition in range(3):
        place = client.append([{"value": "x", "partition": partition}], producer={**producer, "sequence": 0})
        assert place == [(partition, 0)]


@pytest.mark.parametrize("partitions", [(0, 1), (0, None), (None, None)])
def test_a_request_with_a_sequence_names_one_partition(
    cluster: Cluster, client: RecordClient, partitions: tuple[int | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = client.producer()
    monkeypatch.setattr(produce_routes, "upload_task_rows", None)
    records = [{"key": "k", "value": "x", "partition": partition} for partition in partitions]
    answer = client.post(records, producer={**producer, "sequence": 0})
    assert error(answer) == (400, "INVALID_REQUEST")
    assert "wanted the same partition in each record" in refusal(answer).message
    assert ends(cluster) == [0, 0, 0]


def test_gaps_old_epochs_and_unknown_producers_are_refused(cluster: Cluster, client: RecordClient) -> None:
    producer = client.producer()
    records = [{"value": "x", "partition": 0}] * 2
    client.append(records, producer={**producer, "sequence": 0})
    wrong = [(3, 409), (1, 409), (2**31 - 1, 409)]
    for sequence, status in wrong:
        answer = client.post(records, producer={**producer, "sequence": sequence})
        assert error(answer) == (status, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    newer = client.producer(producer_id=producer["producer_id"])
    assert newer == {"producer_id": producer["producer_id"], "producer_epoch": 1}
    old = client.post(records, producer={**producer, "sequence": 2})
    assert error(old) == (409, "INVALID_PRODUCER_EPOCH")
    unknown = client.post(records, producer={"producer_id": 99, "producer_epoch": 0, "sequence": 0})
    assert error(unknown) == (404, "UNKNOWN_PRODUCER_ID")
    assert error(client.ask("POST", PRODUCERS, b'{"producer_id":99}')) == (404, "UNKNOWN_PRODUCER_ID")
    assert client.append(records, producer={**newer, "sequence": 0}) == [(0, 2), (0, 3)]
    assert ends(cluster) == [4, 0, 0]


def test_a_producer_that_lost_records_is_not_told_to_try_again(
    client: RecordClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*given: Any) -> SubmitReply:
        return SubmitReply(EntryNumber(5), (Outcome(error=error_reply(WriteLost("begin the next epoch"))),))

    monkeypatch.setattr(produce_routes, "submit_for", lost)
    answer = client.post([{"value": "x"}])
    assert error(answer) == (503, "WRITE_LOST")
    assert (refusal(answer).retriable, refusal(answer).landed) == (False, Landed.NO)


def test_a_repeat_at_the_next_leader_gets_the_same_offsets(cluster: Cluster) -> None:
    url, records = cluster.connection.url, [{"value": "x", "partition": 0}] * 3
    with served_coordinator(url) as first:
        client = RecordClient(first)
        sequence = {**client.producer(), "sequence": 0}
        places = client.append(records, producer=sequence)
    with served_coordinator(url) as second:
        assert second.service.follower.state.coordinator.epoch == 2
        client = RecordClient(second)
        assert client.append(records, producer=sequence) == places
        assert client.append(records, producer={**sequence, "sequence": 3}) == [(0, 3), (0, 4), (0, 5)]
    assert ends(cluster) == [6, 0, 0]


# ---- what goes wrong ------------------------------------------------------------------------------------


def test_an_unknown_outcome_says_so_and_is_not_tried_again(
    cluster: Cluster, client: RecordClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit_for, submitted = produce_routes.submit_for, []

    async def lost(*arguments: Any) -> Any:
        submitted.append(await submit_for(*arguments))
        raise OutcomeUnknown("no reply came", landed=Landed.UNKNOWN)

    monkeypatch.setattr(produce_routes, "submit_for", lost)
    answer = client.post([{"value": "x", "partition": 0}])
    assert (answer.status, refusal(answer).code, refusal(answer).landed) == (
        500,
        "COMMIT_OUTCOME_UNKNOWN",
        Landed.UNKNOWN,
    )
    assert (len(submitted), ends(cluster)) == (1, [1, 0, 0])


def test_a_failure_of_the_coordinator_itself_may_have_landed(
    client: RecordClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(produce_routes, "appended_records", broken)
    answer = client.post([{"value": "x"}])
    assert (*error(answer), refusal(answer).landed) == (500, "COMMIT_OUTCOME_UNKNOWN", Landed.UNKNOWN)


def test_a_store_that_is_gone_is_named_with_its_code(tmp_path: Path) -> None:
    init_cluster(str(tmp_path / "log"), stores={"zone-a": "../a"})
    with sparklog.connect(str(tmp_path / "log")) as cluster:
        cluster.create_topic("orders")
        shutil.rmtree(tmp_path / "a")
        with record_client(cluster) as client:
            answer = client.post([{"value": "x"}])
            assert (*error(answer), refusal(answer).retriable) == (503, "KAFKA_STORAGE_ERROR", True)
            assert "zone-a" in refusal(answer).message
            assert refusal(answer).landed is Landed.NO


def test_a_store_that_refuses_is_named_with_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    init_cluster(str(tmp_path / "log"), stores={"zone-a": "../a"})
    with sparklog.connect(str(tmp_path / "log")) as cluster:
        cluster.create_topic("orders")
        with record_client(cluster) as client:
            upload = LocalStore.upload

            def denied(store: LocalStore, key: str) -> Any:
                if key.endswith(".arrow"):
                    raise StoreAccessDenied(f"{store.url}: this process may not write {key}")
                return upload(store, key)

            monkeypatch.setattr(LocalStore, "upload", denied)
            answer = client.post([{"value": "x"}])
            assert error(answer)[1] == "STORE_ACCESS_DENIED"
            assert "zone-a" in refusal(answer).message
            assert f"{tmp_path}/a" in refusal(answer).message
            assert refusal(answer).landed is Landed.NO
        assert ends(cluster) == [0]


@pytest.mark.parametrize("kind", [StoreFull, StoreReadOnly, StoreAccessDenied, TryAgain])
def test_errors_that_an_operator_can_mend_keep_their_code(
    client: RecordClient, monkeypatch: pytest.MonkeyPatch, kind: type[SparklogError]
) -> None:
    def fail(*given: Any, **named: Any) -> Any:
        raise kind("no more of it")

    monkeypatch.setattr(produce_routes, "upload_task_rows", fail)
    answer = client.post([{"value": "x"}])
    assert (refusal(answer).code, refusal(answer).landed) == (kind.code, Landed.NO)
    assert refusal(answer).message == "upload to local: no more of it"


def test_a_store_that_fails_leaves_the_isr_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    init_cluster(str(tmp_path / "log"), stores={"a": "../a", "b": "../b"}, config={"min.insync.replicas": 1})
    with sparklog.connect(str(tmp_path / "log")) as cluster:
        cluster.create_topic("orders", replication_factor=2)
        shutil.rmtree(tmp_path / "b")
        with record_client(cluster) as client:
            assert client.append([{"value": "x"}]) == [(0, 0)]
        assert cluster.describe("orders").partitions[0].isr == ("a",)
        assert "store b did not take the write" in caplog.text


def test_a_store_that_hangs_is_left_out_after_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"min.insync.replicas": 1, "replica.lag.time.max.ms": 2_000}
    init_cluster(str(tmp_path / "log"), stores={"a": "../a", "b": "../b"}, config=config)
    hold, upload = threading.Event(), LocalStore.upload

    def hanging(store: LocalStore, key: str) -> Any:
        if store.url.endswith("/b"):
            hold.wait(60)
        return upload(store, key)

    monkeypatch.setattr(LocalStore, "upload", hanging)
    monkeypatch.setattr(record_work, "PATIENCE_MS", 1_500)
    with sparklog.connect(str(tmp_path / "log")) as cluster:
        cluster.create_topic("orders", replication_factor=2)
        with record_client(cluster) as client:
            assert client.append([{"value": "x"}]) == [(0, 0)]
            hold.set()
        assert cluster.describe("orders").partitions[0].isr == ("a",)


# ---- bounds ---------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_refused_before_it_is_parsed(
    client: RecordClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce_routes, "uploaded_append", None)
    announced = request(client.app, "POST", TOPIC, [b"x"] * 3, HEADERS | {"content-length": str(MOST_BODY + 1)})
    answer = client.coordinator.run(announced)
    assert (*error(answer), answer.chunks_read) == (400, "INVALID_REQUEST", 0)
    chunks = [b" " * 2**20] * 8
    answer = client.coordinator.run(request(client.app, "POST", TOPIC, chunks, HEADERS))
    assert (*error(answer), answer.chunks_read) == (400, "INVALID_REQUEST", 3)
    assert "a request has at most 2.0 MiB" in refusal(answer).message


def test_bodies_count_until_they_are_uploaded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    hold = threading.Event()
    upload = produce_routes.upload_task_rows

    def held(*arguments: Any, **named: Any) -> Any:
        hold.wait(60)
        return upload(*arguments, **named)

    monkeypatch.setattr(produce_routes, "upload_task_rows", held)
    monkeypatch.setattr(produce_routes, "MOST_BODIES", 2_500_000)
    large = json.dumps({"records": [{"value": "x" * 1_000_000, "partition": 0}]}).encode()
    with record_client(cluster) as client:

        async def run() -> tuple[list[Answer], Answer, Answer]:
            waiting = [asyncio.create_task(client.asked("POST", TOPIC, large)) for _ in range(2)]
            await asyncio.sleep(0.2)
            refused = await client.asked("POST", TOPIC, large)
            small = asyncio.create_task(client.asked("POST", TOPIC, b'{"records":[{"value":"small","partition":1}]}'))
            await asyncio.sleep(0.1)
            hold.set()
            return await asyncio.gather(*waiting), refused, await small

        done, refused, small = client.coordinator.run(run())
        assert [answer.status for answer in (*done, small)] == [200] * 3
        assert error(refused) == (503, "COORDINATOR_NOT_AVAILABLE")
        assert client.ask("POST", TOPIC, large).status == 200, "the bodies before it count no more"
    assert ends(cluster) == [3, 1, 0]


def test_few_appends_run_at_once_and_so_many_wait(client: RecordClient, monkeypatch: pytest.MonkeyPatch) -> None:
    hold, running = threading.Event(), []
    upload = produce_routes.upload_task_rows

    def held(*arguments: Any, **named: Any) -> Any:
        running.append(1)
        hold.wait(60)
        return upload(*arguments, **named)

    monkeypatch.setattr(produce_routes, "upload_task_rows", held)
    body = b'{"records":[{"value":"x","partition":0}]}'

    async def run() -> tuple[list[Answer], int]:
        many = APPENDS + WAITING_APPENDS + 5
        waiting = [asyncio.create_task(client.asked("POST", TOPIC, body)) for _ in range(many)]
        while sum(each.done() for each in waiting) < 5:
            await asyncio.sleep(0.01)
        at_once = len(running)
        hold.set()
        return await asyncio.gather(*waiting), at_once

    monkeypatch.setattr(client.coordinator.service.control, "queued_max", 500)
    answers, at_once = client.coordinator.run(run())
    statuses = sorted(answer.status for answer in answers)
    assert statuses == [200] * (APPENDS + WAITING_APPENDS) + [503] * 5
    assert at_once <= APPENDS


def test_commits_do_not_wait_for_an_upload(
    cluster: Cluster, client: RecordClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = threading.Event()
    upload = produce_routes.upload_task_rows

    def held(*arguments: Any, **named: Any) -> Any:
        hold.wait(60)
        return upload(*arguments, **named)

    monkeypatch.setattr(produce_routes, "upload_task_rows", held)

    async def run() -> Answer:
        waiting = asyncio.create_task(client.asked("POST", TOPIC, b'{"records":[{"value":"x","partition":0}]}'))
        await asyncio.sleep(0.1)
        producers = await client.asked("POST", PRODUCERS, b"{}")
        assert (producers.status, waiting.done()) == (200, False)
        hold.set()
        return await waiting

    assert client.coordinator.run(run()).status == 200


def test_the_content_type_of_a_form_is_no_json(client: RecordClient) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded", "accept": JSON}
    answer = client.coordinator.run(request(client.app, "POST", TOPIC, [b'{"records":[{"value":"x"}]}'], headers))
    assert error(answer) == (400, "INVALID_REQUEST")
