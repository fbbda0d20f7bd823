"""`sparklog store …`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import sparklog as library
from sparklog.client.bootstrap import init_cluster
from sparklog.core.commands import AgentDown, AgentUp, NewStore, RegisterStore
from sparklog.core.types import StoreId
from sparklog.maintenance import run_vacuum
from sparklog.maintenance.job_report import WorkOutcome
from sparklog.spark.planner.plan_requests import PLAN_REQUESTS
from sparklog.storage.keys import INCARNATION
from tests.cli.conftest import Cli
from tests.cli.replicated import disk, replicas, report_all, said_by, state_of
from tests.faults.unchanged_cluster import unchanged
from tests.kit.silent_console import SILENT


def refused(cli: Cli, arguments: str, code: int, text: str) -> None:
    """The command line fails with this code and text, and so does its dry run; the state stays as it is."""
    before = said_by(cli)
    for more in ((), ("--dry-run",)):
        said = cli(*arguments.split(), *more)
        assert (said.code, said.out, said.err.count("\n")) == (code, "", 1)
        assert text in said.err
    assert said_by(cli) == before


# M: N-02
def test_stores_are_listed_with_what_they_have_and_whether_they_live(replicated: Cli) -> None:
    with library.connect(replicated.url) as cluster:
        cluster.submit(AgentUp(StoreId("b"), 1))
        cluster.submit(AgentDown(StoreId("c"), 2))
    replicated("store", "add", "d=../d")
    replicated("store", "fence", "a")
    rows = {row["store"]: row for row in replicated.json("store", "list")}
    assert {store: (row["state"], row["zone"], row["replicas"], row["leaders"]) for store, row in rows.items()} == {
        "a": ("fenced", "z1", 1, 0),
        "b": ("live", "z2", 1, 1),
        "c": ("dead", "z3", 1, 0),
        "d": ("new", None, 0, 0),
    }
    assert rows["a"]["size_bytes"] == rows["b"]["size_bytes"] > 0 == rows["d"]["size_bytes"]
    assert rows["d"]["url"] == f"file://{disk(replicated, 'd')}"
    lines = replicated("store", "list").out.splitlines()
    columns = "store url zone registration state replicas leaders behind lag records max lag records size"
    assert " ".join(lines[0].split()) == columns


@pytest.mark.parametrize("url", ["~no-such-user/z", "file:///z%ff", "../../../../../../../../../../../../../../../z"])
@pytest.mark.parametrize("copies", [0, 1])
def test_a_store_whose_address_can_not_be_opened_holds_up_nothing_and_can_be_removed(
    replicated: Cli, monkeypatch: pytest.MonkeyPatch, url: str, copies: int
) -> None:
    """Registered by a version that did not refuse it, or seen from a cluster address with fewer folders."""
    assert replicated("cluster", "alter", "--set", f"metadata.copies={copies}").code == 0
    with monkeypatch.context() as patch, library.connect(replicated.url) as cluster:
        patch.setattr("sparklog.core.decide.stores.check_store_address", lambda url: None)
        cluster.submit(RegisterStore(NewStore(StoreId("z"), url, "f" * 32)))
    assert {row["store"]: row["url"] for row in replicated.json("store", "list")}["z"] == url
    assert {store["store"]: store["url"] for store in replicated.json("cluster", "info")["stores"]}["z"] == url
    health = replicated("cluster", "health", "--format", "json")
    assert (health.code, health.err) == (5, "")
    assert [store["store"] for store in health.json["stores"]] == ["a", "b", "c", "z", "metadata"]
    with library.connect(replicated.url) as cluster:
        assert cluster.connection.addresses(cluster.connection.follower.state).urls[StoreId("z")] == url
    rows = run_vacuum(replicated.url, console=SILENT).partitions
    failed = {row.place for row in rows if row.outcome is WorkOutcome.FAILED}
    assert failed == {"z:topics/", "z:uploads", *(["z:copies"] if copies else [])}
    request = json.dumps({"options": {"cluster": replicated.url, "subscribe": "t"}}).encode()
    assert url in json.loads(PLAN_REQUESTS["stores"](request)), "Java can't read it, so Python plans reads"
    assert {*json.loads(PLAN_REQUESTS["plan_read"](request))} == {"tasks", "warnings"}
    replicated.json("store", "add", "d=../d")
    replicated.json("store", "remove", "z")
    assert "z" not in state_of(replicated).stores


# M: N-02
def test_a_store_is_added_marked_and_used(replicated: Cli) -> None:
    dry = replicated.json("store", "add", "d@z4=../d", "--dry-run")
    assert "d" not in state_of(replicated).stores
    assert not (disk(replicated, "d") / INCARNATION).exists()
    added = replicated.json("store", "add", "d@z4=../d")
    mark = json.loads((disk(replicated, "d") / INCARNATION).read_bytes())
    assert (added["incarnation"], state_of(replicated).chain_id) == (mark["incarnation"], mark["chain_id"])
    same = ("store", "url", "zone", "registration", "again")
    assert [added[name] for name in same] == [dry[name] for name in same] == ["d", "../d", "z4", 3, False]
    made = replicated.json("topic", "create", "u", "-p", "4", "-r", "4")
    assert sorted(each[0] for each in made["assignment"]) == ["a", "b", "c", "d"]


def test_an_add_that_died_before_it_was_registered_is_continued(replicated: Cli) -> None:
    chain_id = state_of(replicated).chain_id
    disk(replicated, "d").mkdir()
    mark = {"incarnation": "f" * 32, "chain_id": chain_id}
    (disk(replicated, "d") / INCARNATION).write_text(json.dumps(mark))
    assert replicated.json("store", "add", "d=../d")["incarnation"] == "f" * 32


# M: P-02
def test_a_fenced_store_comes_back_with_what_it_had_and_in_its_zone(replicated: Cli) -> None:
    assert replicated("store", "fence", "a").code == 0
    assert replicas(replicated) == ["t-0 b:bc a2 b2 c2"]
    shutil.move(disk(replicated, "a"), disk(replicated, "moved"))
    back = replicated.json("store", "add", "a=../moved")
    assert (back["again"], back["zone"], back["registration"]) == (True, "z1", 4)
    report_all(replicated, "a")
    assert replicas(replicated) == ["t-0 b:abc a2 b2 c2"]
    assert replicated.json("store", "add", "d@z1=../d")["zone"] == "z1"


# M: P-06
def test_fencing_says_what_it_leads_to(replicated: Cli) -> None:
    replicated("topic", "alter", "t", "-s", "min.insync.replicas=3")
    before = said_by(replicated)
    dry = replicated.json("store", "fence", "a", "--dry-run")
    assert said_by(replicated) == before
    done = replicated.json("store", "fence", "a")
    assert {**done, "dry_run": True} == dry
    effects = {"replicas": 1, "leaders_elected": 1, "offline": 0, "under_min_isr": 1}
    assert {name: done[name] for name in effects} == effects
    before = said_by(replicated)
    assert replicated("store", "fence", "a").out == "store a is fenced already\n"
    assert said_by(replicated) == before


def test_a_store_goes_when_it_has_no_replica(replicated: Cli) -> None:
    refused(
        replicated, "store remove c", 4, "CONFLICT: store c has 1 replica: move them to other stores first (sparklog"
    )
    replicated("topic", "delete", "t")
    with unchanged(str(disk(replicated, "c"))):
        assert replicated("store", "remove", "c", "--dry-run").out == "would remove store c at ../c\n"
        assert "c" in state_of(replicated).stores
        assert replicated("store", "remove", "c").out == "removed store c at ../c\n"
    assert "c" not in state_of(replicated).stores
    assert replicated.json("store", "add", "c=../c")["again"] is False  # its mark is of this cluster


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ("store fence d", 3, "BROKER_ID_NOT_REGISTERED: wanted store 'd', the cluster has a, b, c"),
        ("store remove d", 3, "BROKER_ID_NOT_REGISTERED: wanted store 'd'"),
        ("store add a=../a", 4, "DUPLICATE_BROKER_REGISTRATION: store a is already registered, and not fenced"),
        (
            "store add d=../a",
            4,
            "DUPLICATE_BROKER_REGISTRATION: wanted stores at addresses of their own, found a and d",
        ),
        ("store add A=../d", 2, "INVALID_REQUEST: each store needs an id of its own, found 'a' and 'A'"),
        ("store add d@z|1=../d", 2, "INVALID_REQUEST: a zone is up to 100 of"),
        ("store add d", 2, "wanted ID=URL or ID@ZONE=URL, found 'd'"),
        ("store add d=memory://d", 2, "store d at memory://d would end with this process"),
        ("store add d=s4://d", 2, "not s4://"),
    ],
)
def test_what_is_no_store_is_refused_and_changes_nothing(replicated: Cli, arguments: str, code: int, text: str) -> None:
    refused(replicated, arguments, code, text)
    assert not (disk(replicated, "d") / INCARNATION).exists()


def test_one_place_under_two_addresses_is_one_store(replicated: Cli) -> None:
    """A link, as a bucket behind two endpoints: its INCARNATION tells."""
    disk(replicated, "link").symlink_to(disk(replicated, "a"))
    refused(replicated, "store add d=../link", 4, "is registered as a, not as d")
    url = str(Path(replicated.url).parent / "other")
    disk(replicated, "x").mkdir()
    disk(replicated, "y").symlink_to(disk(replicated, "x"))
    said = Cli(url, replicated.capsys, replicated.monkeypatch)(
        "cluster", "init", "--store", "x=../x", "--store", "y=../y"
    )
    assert (said.code, "found that x and y are one" in said.err) == (4, True)
    assert not (disk(replicated, "x") / INCARNATION).exists()


def test_a_store_of_another_cluster_is_not_taken(replicated: Cli) -> None:
    other = disk(replicated, "other")
    init_cluster(str(other))
    with unchanged(str(other)):
        refused(replicated, "store add d=../other", 4, "INCONSISTENT_CLUSTER_ID: store d at file://")


# M: P-07
@pytest.mark.parametrize("mark", [None, "f" * 32])
def test_a_wiped_or_swapped_store_does_not_come_back_as_if_it_had_everything(replicated: Cli, mark: str | None) -> None:
    """Its agent, which reports a loss, does not work for a fenced store: the operator's command reports it."""
    replicated("store", "fence", "a")
    shutil.rmtree(disk(replicated, "a"))
    if mark is not None:
        disk(replicated, "a").mkdir()
        text = json.dumps({"incarnation": mark, "chain_id": state_of(replicated).chain_id})
        (disk(replicated, "a") / INCARNATION).write_text(text)
    refused(replicated, "store add a@z9=../a", 2, "a store that was wiped comes back in its zone 'z1', found 'z9'")
    said = "register store a again at ../a in zone z1: it was wiped, so it comes back empty, and its agent fills it"
    assert replicated("store", "add", "a=../a", "--dry-run").out == f"would {said}\n"
    assert (disk(replicated, "a") / INCARNATION).exists() is (mark is not None)
    assert replicas(replicated) == ["t-0 b:bc a2 b2 c2"]
    added = replicated.json("store", "add", "a=../a")
    assert (added["again"], added["wiped"], added["registration"]) == (True, True, 4)
    assert replicas(replicated) == ["t-0 b:bc a0 b2 c2"]
    written = json.loads((disk(replicated, "a") / INCARNATION).read_text())["incarnation"]
    assert written == added["incarnation"] == state_of(replicated).stores[StoreId("a")].incarnation
    assert mark in (None, written)
    refused(replicated, "store add a=../a", 4, "store a is already registered, and not fenced")


def test_a_wiped_store_that_is_not_fenced_is_left_to_its_agent(replicated: Cli) -> None:
    shutil.rmtree(disk(replicated, "a"))
    refused(replicated, "store add a=../a", 4, "found none at file:")
    assert not disk(replicated, "a").exists()  # its mark is not made again in silence


def test_a_mistaken_address_of_a_fenced_store_does_not_count_as_its_loss(replicated: Cli) -> None:
    replicated("store", "fence", "a")
    before = said_by(replicated)
    refused(replicated, "store add a=../typo", 4, "a store that was wiped comes back at its address, file:")
    assert not disk(replicated, "typo").exists()
    assert said_by(replicated) == before


def test_the_place_of_a_wiped_store_is_not_another_store(replicated: Cli) -> None:
    shutil.rmtree(disk(replicated, "a"))
    refused(replicated, "store add d=../a", 4, "wanted stores at addresses of their own, found")
    assert not disk(replicated, "a").exists()


def test_the_last_store_stays(sparklog: Cli) -> None:
    refused(sparklog, "store remove local", 4, "CONFLICT: store local is the only one of the cluster")
