"""What the pages change: each plan is what the command line would do, and what is confirmed is what was shown."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import logging
import shlex
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from msgspec.structs import replace

import sparklog
from sparklog.cli.main import run
from sparklog.client.groups.offsets import committed
from sparklog.coordinator.page.actions import job_actions
from sparklog.core.errors import TryAgain
from sparklog.core.state import ClusterState
from sparklog.wire.error_messages import error_reply
from sparklog.wire.messages import Outcome, SubmitReply, SubmitRequest
from tests.client.orders import settle
from tests.coordinator.acting import RECORDS, acting, actions_in, forms_in, made, sealed_in
from tests.coordinator.asgi import Answer
from tests.coordinator.shown_records import Records

HOSTILE = """'"><script>alert(1)</script>&{{ 7 * 7 }}"""


def summary(state: ClusterState) -> dict[str, Any]:
    """What actions can change, without times."""
    topics = {
        name: (
            topic_id,
            dict(state.topics[topic_id].config),
            [each.log_start for each in state.partitions_of(state.topics[topic_id])],
        )
        for name, topic_id in state.topic_ids.items()
    }
    groups = {name: {place: row.offset for place, row in committed(state, name).items()} for name in state.groups}
    return {"topics": topics, "groups": groups}


def command_of(page: Records) -> list[str]:
    """The command that the plan shows."""
    commands = [found["data-copy"] or "" for tag, found in page.tags if tag == "button" and "data-copy" in found]
    return shlex.split(commands[0])[1:]


def dry_run(command: list[str]) -> list[str]:
    """The same command, with the option that changes nothing."""
    if "--execute" in command:
        return [word for word in command if word != "--execute"]
    return [*command[:2], "--dry-run", *command[2:]]


def said(cluster: str, command: list[str]) -> str:
    """The sentence that the command prints in the end, without the time at which objects go."""
    with redirect_stdout(io.StringIO()) as printed:
        assert run(["--cluster", cluster, *command]) == 0
    sentence = printed.getvalue().splitlines()[-1]
    return sentence.removesuffix(": add --execute").partition(" after 2")[0]


DONE = [
    ("create-topic", {"topic": "new", "partitions": "3", "config": "retention.ms=-1\n\n segment.bytes=1000 "}),
    ("create-topic", {"topic": "-dash", "replication_factor": "1"}),
    ("alter-topic", {"topic": "orders", "set": "segment.bytes=5000\r\nretention.bytes=7", "remove": "retention.ms"}),
    ("delete-records", {"topic": "orders", "offset": "3"}),
    ("delete-records", {"topic": "orders", "offset": "end", "partition": "1"}),
    ("delete-topic", {"topic": "orders"}),
    ("reset-group", {"group": "billing", "to": "to-earliest"}),
    ("reset-group", {"group": "billing", "to": "to-latest", "topic": "orders"}),
    ("reset-group", {"group": "billing", "to": "to-offset", "value": "1", "topic": "orders", "partition": "1"}),
    ("reset-group", {"group": "billing", "to": "to-datetime", "value": "1970-01-01T00:00:02.5Z"}),
    ("reset-group", {"group": "billing", "to": "shift-by", "value": "-1"}),
    ("reset-group", {"group": "a b/c", "to": "to-latest", "topic": "orders"}),
    ("delete-group", {"group": "billing"}),
]


@pytest.mark.parametrize(("action", "given"), DONE, ids=[f"{name}-{at}" for at, (name, _) in enumerate(DONE)])
def test_what_is_confirmed_is_what_the_command_line_does(tmp_path: Path, action: str, given: dict[str, str]) -> None:
    with acting(tmp_path / "page") as asked:
        before = summary(asked.state)
        page = asked.plan(action, given)
        assert (page.status, forms_in(page)[-1]) == (200, "post")
        assert summary(asked.state) == before, "a plan changes nothing"
        done = asked.send(action, sealed_in(page))
        assert (done.status, "The chain has it." in done.text, sealed_in(done)) == (200, True, None)
        after = summary(asked.state)
    other = made(tmp_path / "cli")
    command = command_of(page)
    would, did = said(other, dry_run(command)), said(other, command)
    assert f"This {would}" in page.text
    assert f"{did[0].upper()}{' '.join(did[1:].split())}" in done.text
    with sparklog.connect(other) as cluster:
        state = cluster.connection.newest_state()
        assert summary(state) == after
    assert after != before


def test_a_plan_shows_what_would_change(tmp_path: Path) -> None:
    with acting(tmp_path) as asked:
        created = asked.plan("create-topic", {"topic": "new", "partitions": "2", "config": "min.insync.replicas=2"})
        altered = asked.plan("alter-topic", {"topic": "orders", "set": "segment.bytes=9", "remove": "retention.ms"})
        cut = asked.plan("delete-records", {"topic": "orders", "offset": "3"})
        deleted = asked.plan("delete-topic", {"topic": "orders"})
        reset = asked.plan("reset-group", {"group": "billing", "to": "to-earliest"})
        forgotten = asked.plan("delete-group", {"group": "billing"})
    assert "This would create topic new with 2 partitions." in created.text
    assert "0 local 1 local" in created.text
    assert "topic new: min.insync.replicas=2 is more than its 1 replica" in created.text
    assert "retention.ms 86400000 (topic) 604800000 (default)" in altered.text
    assert "segment.bytes 1073741824 (default) 9 (topic)" in altered.text
    assert "This would delete 6 records of topic orders." in cut.text
    assert "0 0 3 3 0 0 B - 1 0 3 3 0 0 B -" in cut.text
    assert f"This would delete topic orders with {2 * RECORDS} records" in deleted.text
    assert "billing 2 " in deleted.text
    assert f"orders 0 2 0 {RECORDS} {RECORDS} orders 1 {RECORDS} 0 {RECORDS} {RECORDS}" in reset.text
    assert "billing orders 2 2" in forgotten.text


def test_a_topic_gets_the_stores_that_its_plan_showed_whatever_came_meanwhile(tmp_path: Path) -> None:
    with acting(tmp_path / "page") as asked:
        page = asked.plan("create-topic", {"topic": "new", "partitions": "3"})
        assert "0 local 1 local 2 local" in page.text
        with sparklog.connect(str(tmp_path / "page")) as cluster:
            cluster.add_store("b", str(tmp_path / "b"))
            cluster.create_topic("between", partitions=1)
        asked.send("create-topic", sealed_in(page))
        state = asked.state
        partitions = state.partitions_of(state.topics[state.topic_ids["new"]])
        assert [partition.replication.target for partition in partitions] == [("local",)] * 3


def test_pages_lead_to_the_forms_of_what_they_show(tmp_path: Path) -> None:
    with acting(tmp_path) as asked:
        found = {
            path: actions_in(asked.get(path)) for path in ("/topics", "/topics/orders", "/groups/billing", "/jobs")
        }
        for link in (link for links in found.values() for link in links):
            path, _, query = link.partition("?")
            given = dict(pair.split("=") for pair in query.split("&") if pair)
            assert asked.get(path, given).status == 200
    assert found == {
        "/topics": ["/actions/create-topic"],
        "/topics/orders": [
            "/actions/alter-topic?topic=orders",
            "/actions/delete-records?topic=orders",
            "/actions/delete-topic?topic=orders&plan=1",
        ],
        "/groups/billing": ["/actions/reset-group?group=billing", "/actions/delete-group?group=billing&plan=1"],
        "/jobs": [],
    }


@pytest.mark.parametrize(("action", "given"), [DONE[0], DONE[3], DONE[5], DONE[6], DONE[12]])
def test_a_form_that_is_sent_twice_is_one_command(tmp_path: Path, action: str, given: dict[str, str]) -> None:
    with acting(tmp_path) as asked:
        sealed = sealed_in(asked.plan(action, given))
        commands = asked.coordinator.service.commit_counts

        async def doubled() -> list[Answer]:
            return list(await asyncio.gather(*(asked.sent(action, sealed) for _ in range(2))))

        answers = [Records(each) for each in asked.coordinator.run(doubled())]
        after, entries = summary(asked.state), commands().entries
        again = asked.send(action, sealed)
        assert [each.status for each in (*answers, again)] == [200] * 3
        assert {each.text.partition("Cluster")[0] for each in (*answers, again)} == {again.text.partition("Cluster")[0]}
        assert (summary(asked.state), commands().entries) == (after, entries)


def test_a_topic_that_was_made_again_meanwhile_is_another_one(tmp_path: Path) -> None:
    with acting(tmp_path) as asked:
        sealed = sealed_in(asked.plan("delete-topic", {"topic": "orders"}))
        with sparklog.connect(asked.coordinator.address) as cluster:
            cluster.delete_topic("orders")
            cluster.create_topic("orders")
        refused = asked.send("delete-topic", sealed)
        assert refused.status == 404, refused.text
        assert "UNKNOWN_TOPIC_OR_PARTITION" in refused.text
        assert "orders" in asked.state.topic_ids


def test_a_group_with_members_is_left_alone(tmp_path: Path) -> None:
    given = {"group": "billing", "to": "to-earliest"}
    with acting(tmp_path) as asked, sparklog.connect(asked.coordinator.address) as cluster:
        early = {action: sealed_in(asked.plan(action, given)) for action in ("reset-group", "delete-group")}
        with cluster.consumer("orders", group="billing") as reader:
            settle(reader)
            before = summary(asked.state)
            for action, sealed in early.items():
                planned, late = asked.plan(action, given), asked.send(action, sealed)
                for page in (planned, late):
                    assert (page.status, sealed_in(page)) == (409, None), page.text
                assert "NON_EMPTY_GROUP" in planned.text
            assert summary(asked.state) == before


def test_what_storage_refused_may_be_sent_again_under_the_same_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with acting(tmp_path) as asked:
        sealed = sealed_in(asked.plan("create-topic", {"topic": "new"}))

        async def busy(request: object) -> None:
            raise TryAgain("500 commands wait already")

        with monkeypatch.context() as patched:
            patched.setattr(asked.coordinator.service, "submit", busy)
            refused = asked.send("create-topic", sealed)
        assert (refused.status, sealed_in(refused)) == (503, sealed)
        assert "COORDINATOR_NOT_AVAILABLE: 500 commands wait already" in refused.text
        assert "Try again" in refused.text
        assert asked.send("create-topic", sealed_in(refused)).status == 200
        assert "new" in asked.state.topic_ids


def test_what_was_done_in_part_is_said_and_the_same_form_does_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with acting(tmp_path) as asked:
        sealed = sealed_in(asked.plan("delete-records", {"topic": "orders", "offset": "3"}))
        commit = asked.coordinator.service.submit

        async def one_of_them(request: SubmitRequest) -> SubmitReply:
            reply = await commit(replace(request, commands=request.commands[:1]))
            busy = Outcome(error=error_reply(TryAgain("500 commands wait already")))
            return replace(reply, outcomes=(*reply.outcomes, busy))

        with monkeypatch.context() as patched:
            patched.setattr(asked.coordinator.service, "submit", one_of_them)
            partly = asked.send("delete-records", sealed)
        assert (partly.status, "1 of 2 commands are in the chain." in partly.text) == (503, True)
        assert asked.send("delete-records", sealed_in(partly)).status == 200
        assert summary(asked.state)["topics"]["orders"][2] == [3, 3]


def test_an_outcome_that_nobody_knows_is_found_by_sending_the_form_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with acting(tmp_path) as asked:
        sealed = sealed_in(asked.plan("create-topic", {"topic": "new"}))
        commit = asked.coordinator.service.submit

        async def answers_nothing(request: SubmitRequest) -> SubmitReply:
            await commit(request)
            raise OSError("the connection was lost")

        with monkeypatch.context() as patched:
            patched.setattr(asked.coordinator.service, "submit", answers_nothing)
            failed = asked.send("create-topic", sealed)
        assert failed.status == 500
        assert "COMMIT_OUTCOME_UNKNOWN" in failed.text
        again = asked.send("create-topic", sealed_in(failed))
        assert (again.status, "Created topic new" in again.text) == (200, True)


def test_the_audit_has_a_line_for_each_command_of_a_page(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sparklog.audit")
    with acting(tmp_path) as asked:
        sealed = sealed_in(asked.plan("delete-records", {"topic": "orders", "offset": "3"}))
        asked.send("delete-records", sealed)
    lines = [json.loads(each.getMessage()) for each in caplog.records if each.name == "sparklog.audit"]
    kinds = [(line["principal"], line["verb"], line["topics"], line["kind"]) for line in lines]
    assert kinds == [("anonymous", "maintain", ["orders"], "move-log-start")] * 2
    assert all(line["entry"] > 0 for line in lines)


@pytest.mark.parametrize("name", [HOSTILE, "ü?&#", "a b"])
def test_names_of_others_are_text_in_forms_and_plans(tmp_path: Path, name: str) -> None:
    with acting(tmp_path) as asked:
        with sparklog.connect(asked.coordinator.address) as cluster:
            cluster.commit_offsets(name, {("orders", 0): 1})
        pages = [
            asked.get("/actions/reset-group", {"group": name}),
            asked.plan("reset-group", {"group": name, "to": "to-latest", "value": HOSTILE}),
            asked.plan("create-topic", {"topic": name, "config": HOSTILE}),
            asked.plan("delete-group", {"group": name}),
            asked.get(f"/actions/{HOSTILE.replace('/', '')}"),
        ]
        for page in pages:
            assert [found for tag, found in page.tags if tag == "script" and "src" not in found] == []
        done = asked.send("delete-group", sealed_in(pages[3]))
        assert f"Deleted group {' '.join(name.split())} with all its offsets." in done.text
        assert list(asked.state.groups) == ["billing"]


def test_what_is_due_is_what_the_jobs_plan_and_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with acting(tmp_path, writes=False) as asked:
        nothing = asked.plan("plan-job", {"job": "roll"})
        with sparklog.connect(asked.coordinator.address) as cluster:
            cluster.alter("orders", config={"segment.bytes": 1, "retention.ms": 1})
        rolled = asked.plan("plan-job", {"job": "roll", "topic": "orders"})
        cut = asked.plan("plan-job", {"job": "retention"})
        wrong = asked.plan("plan-job", {"job": "vacuum"})
        monkeypatch.setattr(job_actions, "MOST_PARTITIONS", 1)
        too_many = asked.plan("plan-job", {"job": "roll"})
        assert not asked.state.jobs
    assert "A run would seal 0 records (0 B) of 0 segments." in nothing.text
    assert f"A run would seal {2 * RECORDS} records" in rolled.text
    assert command_of(rolled) == ["job", "roll", "--topic", "orders"]
    assert f"orders 0 {RECORDS} {RECORDS} " in cut.text
    assert {sealed_in(page) for page in (nothing, rolled, cut)} == {None}
    assert (wrong.status, "wanted one of roll, retention" in wrong.text) == (400, True)
    assert (too_many.status, "found 2" in too_many.text) == (400, True)


def test_a_browser_on_this_machine_does_it_over_http(tmp_path: Path) -> None:
    with acting(tmp_path) as asked:
        host = asked.coordinator.address.partition("://")[2]
        connection = http.client.HTTPConnection(host, timeout=60)

        def sent(method: str, path: str, body: str | None = None, **headers: str) -> Records:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Records(Answer(answer.status, dict(answer.getheaders()), answer.read(), 0))

        page = sent("GET", "/actions/create-topic?topic=new&plan=1")
        form = urlencode({"sealed": sealed_in(page)})
        typed = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
        done = sent("POST", "/actions/create-topic?topic=new&plan=1", form, Origin=f"http://{host}", **typed)
        connection.close()
        assert (done.status, "Created topic new with 1 partition." in done.text) == (200, True)
        assert "new" in asked.state.topic_ids


def test_nothing_is_done_that_the_chain_has_already(tmp_path: Path) -> None:
    with acting(tmp_path) as asked:
        page = asked.plan("delete-records", {"topic": "orders", "offset": "0"})
    assert (page.status, sealed_in(page), "There is nothing to do." in page.text) == (200, None, True)
