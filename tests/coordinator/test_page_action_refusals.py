"""What the pages refuse to change: for whom, from where, without which form, with which input. Then nothing changes."""

from __future__ import annotations

import json
import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

import pytest

from sparklog.coordinator.page.actions import action_routes
from sparklog.coordinator.page.actions.action_list import ACTIONS
from sparklog.coordinator.page.actions.sealed_plan import VALID_MS
from sparklog.core.access import Access
from sparklog.host.clock import now_ms
from tests.coordinator.access.test_gate import TOKEN, access, basic
from tests.coordinator.acting import HOST, ORIGIN, RECORDS, Acting, acting, actions_in, forms_in, sealed_in
from tests.coordinator.asgi import request
from tests.coordinator.shown_records import Records

CHANGES = [name for name, action in ACTIONS.items() if action.changes]
PAGES = ("/", "/topics", "/topics/orders", "/groups", "/groups/billing", "/jobs")
GIVEN = {"topic": "orders", "group": "billing", "to": "to-earliest", "offset": "end", "set": "segment.ms=1"}
ANNA = basic(f"anna:{TOKEN}")


def plan_of(asked: Acting, action: str, headers: Mapping[str, str] | None = None) -> Records:
    given = {"topic": "new"} if action == "create-topic" else GIVEN
    return asked.plan(action, given, headers)


def refused(asked: Acting, page: Records, status: int, *texts: str, before: int) -> None:
    """Check that a page is an error, offers nothing to confirm, and that the chain has no new entry."""
    assert page.status == status, page.text
    for text in texts:
        assert text in page.text
    assert "post" not in forms_in(page)
    assert asked.state.n == before


# ---- off, and elsewhere -------------------------------------------------------------------------------


@pytest.mark.parametrize("action", CHANGES)
def test_pages_only_show_until_the_cluster_says_otherwise(tmp_path: Path, action: str) -> None:
    with acting(tmp_path, writes=False) as asked:
        before = asked.state.n
        for path in PAGES:
            page = asked.get(path)
            assert (actions_in(page), "This page is read-only" in page.text) == ([], True)
        for page in (asked.get(f"/actions/{action}"), plan_of(asked, action), asked.send(action, "x")):
            refused(asked, page, 403, "CLUSTER_AUTHORIZATION_FAILED", "page.writes=true", before=before)
            assert forms_in(page) == []


@pytest.mark.parametrize("action", CHANGES)
def test_a_process_that_does_not_lead_sends_people_to_the_one_that_does(tmp_path: Path, action: str) -> None:
    with acting(tmp_path, leads=False) as asked:
        before = asked.state.n
        assert [actions_in(asked.get(path)) for path in PAGES] == [[]] * len(PAGES)
        for page in (asked.get(f"/actions/{action}"), plan_of(asked, action), asked.send(action, "x")):
            refused(asked, page, 421, "NOT_CONTROLLER", "No process coordinates the cluster", before=before)
            assert forms_in(page) == []


# ---- rights -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rights", "topic", "group"),
    [
        (["describe:*"], [], []),
        (["describe:*", "write:*"], [], []),
        (["describe:*", "read:other"], [], []),
        (["describe:*", "alter:orders"], ["alter-topic", "delete-topic"], []),
        (["describe:*", "alter:other"], [], []),
        (["describe:*", "maintain:orders"], ["delete-records"], []),
        (["describe:*", "read:orders"], [], ["reset-group"]),
        (["alter:*"], ["alter-topic", "delete-topic"], ["delete-group"]),
    ],
)
def test_a_page_offers_what_its_reader_has_the_right_to_and_plans_nothing_else(
    tmp_path: Path, rights: list[str], topic: list[str], group: list[str]
) -> None:
    with acting(tmp_path, access=lambda: access(*rights)) as asked:
        before = asked.state.n
        shown = [actions_in(asked.get(path, headers=ANNA)) for path in ("/topics/orders", "/groups/billing")]
        names = [[link.partition("?")[0].removeprefix("/actions/") for link in links] for links in shown]
        assert names == [topic, group]
        offers_create = bool(actions_in(asked.get("/topics", headers=ANNA)))
        assert offers_create is any(right.startswith("alter:") for right in rights)
        may = {*topic, *group, *(["create-topic"] if rights == ["alter:*"] else [])}
        for action in CHANGES:
            page = plan_of(asked, action, ANNA)
            if action in may:
                assert (page.status, sealed_in(page) is not None) == (200, True)
            else:
                refused(asked, page, 403, "_AUTHORIZATION_FAILED: anna has no right to", before=before)


def test_a_right_that_was_taken_away_after_the_plan_is_missed_at_the_commit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sparklog.audit")
    rights = ["describe:*", "alter:orders"]
    with acting(tmp_path, access=lambda: access(*rights)) as asked:
        before = asked.state.n
        sealed = sealed_in(plan_of(asked, "delete-topic", ANNA))
        rights.pop()
        refused(asked, asked.send("delete-topic", sealed, ANNA), 403, "TOPIC_AUTHORIZATION_FAILED", before=before)
        refused(asked, plan_of(asked, "delete-topic", ANNA), 403, "TOPIC_AUTHORIZATION_FAILED", before=before)
    lines = [json.loads(each.getMessage()) for each in caplog.records if each.name == "sparklog.audit"]
    assert [(line["principal"], line["error"]) for line in lines] == [("anna", "TOPIC_AUTHORIZATION_FAILED")] * 2
    assert (lines[0]["kind"], lines[1]["request"]) == ("delete-topic", "GET /actions/delete-topic")


def test_without_a_token_there_is_no_form(tmp_path: Path) -> None:
    with acting(tmp_path, access=lambda: access("alter:*")) as asked:
        before = asked.state.n
        for headers in ({}, basic("anna:wrong")):
            assert asked.get("/actions/delete-topic", {"topic": "orders"}, headers).status == 401
            assert asked.send("delete-topic", "x", headers).status == 401
        assert asked.state.n == before


# ---- forms of others ----------------------------------------------------------------------------------

FOREIGN = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": ""},
    {"origin": "null", "host": ""},
    {"origin": "://", "host": ""},
    {"origin": "http://localhost:7401"},
    {"origin": f"http://{HOST}.evil.example"},
    {"origin": f"http://evil.example/{HOST}"},
    {"origin": ORIGIN, "sec-fetch-site": "cross-site"},
    {"origin": ORIGIN, "sec-fetch-site": "same-site"},
    {"origin": ORIGIN, "sec-fetch-site": "none"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
@pytest.mark.parametrize("has_access", [True, False])
def test_a_form_that_another_site_sends_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, headers: dict[str, str], has_access: bool
) -> None:
    """A browser sends its user's password along with it, as with any request to the coordinator."""
    caplog.set_level(logging.INFO, "sparklog.audit")
    with acting(tmp_path, access=(lambda: access("alter:*")) if has_access else None) as asked:
        before = asked.state.n
        sealed = sealed_in(plan_of(asked, "delete-topic", ANNA))
        page = asked.send("delete-topic", sealed, {**ANNA, **headers})
        refused(asked, page, 403, "CLUSTER_AUTHORIZATION_FAILED", before=before)
    (line,) = [json.loads(each.getMessage()) for each in caplog.records if each.name == "sparklog.audit"]
    assert (line["request"], line["error"]) == ("POST /actions/delete-topic", "CLUSTER_AUTHORIZATION_FAILED")


@pytest.mark.parametrize("address", ["own", "advertised"])
def test_a_form_of_its_own_is_taken_also_behind_a_proxy(tmp_path: Path, address: str) -> None:
    with acting(tmp_path, access=lambda: access("alter:*")) as asked:
        advertised = asked.coordinator.service.control.leadership.address
        headers = {"origin": ORIGIN if address == "own" else advertised, "sec-fetch-site": "same-origin"}
        sealed = sealed_in(plan_of(asked, "delete-topic", ANNA))
        assert asked.send("delete-topic", sealed, {**ANNA, **headers}).status == 200
        assert "orders" not in asked.state.topic_ids


def test_a_form_without_its_token_or_with_that_of_another_one_changes_nothing(tmp_path: Path) -> None:
    with acting(tmp_path) as asked:
        before = asked.state.n
        sealed = sealed_in(plan_of(asked, "delete-topic"))
        assert sealed is not None
        raw = urlsafe_b64decode(sealed)
        forged = [urlsafe_b64encode(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]).decode() for at in (0, 31, 32, 90)]
        foreign = sealed_in(plan_of(Acting(asked.coordinator), "delete-topic"))  # as after a restart
        for wrong in (None, "", "x", "%", "ü", sealed[:-4], sealed[:44], foreign, *forged):
            refused(asked, asked.send("delete-topic", wrong), 403, "wanted a form that this process", before=before)
        page = asked.send("create-topic", sealed)
        refused(asked, page, 403, "the form was made for delete-topic by anonymous", before=before)


def test_a_form_is_good_for_its_principal_only(tmp_path: Path) -> None:
    def both() -> Access:
        anna, ben = access("alter:*"), access("alter:*", token="of-ben")
        ((principal, hashes),) = ben.principals
        return Access((*anna.principals, (type(principal)("ben", principal.rights), hashes)))

    with acting(tmp_path, access=both) as asked:
        before = asked.state.n
        sealed = sealed_in(plan_of(asked, "delete-topic", ANNA))
        page = asked.send("delete-topic", sealed, basic("ben:of-ben"))
        refused(asked, page, 403, "the form was made for delete-topic by anna", before=before)


def test_a_form_is_good_for_some_minutes_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with acting(tmp_path) as asked:
        before = asked.state.n
        sealed = sealed_in(plan_of(asked, "delete-topic"))
        for later_ms in (VALID_MS + 60_000, -60_000):
            at_ms = now_ms() + later_ms
            monkeypatch.setattr(action_routes, "now_ms", lambda at_ms=at_ms: at_ms)
            refused(asked, asked.send("delete-topic", sealed), 403, "load the plan again", before=before)


# ---- input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "given", "status", "text"),
    [
        ("create-topic", {}, 400, "INVALID_OPTION: topic: wanted a value"),
        ("create-topic", {"topic": "orders"}, 409, "TOPIC_ALREADY_EXISTS"),
        ("create-topic", {"topic": "a/b"}, 400, "INVALID_TOPIC_EXCEPTION"),
        ("create-topic", {"topic": "new", "partitions": "0"}, 400, "INVALID_PARTITIONS"),
        ("create-topic", {"topic": "new", "partitions": "x"}, 400, "INVALID_OPTION: partitions: wanted a number"),
        ("create-topic", {"topic": "new", "partitions": "9" * 30}, 400, "INVALID_OPTION: partitions"),
        ("create-topic", {"topic": "new", "replication_factor": "2"}, 400, "INVALID_REPLICATION_FACTOR"),
        ("create-topic", {"topic": "new", "config": "retention.ms"}, 400, "INVALID_OPTION: config"),
        ("create-topic", {"topic": "new", "config": "retention.mss=1"}, 400, "did you mean retention.ms?"),
        ("create-topic", {"topic": "new", "config": "retention.ms=x"}, 400, "INVALID_CONFIG"),
        ("create-topic", {"topic": "new", "config": "retention.ms=1" + "0" * 20_000}, 400, "at most 20000 characters"),
        ("alter-topic", {"topic": "orders"}, 400, "nothing to change"),
        ("alter-topic", {}, 400, "INVALID_OPTION: topic: wanted a name"),
        ("alter-topic", {"topic": "none", "set": "segment.ms=1"}, 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("alter-topic", {"topic": "orders", "remove": "x"}, 400, "INVALID_CONFIG"),
        ("alter-topic", {"topic": "orders", "set": "segment.ms=1", "remove": "segment.ms"}, 400, "is in both"),
        ("delete-records", {"topic": "orders"}, 400, "INVALID_OPTION: offset"),
        ("delete-records", {"topic": "orders", "offset": "-1"}, 400, "wanted an offset from 0, or end"),
        ("delete-records", {"topic": "orders", "offset": "1e3"}, 400, "INVALID_OPTION: offset"),
        ("delete-records", {"topic": "orders", "offset": str(RECORDS + 1)}, 400, "OFFSET_OUT_OF_RANGE"),
        ("delete-records", {"topic": "orders", "offset": "1", "partition": "7"}, 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("delete-topic", {"topic": "none"}, 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("reset-group", {"group": "billing"}, 400, "INVALID_OPTION: to"),
        ("reset-group", {"group": "billing", "to": "x"}, 400, "wanted one of to-earliest"),
        ("reset-group", {"group": "billing", "to": "to-offset"}, 400, "wanted an offset from 0"),
        ("reset-group", {"group": "billing", "to": "to-offset", "value": "-1"}, 400, "wanted an offset from 0"),
        ("reset-group", {"group": "billing", "to": "to-latest", "value": "1"}, 400, "to-latest takes none"),
        ("reset-group", {"group": "billing", "to": "to-datetime", "value": "2026-01-31"}, 400, "with its zone"),
        ("reset-group", {"group": "billing", "to": "to-latest", "partition": "1"}, 400, "wanted a topic with it"),
        ("reset-group", {"group": "nobody", "to": "to-latest"}, 404, "GROUP_ID_NOT_FOUND"),
        ("reset-group", {"group": "new", "to": "shift-by", "value": "1", "topic": "orders"}, 400, "can't be shifted"),
        ("reset-group", {"group": "billing", "to": "to-latest", "topic": "none"}, 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("delete-group", {"group": "nobody"}, 404, "GROUP_ID_NOT_FOUND"),
        ("no-such-thing", {}, 404, "wanted one of the actions"),
    ],
)
def test_what_is_filled_in_badly_is_a_sentence_and_changes_nothing(
    tmp_path: Path, action: str, given: dict[str, str], status: int, text: str
) -> None:
    with acting(tmp_path) as asked:
        before = asked.state.n
        page = asked.plan(action, given)
        refused(asked, page, status, text, before=before)
        fields = {found["name"]: found.get("value") for tag, found in page.tags if tag == "input" and "name" in found}
        assert all(fields[name] == value for name, value in given.items() if name in fields), "what was typed stays"


@pytest.mark.parametrize("body", [b"", b"\xff", b"sealed", b"sealed=" + b"A" * 100_000, b"a=1&" * 1_000])
def test_a_body_that_is_no_form_of_ours_changes_nothing(tmp_path: Path, body: bytes) -> None:
    with acting(tmp_path) as asked:
        before = asked.state.n
        headers = {"host": HOST, "origin": ORIGIN}
        answer = asked.coordinator.run(request(asked.app, "POST", "/actions/delete-topic", [body], headers))
        refused(asked, Records(answer), 403, "wanted a form that this process", before=before)
