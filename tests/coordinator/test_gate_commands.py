"""The gate and commands: the right that each of them needs, and the audit, which has a line for each."""

from __future__ import annotations

import logging
from functools import partial
from itertools import product

import msgspec
import pytest
from starlette.applications import Starlette

from sparklog.chain.commit.committer import new_command_id
from sparklog.coordinator.http.app import app_of
from sparklog.coordinator.leading.service import Service
from sparklog.core.access import Verb
from sparklog.core.commands import Append, Application, Command, CreateTopic, DeleteTopic, JoinGroup, Submission
from sparklog.core.types import EntryNumber, PartitionIndex, TopicId
from sparklog.wire.error_messages import ErrorReply
from sparklog.wire.messages import (
    CLUSTER,
    HEARTBEAT,
    MEMBER_HEARTBEAT,
    SUBMIT,
    MemberHeartbeat,
    SubmitReply,
    SubmitRequest,
    SubmittedCommand,
)
from sparklog.wire.topic_messages import OFFSETS, PLAN, TOPIC, LatestOffset, OffsetsRequest, PlanRequest, WantedOffset
from tests.chain.chain_kit import TIMEOUT_MS, Member, append, member, new_chain
from tests.coordinator.access.test_gate import (
    TOKEN,
    access,
    audited,
    bearer,
    error_of,
    is_refused,
    submit_body,
    with_access,
)
from tests.coordinator.asgi import Answer, request
from tests.coordinator.http.test_app import error_in, served
from tests.core.every_command import ANY, OF_NO_TOPIC, ORDERS, an_append, of_topic


@pytest.fixture
def chain() -> Member:
    return new_chain()


# M: N-05
@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("verb", Verb)
def test_every_command_needs_its_right_on_the_leader_and_on_a_standby(chain: Member, verb: Verb, leads: bool) -> None:
    """Refused commands leave no trace in the chain; those that may pass get as far as the log itself."""
    no_such = TopicId(9)  # only a right on all topics covers its id
    commands: list[tuple[Command, Verb | None, tuple[str, ...]]] = [
        *((command, needed, _enough(command)) for command, needed in of_topic(no_such, "new")),
        *((command, needed, ("*", "new*", "other") if of == ANY else ("*",)) for command, needed, of in OF_NO_TOPIC),
    ]

    async def work(service: Service, app: Starlette) -> None:
        for (command, needed, enough), pattern in product(commands, ("*", "new*", "other")):
            own = app_of(service, partial(access, f"{verb}:{pattern}"))
            before = service.follower.catch_up().n
            answer = await request(own, "POST", SUBMIT, [submit_body(chain, command)], bearer())
            refused = needed is not verb or pattern not in enough
            error = error_of(answer)
            assert is_refused(error) is refused, (command, verb, pattern, answer)
            if error is not None and refused:
                assert service.follower.catch_up().n == before
                assert (error.landed, error.retriable) == ("no", False)
            elif not leads:
                assert answer.status == 421

    with_access(chain, access(), work, leads=leads)


def _enough(command: Command) -> tuple[str, ...]:
    return ("*", "new*") if isinstance(command, CreateTopic | JoinGroup) else ("*",)


def test_an_unknown_topic_tells_nothing_of_others(chain: Member) -> None:
    """Whoever may read what begins with `or2` learns no other name by a wrong guess."""

    async def work(service: Service, app: Starlette) -> list[Answer]:
        latest = WantedOffset(PartitionIndex(0), LatestOffset())
        bodies = ((PLAN, PlanRequest("or2")), (OFFSETS, OffsetsRequest("or2", (latest,))))
        posts = [await request(app, "POST", path, [msgspec.msgpack.encode(body)], bearer()) for path, body in bodies]
        return [*posts, await request(app, "GET", TOPIC.replace("{name}", "or2"), headers=bearer())]

    for rights, is_told in ((("read:or2*",), False), (("read:or2*", "describe:orders"), True)):
        for answer in with_access(chain, access(*rights), work):
            assert answer.status == 404
            assert (b"orders" in answer.body) is is_told


def test_rights_on_a_topic_hold_for_its_id(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> list[ErrorReply | None]:
        bodies = [submit_body(chain, append()), submit_body(chain, DeleteTopic(ORDERS))]
        return [error_of(await request(app, "POST", SUBMIT, [body], bearer())) for body in bodies]

    wrote, deleted = with_access(chain, access("write:ord*"), work)
    assert wrote is None
    assert deleted is not None
    assert deleted.code == "TOPIC_AUTHORIZATION_FAILED"
    assert deleted.message.startswith("anna has no right to alter topic 'orders': wanted")


# M: N-05
def test_a_heartbeat_needs_the_right_on_all_topics_of_the_member(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> list[ErrorReply | None]:
        chain_id = chain.follower.state.chain_id
        joins = [JoinGroup("g", "mine", ("orders",), 9_000), JoinGroup("g", "theirs", ("orders", "others"), 9_000)]
        both = app_of(service, partial(access, "read:orders", "read:others"))
        for join in joins:
            assert error_of(await request(both, "POST", SUBMIT, [submit_body(chain, join)], bearer())) is None
        beats = [msgspec.msgpack.encode(MemberHeartbeat(chain_id, "g", member_id)) for member_id in ("mine", "theirs")]
        answers = [await request(app, "POST", MEMBER_HEARTBEAT, [beat], bearer()) for beat in beats]
        return [None if answer.status == 200 else error_in(answer) for answer in answers]

    mine, theirs = with_access(chain, access("read:orders"), work)
    assert mine is None
    assert theirs is not None
    assert theirs.code == "TOPIC_AUTHORIZATION_FAILED"
    assert "others" not in theirs.message


def test_of_several_commands_those_without_a_right_are_refused_and_the_others_applied(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> Answer:
        state = chain.follower.state
        n = EntryNumber(state.n)
        commands = [append(), DeleteTopic(ORDERS), append(2), CreateTopic("other")]
        sent = tuple(SubmittedCommand(Submission(new_command_id(), n, command), TIMEOUT_MS) for command in commands)
        return await request(
            app, "POST", SUBMIT, [msgspec.msgpack.encode(SubmitRequest(state.chain_id, n, sent))], bearer()
        )

    answer = with_access(chain, access("write:ord*"), work)
    outcomes = msgspec.msgpack.decode(answer.body, type=SubmitReply).outcomes
    assert [None if outcome.result is None else outcome.result.records for outcome in outcomes] == [1, None, 2, None]
    assert [is_refused(outcome.error) for outcome in outcomes] == [False, True, False, True]


def test_a_right_holds_for_a_topic_that_only_the_client_has_seen_yet(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> ErrorReply | None:
        other = member(chain.store.inner)
        other.committer.submit(other.committer.begin(CreateTopic("newer", 1, 1)), TIMEOUT_MS)
        return error_of(await request(app, "POST", SUBMIT, [submit_body(other, an_append(TopicId(2)))], bearer()))

    error = with_access(chain, access("write:newer"), work)
    assert error is not None
    assert error.code == "INVALID_REQUEST"  # the log's own error


def test_the_result_of_a_known_write_names_only_topics_that_its_caller_may_describe(chain: Member) -> None:
    """Any principal that may write somewhere may use any application id, and so repeat a write of others."""
    version = Application("app", 1)
    chain.submit(chain.begin(append(3, application=version)))

    async def work(service: Service, app: Starlette) -> Answer:
        return await request(app, "POST", SUBMIT, [submit_body(chain, Append((), (), (), version))], bearer())

    for rights, records in (("write:orders", 3), ("write:mine", 0)):
        answer = with_access(chain, access(rights), work)
        (outcome,) = msgspec.msgpack.decode(answer.body, type=SubmitReply).outcomes
        assert outcome.result is not None
        assert (outcome.result.records, len(outcome.result.ranges)) == (records, records // 3)


# ---- audit ----------------------------------------------------------------------------------------------


def test_the_audit_has_a_line_for_each_command_and_each_refusal(
    chain: Member, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sparklog.audit")

    async def work(service: Service, app: Starlette) -> list[Answer]:
        return [
            await request(app, "POST", SUBMIT, [submit_body(chain, append())], bearer()),
            await request(app, "POST", SUBMIT, [submit_body(chain, CreateTopic("x\n" * 450))], bearer()),
            await request(app, "POST", SUBMIT, [submit_body(chain, CreateTopic("orders"))], bearer()),
            await request(app, "POST", SUBMIT, [submit_body(chain, append())], bearer("wrong-token")),
            await request(app, "GET", CLUSTER, headers=bearer()),
            await request(app, "POST", HEARTBEAT, [b""], bearer()),
        ]

    with_access(chain, access("write:*", "alter:orders"), work)
    lines = audited(caplog)
    for line in lines:
        assert line.pop("time").endswith("Z")
        assert line.pop("address") == ""
        assert len(line.pop("command_id", "x" * 32)) == 32
    wrote, unnamed, existing, stranger, beat = lines
    assert wrote == {"principal": "anna", "verb": "write", "topics": ["orders"], "kind": "append", "entry": 3}
    assert unnamed == {
        "principal": "anna",
        "verb": "alter",
        "topics": [("x\n" * 450)[:250]],
        "kind": "create-topic",
        "error": "TOPIC_AUTHORIZATION_FAILED",
        "landed": "no",
    }
    assert (existing["error"], existing["topics"]) == ("TOPIC_ALREADY_EXISTS", ["orders"])
    assert stranger == {
        "principal": "anonymous",
        "request": "POST /v1/submit",
        "error": "SASL_AUTHENTICATION_FAILED",
        "landed": "no",
    }
    assert (beat["principal"], beat["error"]) == ("anna", "CLUSTER_AUTHORIZATION_FAILED")
    assert all("\n" not in each.getMessage() for each in caplog.records)
    assert TOKEN not in caplog.text
    assert "wrong-token" not in caplog.text


def test_a_command_whose_outcome_nobody_knows_is_in_the_audit(
    chain: Member, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "sparklog.audit")

    async def work(service: Service, app: Starlette) -> Answer:
        monkeypatch.setattr(service, "submit", None)
        return await request(app, "POST", SUBMIT, [submit_body(chain, append())])

    assert served(chain, work).status == 500
    (line,) = audited(caplog)
    assert (line["principal"], line["error"], line["landed"]) == ("anonymous", "COMMIT_OUTCOME_UNKNOWN", "unknown")
