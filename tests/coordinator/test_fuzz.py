"""Requests made from the description of the HTTP interface, right ones and wrong ones: no failure inside, no trace."""

from __future__ import annotations

import gc
import json
import re
import tracemalloc
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.core import NotSet
from schemathesis.generation import GenerationMode

from sparklog.coordinator.http.openapi import OPENAPI
from sparklog.wire.error_messages import ErrorReply
from sparklog.wire.messages import JSON
from sparklog.wire.metadata_messages import CHAIN_HEADER
from tests.chain.chain_kit import new_chain
from tests.coordinator.asgi import Answer, request
from tests.coordinator.served_coordinator import ServedCoordinator, served_coordinator

REQUESTS = 250
# Of a campaign: rounds, each of so many requests (Hypothesis keeps in memory what a round has tried), and what may be
# kept of those after the first WARM rounds. What the makers of requests keep for themselves is not counted.
ROUNDS, ROUND_REQUESTS, WARM, GROWTH_BYTES = 10, 1_000, 2, 2 << 20
MAKERS = [tracemalloc.Filter(False, f"*/site-packages/{name}/*") for name in ("hypothesis", "schemathesis")]
CHAIN_ID = "c" * 32

# Values that decoders and number types have trouble with, as JSON texts.
NASTY = [text.encode() for text in (
    "-1", "0", "1e309", "-0.0", "NaN", "Infinity", "1" + "0" * 400, str(2**63), str(-(2**63) - 1), str(2**64),
    '"\\ud800"', '"\\u0000"', '"' + "x" * 300 + '"', "null", "true", "[]", "{}", "[" * 600 + "]" * 600, '{"a":1,"a":2}',
    "", "\ufeff1",
)] + [b'"\xff"']  # fmt: skip


@dataclass
class Fuzzed:
    """A coordinator that leads, its description, and what came back so far."""

    coordinator: ServedCoordinator
    document: dict[str, Any]
    statuses: dict[tuple[str, int], int] = field(default_factory=dict)

    def send(self, method: str, path: str, template: str, query: str, headers: dict[str, str], body: bytes) -> None:
        """Send it, and check the reply."""
        follower = self.coordinator.service.follower
        before = follower.head
        answer = self.coordinator.run(request(self.coordinator.app, method, path, [body], headers, query))
        key = (f"{method} {template}", answer.status)
        self.statuses[key] = self.statuses.get(key, 0) + 1
        documented = {int(status) for status in self.document["paths"][template][method.lower()]["responses"]}
        assert answer.status in documented - {500}, (answer.status, answer.body[:500])
        if answer.status >= 400:
            self._check_refusal(answer)
            for entry in follower.entries(range(before.n + 1, follower.head.n + 1)):  # the coordinator's own evictions
                assert not any(command.command_id.encode() in body for command in entry.commands)

    def _check_refusal(self, answer: Answer) -> None:
        assert answer.headers["content-type"] == JSON
        error = msgspec.json.decode(answer.body, type=ErrorReply)
        assert (error.code != "", error.landed) == (True, "no")


@pytest.fixture
def fuzzed() -> Iterator[Fuzzed]:
    chain = new_chain()
    with served_coordinator(chain.store.url) as coordinator:
        answer = coordinator.run(request(coordinator.app, "GET", OPENAPI))
        document = msgspec.json.decode(answer.body)
        for of in document["paths"].values():
            for operation in of.values():
                operation.get("requestBody", {}).get("content", {}).pop("application/msgpack", None)
        yield Fuzzed(coordinator, document)


def cases(document: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Requests to all operations, right and wrong ones; most often right commands, of which there are so many kinds."""
    schema = schemathesis.openapi.from_dict(document)
    operations = [found.ok() for found in schema.get_all_operations()]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    strategies = [operation.as_strategy(generation_mode=mode) for operation in operations for mode in modes]
    commands = next(operation for operation in operations if operation.path.endswith("/submit"))
    return st.one_of(*strategies, *[commands.as_strategy(generation_mode=GenerationMode.POSITIVE) for _ in range(3)])


def _fitting(sent: Any) -> Any:
    """A command of a request, if it is one, under an id of its own."""
    if not isinstance(sent, dict) or not isinstance(sent.get("submission"), dict):
        return sent
    own = {"command_id": uuid.uuid4().hex, "n0": 1, "in_doubt": False}
    return {"submission": sent["submission"] | own, "timeout_ms": 1_000}


def in_json(case: Any, nasty: bytes | None, *, fits: bool) -> bytes:
    """The body. If it fits, it names the cluster and the topic that are there. `nasty` replaces one value."""
    body = case.body
    if isinstance(body, dict) and fits:
        body = {
            key: {"chain_id": CHAIN_ID, "topic": "orders", "seen": 1}.get(key, value) for key, value in body.items()
        }
        if isinstance(body.get("commands"), list):
            body["commands"] = [_fitting(sent) for sent in body["commands"][:3]]
    if isinstance(body, dict) and "wanted" in body:
        nasty, body = None, {**body, "max_wait_ms": 1}  # nothing comes that it could wait for
    if isinstance(body, NotSet):
        return b""
    if isinstance(body, bytes):
        return body
    if nasty is None or not isinstance(body, dict) or not body:
        return json.dumps(body, default=str).encode()
    name = sorted(body)[len(nasty) % len(body)]
    parts = [
        json.dumps(key).encode() + b":" + (nasty if key == name else json.dumps(body[key], default=str).encode())
        for key in body
    ]
    return b"{" + b",".join(parts) + b"}"


# M: N-04
@pytest.mark.timeout(3_600)
def test_no_request_fails_inside_or_leaves_a_trace_when_it_is_refused(
    fuzzed: Fuzzed, request: pytest.FixtureRequest
) -> None:
    campaign = request.config.getoption("--campaign")
    rounds, requests_of_round = (ROUNDS, ROUND_REQUESTS) if campaign else (1, REQUESTS)
    sizes = []
    if campaign:
        tracemalloc.start()
    try:
        for number in range(rounds):
            send_round(fuzzed, 20261122 + number, requests_of_round)
            if campaign:
                sizes.append(kept_bytes())
    finally:
        tracemalloc.stop()
    for (operation, status), count in sorted(fuzzed.statuses.items()):
        print(f"{operation} {status}: {count}")
    print("bytes kept after each round:", *(f"{size:,}" for size in sizes))
    # Which requests fit is up to Hypothesis, which also takes values from whatever modules this process has imported.
    answered = {operation for operation, status in fuzzed.statuses if status < 300}
    assert "POST /v1/submit" in answered
    assert len(answered) > 3
    assert not campaign or sizes[-1] < sizes[WARM - 1] + GROWTH_BYTES


def kept_bytes() -> int:
    """What is in memory now, but for what the makers of requests keep."""
    gc.collect()
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(MAKERS).traces)


def send_round(fuzzed: Fuzzed, first: int, count: int) -> None:
    """Send `count` requests, made from the seed `first`."""

    @seed(first)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(fuzzed.document), st.none() | st.sampled_from(NASTY), st.booleans())
    def send(case: Any, nasty: bytes | None, fits: bool) -> None:
        prepared = case.as_transport_kwargs(base_url="http://coordinator")
        made = requests.Request(prepared["method"], prepared["url"], params=prepared.get("params")).prepare()
        path, _, query = (made.path_url or "/").partition("?")
        query = re.sub(r"\bmax_wait_ms=\d+", "max_wait_ms=1", query)  # nothing comes that it could wait for
        headers = {str(k): str(v) for k, v in (case.headers or {}).items()}
        headers = {k.lower(): v.encode("latin-1", "replace").decode("latin-1") for k, v in headers.items()}
        if fits:
            headers = {CHAIN_HEADER: CHAIN_ID}
            path = path if "{name}" not in case.operation.path else case.operation.path.replace("{name}", "orders")
        headers |= {"accept": JSON, "content-type": JSON}
        fuzzed.send(prepared["method"], path, case.operation.path, query, headers, in_json(case, nasty, fits=fits))

    send()
