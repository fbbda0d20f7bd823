"""The gate of a coordinator: every route, every command, every right; what is refused is refused unread, and noted."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sparklog.chain.commit.committer import new_command_id
from sparklog.coordinator.access import gate as gate_module
from sparklog.coordinator.access.gate import Gate
from sparklog.coordinator.http.app import app_of
from sparklog.coordinator.http.endpoint import Openness
from sparklog.coordinator.http.openapi import OPENAPI
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.page.records.record_routes import MESSAGES
from sparklog.core.access import Access, Need, Principal, Verb, parse_right
from sparklog.core.commands import Command, CreateTopic, Submission
from sparklog.core.purgatory import ReplicaNews
from sparklog.core.types import EntryNumber, StoreId
from sparklog.storage.keys import entry_key
from sparklog.wire.error_messages import ErrorReply
from sparklog.wire.messages import (
    CLUSTER,
    HEARTBEAT,
    MEMBER_HEARTBEAT,
    SUBMIT,
    WAIT,
    Heartbeat,
    MemberHeartbeat,
    SubmitReply,
    SubmitRequest,
    SubmittedCommand,
    WaitRequest,
)
from sparklog.wire.record_messages import PRODUCERS, ProducerRequest
from tests.chain.chain_kit import TIMEOUT_MS, Member, new_chain
from tests.coordinator.asgi import Answer, request
from tests.coordinator.http.test_app import error_in, served
from tests.core.every_command import OF_NO_TOPIC, ORDERS, of_topic

T = TypeVar("T")
TOKEN = "sparklog_the-token-of-anna"
POSTED = (SUBMIT, HEARTBEAT, MEMBER_HEARTBEAT, WAIT, PRODUCERS)


def access(*rights: str, token: str = TOKEN) -> Access:
    anna = Principal("anna", tuple(map(parse_right, rights)))
    return Access(((anna, (hashlib.sha256(token.encode()).hexdigest(),)),))


def bearer(token: str = TOKEN) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
def chain() -> Member:
    return new_chain()


def with_access(
    chain: Member, rights: Access, work: Callable[[Service, Starlette], Awaitable[T]], *, leads: bool = True
) -> T:
    """Run `work` against a coordinator with this access file."""
    return served(chain, lambda service, _: work(service, app_of(service, lambda: rights)), leads=leads)


def submit_body(chain: Member, command: Command, *, in_doubt: bool = False) -> bytes:
    n = EntryNumber(chain.follower.head.n)
    sent = SubmittedCommand(Submission(new_command_id(), n, command, in_doubt), TIMEOUT_MS)
    return msgspec.msgpack.encode(SubmitRequest(chain.follower.state.chain_id, n, (sent,)))


def error_of(answer: Answer) -> ErrorReply | None:
    """The error of a request, or of the only command in it."""
    if answer.status != 200:
        return error_in(answer)
    (outcome,) = msgspec.msgpack.decode(answer.body, type=SubmitReply).outcomes
    return outcome.error


def is_refused(error: ErrorReply | None) -> bool:
    return error is not None and error.code.endswith("_AUTHORIZATION_FAILED")


def audited(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(each.getMessage()) for each in caplog.records if each.name == "sparklog.audit"]


async def _needs(service: Service, app: Starlette) -> dict[str, Need | Openness | None]:
    """What each route needs, by its path."""
    return {getattr(route, "path", ""): getattr(route, "needs", None) for route in app.routes}


async def _for_people(service: Service, app: Starlette) -> set[str]:
    return {getattr(route, "path", "") for route in app.routes if getattr(route, "for_people", False)}


NEEDS = served(new_chain(), _needs, leads=False)
FOR_PEOPLE = served(new_chain(), _for_people, leads=False)


# ---- routes -------------------------------------------------------------------------------------------


def test_every_route_states_what_it_needs_and_few_are_open() -> None:
    assert not [path for path, need in NEEDS.items() if need is None]
    assert {path for path, need in NEEDS.items() if need is Openness.EVERYBODY} == {"/healthz", "/readyz"}
    unguarded = {CLUSTER, OPENAPI}
    assert {path for path, need in NEEDS.items() if need is Openness.EVERY_PRINCIPAL} == unguarded


def test_routes_of_one_path_need_the_same(chain: Member) -> None:
    """The gate takes the first route of a path, whatever its method is."""

    async def all_needs(service: Service, app: Starlette) -> set[tuple[str, object]]:
        return {(getattr(route, "path", ""), getattr(route, "needs", None)) for route in app.routes}

    assert dict(served(chain, all_needs, leads=False)) == NEEDS
    assert len(served(chain, all_needs, leads=False)) == len(NEEDS)


# M: N-05
@pytest.mark.parametrize("path", NEEDS)
def test_every_route_but_those_for_probes_asks_for_a_token(chain: Member, path: str) -> None:
    is_open = NEEDS[path] is Openness.EVERYBODY
    wrong: list[dict[str, str]] = [
        {},
        bearer("wrong"),
        bearer(""),
        bearer(TOKEN + "x"),
        bearer(TOKEN[:-1]),
        bearer(TOKEN.upper()),
        bearer("x" * 100_000),
        bearer(f"{TOKEN} {TOKEN}"),
        {"authorization": TOKEN},
        {"authorization": f"Basic {TOKEN}"},
        {"cookie": f"token={TOKEN}"},
        {"x-token": TOKEN},
    ]

    async def work(service: Service, app: Starlette) -> list[Answer]:
        method = "POST" if path in POSTED else "GET"
        return [await request(app, method, path, [b"x" * 10], headers) for headers in wrong]

    for answer in with_access(chain, access("alter:*", "maintain:*"), work):
        assert (answer.status == 401) is not is_open
        if not is_open:
            code = answer.body.decode().partition(":")[0] if path in FOR_PEOPLE else error_in(answer).code
            assert (code, answer.chunks_read) == ("SASL_AUTHENTICATION_FAILED", 0)
            assert answer.headers["www-authenticate"].startswith("Basic " if path in FOR_PEOPLE else "Bearer")
            assert TOKEN.encode() not in answer.body


def basic(text: str) -> dict[str, str]:
    return {"authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


def test_a_browser_sends_the_token_as_a_password_to_the_pages_and_to_nothing_else(chain: Member) -> None:
    def path_of(route: str) -> str:
        return (
            route.replace("{name}", "orders")
            .replace("{name:path}", "none")
            .replace("{file}", "page.js")
            .replace("{action}", "plan-job")
            .replace("{key:path}", "log/0/0")
        )

    async def work(service: Service, app: Starlette) -> dict[str, int]:
        statuses = {}
        for path in NEEDS:
            method = "POST" if path in POSTED else "GET"
            statuses[path] = (await request(app, method, path_of(path), [b""], basic(f"anna:{TOKEN}"))).status
        return statuses

    statuses = with_access(chain, access("describe:*"), work)
    topics, groups = {"/topics", "/topics/{name}", MESSAGES}, {"/groups", "/groups/{name:path}"}
    assert FOR_PEOPLE == {"/", *topics, *groups, "/stores", "/chain", "/jobs", "/page/{file}", "/actions/{action}"}
    assert {path for path, status in statuses.items() if status != 401} == FOR_PEOPLE | {"/healthz", "/readyz"}
    assert statuses.pop(MESSAGES) == 403, "who may describe topics can't read their records"
    assert statuses.pop("/groups/{name:path}") == 404
    assert {statuses[path] for path in FOR_PEOPLE & statuses.keys()} == {200}


@pytest.mark.parametrize(
    "headers",
    [
        basic("anna:wrong"),
        basic(f"{TOKEN}:"),
        basic(TOKEN),
        basic(":"),
        {"authorization": "Basic"},
        {"authorization": "Basic not-base64!"},
        {"authorization": "Basic /w=="},  # no UTF-8
        basic("anna:" + "x" * 1_000),
        basic("anna:" + "x" * 100_000),
    ],
)
def test_a_page_refuses_a_password_that_is_no_token(chain: Member, headers: dict[str, str]) -> None:
    async def work(service: Service, app: Starlette) -> Answer:
        return await request(app, "GET", "/", headers=headers)

    answer = with_access(chain, access("describe:*"), work)
    assert answer.status == 401
    assert answer.body.startswith(b"SASL_AUTHENTICATION_FAILED: ")
    assert answer.headers["content-type"].startswith("text/plain")


def test_two_tokens_in_one_request_are_refused(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> list[int]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": b"", "more_body": False}

        headers = [(b"authorization", f"Bearer {text}".encode()) for text in (TOKEN, "other")]
        scope = {"type": "http", "method": "GET", "path": CLUSTER, "query_string": b"", "headers": headers}
        await app(scope, receive, send)
        return [sent[0]["status"]]

    assert with_access(chain, access("alter:*"), work) == [401]


def test_a_token_that_is_too_long_is_not_even_hashed(chain: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "token_hash", None)

    async def work(service: Service, app: Starlette) -> list[int]:
        tokens = ("x" * (gate_module.MAX_TOKEN + 1), "")
        return [(await request(app, "GET", CLUSTER, headers=bearer(token))).status for token in tokens]

    assert with_access(chain, access("alter:*"), work) == [401, 401]


@pytest.mark.parametrize("path", [path for path, need in NEEDS.items() if isinstance(need, Need)])
@pytest.mark.parametrize("verb", Verb)
def test_a_route_needs_the_right_that_it_states(chain: Member, path: str, verb: Verb) -> None:
    need = NEEDS[path]
    assert isinstance(need, Need)
    chain_id = chain.follower.state.chain_id
    bodies = {
        HEARTBEAT: msgspec.msgpack.encode(Heartbeat(chain_id, StoreId("a"), 0)),
        MEMBER_HEARTBEAT: msgspec.msgpack.encode(MemberHeartbeat(chain_id, "no-group", "a")),
        WAIT: msgspec.msgpack.encode(WaitRequest(chain_id, EntryNumber(-1), ReplicaNews(StoreId("a")), 0)),
        PRODUCERS: msgspec.msgpack.encode(ProducerRequest()),
    }
    asked = path.replace("{key:path}", entry_key(EntryNumber(0)).removeprefix("meta/"))
    asked = asked.replace("{name}", "orders").replace("{name:path}", "none").replace("{file}", "page.js")
    asked = asked.replace("{action}", "plan-job")

    async def work(service: Service, app: Starlette) -> Answer:
        return await request(app, "POST" if path in bodies else "GET", asked, [bodies.get(path, b"")], bearer())

    enough = verb is need.verb or need.verb is Verb.DESCRIBE
    if path == MESSAGES:  # records need more than what all pages need
        enough = verb is Verb.READ
    done = 404 if path in (MEMBER_HEARTBEAT, "/groups/{name:path}") else 200
    assert with_access(chain, access(f"{verb}:*"), work).status == (done if enough else 403)
    assert with_access(chain, access(f"{verb}:orders"), work).status == (done if enough and need.any_topic else 403)


def test_a_route_that_states_nothing_is_refused_to_everybody(chain: Member) -> None:
    async def hello(request: Request) -> Response:
        return PlainTextResponse("hello")

    routes = [Route("/new", hello)]
    app = Starlette(routes=routes)
    for rights in (None, lambda: access("alter:*", "describe:*", "maintain:*", "read:*", "write:*")):
        gate = Gate(app, routes=routes, state=lambda: chain.follower.state, access=rights)
        answer = asyncio.run(request(gate, "GET", "/new", headers=bearer()))
        assert (answer.status, error_in(answer).code) == (403, "CLUSTER_AUTHORIZATION_FAILED")


def test_what_is_no_route_is_named_so_to_principals_only(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> list[int]:
        without = await request(app, "GET", "/x")
        return [without.status, (await request(app, "GET", "/x", headers=bearer())).status]

    assert with_access(chain, access(), work) == [401, 404]


def test_only_http_passes(chain: Member) -> None:
    sent: list[Any] = []

    async def nothing() -> dict[str, object]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    async def work(service: Service, app: Starlette) -> None:
        await app({"type": "websocket", "path": CLUSTER, "headers": [], "query_string": b""}, nothing, send)

    served(chain, work, leads=False)
    assert sent == [{"type": "websocket.close", "code": 1008}]


# ---- without an access file -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:7400", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:7400", 200),
        ("127.8.8.8", 200),
        ("[::1]:7400", 200),
        ("me:7400", 200),
        ("evil.example", 403),
        ("evil.example:7400", 403),
        ("localhost.evil.example", 403),
        ("10.0.0.1:7400", 403),
        ("", 403),
    ],
)
def test_without_an_access_file_it_answers_under_names_of_this_machine(chain: Member, host: str, status: int) -> None:
    """A page in a browser can't ask it under a name that resolves to this machine only now (DNS rebinding)."""

    async def work(service: Service, app: Starlette) -> Answer:
        return await request(app, "GET", CLUSTER, headers={"host": host})

    assert served(chain, work, leads=False).status == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:7400", 200),
        ("http://127.0.0.1:7400", 200),
        ("https://evil.example", 403),
        ("http://localhost.evil.example:80", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_without_an_access_file_a_page_from_elsewhere_sends_nothing(chain: Member, origin: str, status: int) -> None:
    """A browser asks nobody before it sends a simple request: only its answer is kept from the page."""
    body = submit_body(chain, CreateTopic("evil"))

    async def work(service: Service, app: Starlette) -> Answer:
        return await request(app, "POST", SUBMIT, [body], {"origin": origin, "content-type": "text/plain"})

    assert served(chain, lambda service, _: work(service, app_of(service))).status == status
    assert ("evil" in chain.follower.catch_up().state.topic_ids) is (status == 200)


def test_without_an_access_file_everything_but_a_claim_is_allowed(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> dict[str, ErrorReply | None]:
        commands = [command for command, *_ in (*of_topic(ORDERS, "orders"), *OF_NO_TOPIC)]
        bodies = {type(each).__name__: submit_body(chain, each) for each in commands}
        return {name: error_of(await request(app, "POST", SUBMIT, [body])) for name, body in bodies.items()}

    errors = served(chain, work)
    assert {name for name, error in errors.items() if is_refused(error)} == {"ClaimCoordination"}


def test_a_token_is_never_compared_as_text(monkeypatch: pytest.MonkeyPatch, chain: Member) -> None:
    """Only its hash is, so that the time which a comparison takes says nothing of the token."""
    hashed: list[str] = []

    def spied(token: str) -> str:
        hashed.append(token)
        return hashlib.sha256(token.encode()).hexdigest()

    monkeypatch.setattr(gate_module, "token_hash", spied)

    async def work(service: Service, app: Starlette) -> Answer:
        return await request(app, "GET", CLUSTER, headers=bearer())

    assert with_access(chain, access("describe:*"), work).status == 200
    assert hashed == [TOKEN]
