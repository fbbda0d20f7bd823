"""The HTTP face of a coordinator: what it refuses, before it has read more than it must, and with which status."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
import pytest
from starlette.applications import Starlette

from sparklog.chain.commit.committer import new_command_id
from sparklog.coordinator.http import exchange as exchange_module
from sparklog.coordinator.http.app import app_of
from sparklog.coordinator.leading.service import Service
from sparklog.core.commands import Append, CreateTopic, JoinGroup, Submission
from sparklog.core.records import CommandResult
from sparklog.core.types import EntryNumber
from sparklog.wire.error_messages import ErrorReply
from sparklog.wire.messages import (
    CLUSTER,
    MAX_COMMANDS,
    MEMBER_HEARTBEAT,
    SUBMIT,
    ClusterReply,
    MemberHeartbeat,
    SubmitReply,
    SubmitRequest,
    SubmittedCommand,
)
from tests.chain.chain_kit import TIMEOUT_MS, Member, append, member, new_chain
from tests.coordinator.asgi import Answer, request

T = TypeVar("T")
Work = Callable[[Service, Starlette], Awaitable[T]]


@pytest.fixture
def chain() -> Member:
    return new_chain()


def served(chain: Member, work: Work[T], *, queued_max: int = 10, leads: bool = True) -> T:
    """Run `work` against a coordinator, once it leads."""

    async def run() -> T:
        process = member(chain.store.inner)
        leading = asyncio.Event()

        def say(event: str, text: str) -> None:
            if event == "leads":
                leading.set()

        service = Service(
            process.follower, process.store.url, "http://me:7400", session_ms=60_000, queued_max=queued_max, say=say
        )
        running = asyncio.create_task(service.run()) if leads else None
        if running is not None:
            await asyncio.wait_for(leading.wait(), 60)
        try:
            return await work(service, app_of(service))
        finally:
            service.stop()
            if running is not None:
                await running

    return asyncio.run(run())


def submit_request(chain: Member, *commands: Append | CreateTopic | JoinGroup, chain_id: str | None = None) -> bytes:
    n = EntryNumber(chain.follower.head.n)
    submitted = tuple(SubmittedCommand(Submission(new_command_id(), n, command), TIMEOUT_MS) for command in commands)
    return msgspec.msgpack.encode(SubmitRequest(chain_id or chain.follower.state.chain_id, n, submitted))


def post(chain: Member, body: bytes, **how: bool) -> Answer:
    return served(chain, lambda service, app: request(app, "POST", SUBMIT, [body]), **how)


def outcomes_in(answer: Answer) -> list[CommandResult | str]:
    """Of each command: its result, or the code of its error."""
    outcomes = msgspec.msgpack.decode(answer.body, type=SubmitReply).outcomes
    return [each.error.code if each.error is not None else each.result for each in outcomes]  # type: ignore[misc]


def error_in(answer: Answer) -> ErrorReply:
    return msgspec.msgpack.decode(answer.body, type=ErrorReply)


def test_a_command_is_committed_and_its_result_comes_back(chain: Member) -> None:
    answer = post(chain, submit_request(chain, append(3)))
    assert (answer.status, answer.headers["content-type"]) == (200, "application/msgpack")
    reply = msgspec.msgpack.decode(answer.body, type=SubmitReply)
    (result,) = outcomes_in(answer)
    assert isinstance(result, CommandResult)
    assert (result.records, result.n) == (3, reply.position)
    assert chain.follower.catch_up().n >= reply.position


def test_a_refused_command_is_an_error_with_its_code(chain: Member) -> None:
    answer = post(chain, submit_request(chain, CreateTopic("orders")))
    assert (answer.status, outcomes_in(answer)) == (200, ["TOPIC_ALREADY_EXISTS"])


def test_commands_of_a_request_share_an_entry_and_one_that_is_refused_is_alone(chain: Member) -> None:
    answer = post(chain, submit_request(chain, append(1), CreateTopic("orders"), append(2)))
    first, refused, second = outcomes_in(answer)
    assert isinstance(first, CommandResult)
    assert isinstance(second, CommandResult)
    assert (first.records, refused, second.records) == (1, "TOPIC_ALREADY_EXISTS", 2)
    assert first.n == second.n


def test_a_request_without_commands_is_answered(chain: Member) -> None:
    assert outcomes_in(post(chain, submit_request(chain))) == []


def test_a_request_has_so_many_commands_at_most(chain: Member) -> None:
    answer = post(chain, submit_request(chain, *[append()] * (MAX_COMMANDS + 1)), queued_max=10_000)
    assert (answer.status, error_in(answer).message) == (400, "a request has at most 1000 commands, found 1001")
    assert len(member(chain.store.inner).uploads()) == 0


@pytest.mark.parametrize("body", [b"", b"\xc1", b"{}", msgspec.msgpack.encode({"chain_id": 5})])
def test_a_malformed_body_is_refused(chain: Member, body: bytes) -> None:
    answer = post(chain, body)
    assert (answer.status, error_in(answer).code) == (400, "INVALID_REQUEST")
    assert error_in(answer).message.startswith("the body of /v1/submit is not a request of this version: ")


def test_a_client_may_speak_json(chain: Member) -> None:
    body = msgspec.json.encode(msgspec.msgpack.decode(submit_request(chain, append(3)), type=SubmitRequest))
    json = {"content-type": "application/json; charset=utf-8", "accept": "application/json"}

    async def work(service: Service, app: Starlette) -> Answer:
        return await request(app, "POST", SUBMIT, [body], json)

    answer = served(chain, work)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    (outcome,) = msgspec.json.decode(answer.body, type=SubmitReply).outcomes
    assert outcome.result is not None
    assert outcome.result.records == 3


def test_a_large_body_is_refused_before_it_is_read(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> Answer:
        return await request(app, "POST", SUBMIT, [b"x"] * 3, {"content-length": str(exchange_module.MAX_BODY + 1)})

    answer = served(chain, work)
    assert (answer.status, answer.chunks_read) == (400, 0)
    assert error_in(answer).message == "a request has at most 64.0 MiB, found 64.0 MiB"


def test_a_body_of_no_announced_length_is_read_up_to_the_limit(chain: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_module._bodies, "most_bytes", 1_000)

    async def work(service: Service, app: Starlette) -> Answer:
        return await request(app, "POST", SUBMIT, [b"x" * 400] * 100)

    answer = served(chain, work)
    assert (answer.status, answer.chunks_read) == (400, 3)
    assert error_in(answer).message == "a request has at most 1,000 B, found more"


def test_a_client_that_leaves_in_the_middle_of_its_body_asked_for_nothing(
    chain: Member, caplog: pytest.LogCaptureFixture
) -> None:
    body = submit_request(chain, append())

    async def work(service: Service, app: Starlette) -> None:
        await request(app, "POST", SUBMIT, [body[:20], None])

    served(chain, work)
    assert (caplog.records, member(chain.store.inner).uploads()) == ([], [])


@pytest.mark.parametrize("length", ["-1", "x", "1e3", ""])
def test_a_length_that_is_none_is_refused(chain: Member, length: str) -> None:
    async def work(service: Service, app: Starlette) -> Answer:
        return await request(app, "POST", SUBMIT, [b"x"], {"content-length": length})

    answer = served(chain, work)
    assert (answer.status, error_in(answer).code) == (400, "INVALID_REQUEST")


def test_a_client_of_another_cluster_is_refused(chain: Member) -> None:
    answer = post(chain, submit_request(chain, append(), chain_id="e" * 32))
    assert (answer.status, error_in(answer).code) == (409, "INCONSISTENT_CLUSTER_ID")
    serves = f"this coordinator serves cluster {'c' * 32}, the request is for '{'e' * 32}'"
    assert error_in(answer).message.startswith(f"{serves}: connect again")


def test_one_that_does_not_lead_sends_its_clients_away(chain: Member) -> None:
    answer = post(chain, submit_request(chain, append()), leads=False)
    assert (answer.status, error_in(answer).code) == (421, "NOT_CONTROLLER")
    assert error_in(answer).message == "no process coordinates the cluster at the moment"


def test_a_heartbeat_of_a_member_is_no_entry_and_one_of_a_stranger_is_refused(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> list[Answer]:
        await request(app, "POST", SUBMIT, [submit_request(chain, JoinGroup("billing", "a", ("t",), 45_000))])
        n = service.follower.head.n
        beats = (MemberHeartbeat(chain_id, *who) for who in (("billing", "a"), ("billing", "b"), ("none", "a")))
        answers = [await request(app, "POST", MEMBER_HEARTBEAT, [msgspec.msgpack.encode(beat)]) for beat in beats]
        assert service.follower.head.n == n
        return answers

    chain_id = chain.follower.state.chain_id
    beaten, stranger, nothing = served(chain, work)
    assert msgspec.msgpack.decode(beaten.body, type=ClusterReply).chain_id == chain_id
    assert [error_in(answer).code for answer in (stranger, nothing)] == ["UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND"]


@pytest.mark.parametrize("in_a_request", [1, 2, 8])
def test_more_commands_than_may_wait_are_refused_and_nothing_is_lost(chain: Member, in_a_request: int) -> None:
    async def work(service: Service, app: Starlette) -> list[Answer]:
        requests = [submit_request(chain, *(append() for _ in range(in_a_request))) for _ in range(8 // in_a_request)]
        return await asyncio.gather(*(request(app, "POST", SUBMIT, [body]) for body in requests))

    answers = served(chain, work, queued_max=5)
    outcomes = [outcome for answer in answers for outcome in outcomes_in(answer)]
    assert outcomes[5:] == ["COORDINATOR_NOT_AVAILABLE"] * 3
    assert all(isinstance(outcome, CommandResult) for outcome in outcomes[:5])
    errors = [each.error for each in msgspec.msgpack.decode(answers[-1].body, type=SubmitReply).outcomes]
    assert errors[-1] is not None
    assert (errors[-1].retriable, "queued.max.requests" in errors[-1].message) == (True, True)
    assert len(member(chain.store.inner).uploads()) == 5


def test_an_error_inside_is_an_unknown_outcome_and_the_next_request_works(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(service: Service, app: Starlette) -> tuple[Answer, Answer]:
        with monkeypatch.context() as patch:
            patch.setattr(service, "submit", None)
            broken = await request(app, "POST", SUBMIT, [submit_request(chain, append())])
        return broken, await request(app, "POST", SUBMIT, [submit_request(chain, append())])

    broken, after = served(chain, work)
    assert (broken.status, error_in(broken).code) == (500, "COMMIT_OUTCOME_UNKNOWN")
    assert after.status == 200


def test_it_says_which_cluster_it_is_and_who_leads(chain: Member) -> None:
    answer = served(chain, lambda service, app: request(app, "GET", CLUSTER))
    reply = msgspec.msgpack.decode(answer.body, type=ClusterReply)
    assert (reply.chain_id, reply.metadata) == ("c" * 32, chain.store.url)
    assert (reply.coordinator.epoch, reply.coordinator.address) == (1, "http://me:7400")


@pytest.mark.parametrize(
    ("leads", "status", "text"), [(True, 200, b"leads, epoch 1\n"), (False, 503, b"no coordinator leads")]
)
def test_probes_of_health_and_readiness(chain: Member, leads: bool, status: int, text: bytes) -> None:
    async def work(service: Service, app: Starlette) -> tuple[Answer, Answer]:
        return await request(app, "GET", "/healthz"), await request(app, "GET", "/readyz")

    health, ready = served(chain, work, leads=leads)
    assert (health.status, health.body) == (200, b"ok\n")
    assert (ready.status, ready.body.startswith(text)) == (status, True)


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", SUBMIT, 405), ("POST", CLUSTER, 405), ("GET", "/x", 404)]
)
def test_other_methods_and_paths_are_refused(chain: Member, method: str, path: str, status: int) -> None:
    answer = served(chain, lambda service, app: request(app, method, path), leads=False)
    assert answer.status == status
