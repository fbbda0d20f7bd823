"""Records over HTTP: each right on each topic, for each route; a refusal reads no body, tells nothing, is audited."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from sparklog.client.cluster import Cluster
from sparklog.core.access import Access, Principal, Verb, parse_right
from sparklog.wire.record_messages import PRODUCERS
from tests.coordinator.asgi import Answer
from tests.coordinator.record_client import RecordClient, error, path_of, refusal
from tests.coordinator.served_coordinator import ServedCoordinator, served_coordinator
from tests.kit.log import new_cluster

TOKEN = "sparklog_the-token-of-anna"
TOPICS = ("orders", "orders-eu", "returns", "orders-gone")  # the last one is not there
PATTERNS = ("orders", "orders-*", "returns", "*")
APPEND = msgspec.json.encode({"records": [{"value": "x"}]})


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with new_cluster() as cluster:
        for topic in TOPICS[:-1]:
            cluster.create_topic(topic)
        yield cluster


@pytest.fixture(scope="module")
def coordinator(cluster: Cluster) -> Iterator[ServedCoordinator]:
    with served_coordinator(cluster.connection.url) as coordinator:
        yield coordinator


def client_with(coordinator: ServedCoordinator, *rights: str) -> RecordClient:
    anna = Principal("anna", tuple(map(parse_right, rights)))
    access = Access(((anna, (hashlib.sha256(TOKEN.encode()).hexdigest(),)),))
    return RecordClient(coordinator, access=lambda: access, headers={"authorization": f"Bearer {TOKEN}"})


def asked(client: RecordClient, method: str, topic: str) -> Answer:
    return client.ask(method, path_of(topic), APPEND if method == "POST" else b"")


def audited(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(each.getMessage()) for each in caplog.records if each.name == "sparklog.audit"]


@pytest.mark.parametrize("verb", Verb)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_route_needs_its_right_on_the_topic(
    coordinator: ServedCoordinator, verb: Verb, pattern: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "sparklog.audit")
    right = parse_right(f"{verb}:{pattern}")
    client = client_with(coordinator, str(right))
    for method, needed in (("POST", Verb.WRITE), ("GET", Verb.READ)):
        for topic in TOPICS:
            caplog.clear()
            answer = asked(client, method, topic)
            if verb is not needed or not right.covers(needed, topic):
                assert error(answer) == (403, "TOPIC_AUTHORIZATION_FAILED")
                assert answer.chunks_read == 0
                (line,) = audited(caplog)
                assert (line["principal"], line["request"]) == ("anna", f"{method} {path_of(topic)}")
                assert line["error"] == "TOPIC_AUTHORIZATION_FAILED"
            else:
                assert answer.status == (404 if topic == "orders-gone" else 200), answer.body
                kinds = [(line["principal"], line["verb"], line["topics"], line["kind"]) for line in audited(caplog)]
                assert kinds == [("anna", "write", [topic], "append")] * (method == "POST" and answer.status == 200)
    answer = client.ask("POST", PRODUCERS, b"{}")
    assert answer.status == (200 if verb is Verb.WRITE else 403)


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_refusal_does_not_tell_whether_the_topic_is_there(coordinator: ServedCoordinator, method: str) -> None:
    client = client_with(coordinator, "write:returns", "read:returns")
    there, gone = (asked(client, method, topic) for topic in ("orders-eu", "orders-xx"))
    assert there.status == gone.status == 403
    assert there.headers == gone.headers
    assert there.body.replace(b"orders-eu", b"orders-xx") == gone.body


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_an_unknown_topic_is_compared_with_visible_ones_only(coordinator: ServedCoordinator, method: str) -> None:
    client = client_with(coordinator, "write:order", "read:order", "describe:returns")
    message = refusal(asked(client, method, "order")).message
    assert message == "wanted topic 'order', the cluster has returns"


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_without_a_token_nothing_is_read(coordinator: ServedCoordinator, method: str) -> None:
    client = client_with(coordinator, "write:*", "read:*")
    client.headers = client.headers | {"authorization": "Bearer other"}
    for topic in TOPICS:
        answer = asked(client, method, topic)
        assert (*error(answer), answer.chunks_read) == (401, "SASL_AUTHENTICATION_FAILED", 0)


def test_a_producer_of_others_is_neither_used_nor_fenced(coordinator: ServedCoordinator) -> None:
    of_orders, of_returns = client_with(coordinator, "write:orders"), client_with(coordinator, "write:returns")
    sequence = {**of_orders.producer(), "sequence": 0}
    of_orders.append([{"value": "x", "partition": 0}], producer=sequence)
    answer = of_returns.post([{"value": "x", "partition": 0}], "returns", producer=sequence)
    assert error(answer) == (403, "TOPIC_AUTHORIZATION_FAILED")
    fenced = of_returns.ask("POST", PRODUCERS, msgspec.json.encode({"producer_id": sequence["producer_id"]}))
    assert error(fenced) == (403, "TOPIC_AUTHORIZATION_FAILED")
    assert of_orders.producer(producer_id=sequence["producer_id"])["producer_epoch"] == 1


def test_no_line_of_the_audit_has_a_record(coordinator: ServedCoordinator, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "sparklog.audit")
    client = client_with(coordinator, "write:orders")
    client.append([{"key": "a-secret-key", "value": "a-secret-value"}])
    (line,) = audited(caplog)
    assert "secret" not in json.dumps(line)
    assert line["entry"] == coordinator.service.follower.state.n
