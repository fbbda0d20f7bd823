"""`sparklog replica …`."""

from __future__ import annotations

import shutil

import pytest

import sparklog as library
from sparklog.core.commands import AgentDown
from sparklog.core.types import StoreId
from tests.cli.cluster.test_store_verbs import refused
from tests.cli.conftest import Cli
from tests.cli.replicated import disk, replicas, report_all, said_by


def produce(cli: Cli, *values: str) -> None:
    assert cli("produce", "t", stdin="\n".join(values)).code == 0


# ---- list -------------------------------------------------------------------------------------------


# M: L-01 P-01
def test_replicas_are_listed_with_their_part_and_their_lag(replicated: Cli) -> None:
    replicated("store", "fence", "c")
    produce(replicated, "z")
    (found,) = replicated.json("replica", "list")
    assert {name: found[name] for name in ("topic", "partition", "leader", "leader_epoch", "high_watermark")} == {
        "topic": "t",
        "partition": 0,
        "leader": "a",
        "leader_epoch": 0,
        "high_watermark": 3,
    }
    assert (found["isr"], found["elr"], found["adding"], found["removing"]) == (["a", "b"], [], [], [])
    assert [(row["store"], row["zone"], row["log_end"], row["lag_records"]) for row in found["replicas"]] == [
        ("a", "z1", 3, 0),
        ("b", "z2", 3, 0),
        ("c", "z3", 2, 1),
    ]
    behind = found["replicas"][2]
    assert behind["lag_bytes"] > 0
    assert behind["size_bytes"] + behind["lag_bytes"] == found["replicas"][0]["size_bytes"]
    assert (behind["reachable"], behind["in_isr"]) == (False, False)
    _, *lines = replicated("replica", "list").out.splitlines()
    assert [line.split()[4:8] for line in lines] == [
        ["a", "z1", "leader", "3"],
        ["b", "z2", "in", "sync"],
        ["c", "z3", "lagging,", "fenced"],
    ]


def test_a_replica_that_is_not_in_sync_and_lacks_nothing_committed_is_eligible(replicated: Cli) -> None:
    replicated("store", "fence", "c")
    assert "eligible, fenced" in replicated("replica", "list").out
    (found,) = replicated.json("replica", "list")
    assert [each["may_lead"] for each in found["replicas"]] == [True] * 3


def test_the_list_can_be_of_what_is_wrong(replicated: Cli) -> None:
    replicated("topic", "create", "u", "--assignment", "a:b,c:b")
    assert replicated.json("replica", "list", "--under-replicated") == []
    assert replicated("replica", "list", "--offline").out == "no such partitions\n"
    replicated("store", "fence", "c")
    found = replicated.json("replica", "list", "--under-replicated")
    assert [(row["topic"], row["partition"]) for row in found] == [("t", 0), ("u", 1)]
    assert len(replicated.json("replica", "list", "--topic", "u")) == 2
    replicated("store", "fence", "b")
    (offline,) = replicated.json("replica", "list", "--offline")
    assert (offline["topic"], offline["partition"], offline["leader"], offline["elr"]) == ("u", 1, None, ["b"])
    assert replicated("replica", "list", "--topic", "nope").code == 3


def test_a_cluster_without_topics_has_no_replica(sparklog: Cli) -> None:
    assert sparklog("replica", "list").out == "no topics\n"
    assert sparklog.json("replica", "list") == []


# ---- move -------------------------------------------------------------------------------------------


# M: P-11
def test_a_partition_moves_to_another_store_while_it_is_written(replicated: Cli) -> None:
    replicated("store", "add", "d@z1=../d")
    before = said_by(replicated)
    dry = replicated.json("replica", "move", "t", "--to", "d,b,c", "--dry-run")
    assert said_by(replicated) == before
    begun = replicated.json("replica", "move", "t", "--to", "d,b,c")
    assert begun["moves"] == dry["moves"]
    (row,) = begun["moves"]
    assert (row["before"], row["after"], row["adding"], row["removing"]) == (
        ["a", "b", "c"],
        ["d", "b", "c"],
        ["d"],
        ["a"],
    )
    assert "lagging, adding" in replicated("replica", "list").out
    produce(replicated, "z")
    report_all(replicated, "d")
    assert replicas(replicated) == ["t-0 d:dbc d3 b3 c3"]
    assert replicated("store", "remove", "a").code == 0
    assert replicated("replica", "move", "t", "--to", "d,b,c").out == "moving the replicas of 0 partitions\n"


# M: P-11
def test_everything_moves_off_a_store_by_zone(replicated: Cli) -> None:
    replicated("topic", "create", "u", "--assignment", "b:a,c:b")
    replicated("store", "add", "d@z1=../d")
    replicated("store", "add", "e@z2=../e")
    found = replicated.json("replica", "move", "--off", "a")["moves"]
    assert [(row["topic"], row["partition"], row["after"]) for row in found] == [
        ("t", 0, ["d", "b", "c"]),
        ("u", 0, ["b", "d"]),
    ]
    report_all(replicated, "d")
    assert replicated("store", "remove", "a").code == 0


# M: P-11
def test_a_move_is_cancelled(replicated: Cli) -> None:
    replicated("store", "add", "d@z1=../d")
    replicated("replica", "move", "t", "--to", "d,b,c")
    assert replicated.json("replica", "move", "--cancel")["moves"][0]["after"] == ["b", "c", "a"]
    assert replicas(replicated) == ["t-0 a:bca b2 c2 a2"]
    refused(replicated, "replica move --cancel", 4, "NO_REASSIGNMENT_IN_PROGRESS: wanted to cancel moves")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (
            "replica move t --to a,d",
            2,
            "INVALID_REPLICA_ASSIGNMENT: t-0: wanted stores of ['a', 'b', 'c'], found",
        ),
        ("replica move t --to a,a", 2, "INVALID_REPLICA_ASSIGNMENT: t-0: a partition needs different stores"),
        ("replica move t --to a,", 2, "INVALID_REPLICA_ASSIGNMENT: t-0: wanted stores of"),
        ("replica move t -p 7 --to a", 3, "UNKNOWN_TOPIC_OR_PARTITION: wanted partition 7 of topic t"),
        ("replica move nope --to a", 3, "UNKNOWN_TOPIC_OR_PARTITION: wanted topic 'nope'"),
        ("replica move --off d", 3, "BROKER_ID_NOT_REGISTERED: wanted store 'd'"),
        (
            "replica move --off a",
            2,
            "INVALID_REPLICATION_FACTOR: the replicas a, b, c need 3 stores; without a",
        ),
        ("replica move t", 2, "wanted exactly one of --to ID,ID,…, --off ID and --cancel"),
        ("replica move t --to a --cancel", 2, "wanted exactly one of --to ID,ID,…, --off ID and --cancel"),
        ("replica move --to a", 2, "--to needs TOPIC: give it too"),
        ("replica move -p 0 --cancel", 2, "--partition needs TOPIC: give it too"),
    ],
)
def test_a_move_that_can_not_be_is_refused(replicated: Cli, arguments: str, code: int, text: str) -> None:
    refused(replicated, arguments, code, text)


def test_nothing_moves_to_a_fenced_store(replicated: Cli) -> None:
    replicated("topic", "create", "u", "--assignment", "a:b")
    replicated("store", "fence", "c")
    refused(replicated, "replica move u --to a,c", 2, "INVALID_REPLICA_ASSIGNMENT: u-0: stores ['c'] are fenced")


# ---- elect ------------------------------------------------------------------------------------------


# M: P-11
def test_the_preferred_leader_comes_back(replicated: Cli) -> None:
    replicated("store", "fence", "a")
    replicated("store", "add", "a=../a")
    refused(replicated, "replica elect", 1, "PREFERRED_LEADER_NOT_AVAILABLE: t-0: store b leads and can be reached")
    report_all(replicated, "a")
    before = said_by(replicated)
    dry = replicated.json("replica", "elect", "--dry-run")
    assert said_by(replicated) == before
    assert replicated.json("replica", "elect")["elections"] == dry["elections"]
    assert dry["elections"] == [
        {
            "topic": "t",
            "partition": 0,
            "before": "b",
            "leader": "a",
            "leader_epoch": 2,
            "lost_records": 0,
            "refused": None,
        }
    ]
    assert replicas(replicated) == ["t-0 a:abc a2 b2 c2"]
    assert replicated("replica", "elect").out == "elected 0 leaders: every partition has its preferred leader\n"


def test_a_store_is_made_the_leader_of_what_it_may_lead(replicated: Cli) -> None:
    replicated("topic", "create", "u", "--assignment", "a:b,a:c")
    found = replicated.json("replica", "elect", "u", "--store", "c")["elections"]
    assert [(row["partition"], row["leader"]) for row in found] == [(0, "a"), (1, "c")]
    assert found[0]["refused"].startswith("INELIGIBLE_REPLICA: u-0: store c has no replica of the partition")
    assert "would elect 1 leader, 1 refused" in replicated("replica", "elect", "u", "--store", "b", "--dry-run").out


# M: P-06
def test_a_leader_that_is_silent_is_replaced(replicated: Cli) -> None:
    replicated("store", "fence", "b")
    replicated("store", "fence", "c")
    with library.connect(replicated.url) as cluster:
        cluster.submit(AgentDown(StoreId("a"), 0))
    refused(replicated, "replica elect", 1, "ELIGIBLE_LEADERS_NOT_AVAILABLE: t-0: a leader needs every record")


# M: P-06
def test_an_unclean_election_is_a_persons_decision(replicated: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    replicated("store", "fence", "b")
    replicated("store", "fence", "c")
    produce(replicated, "lost")
    replicated("store", "fence", "a")
    replicated("store", "add", "c=../c")
    assert replicas(replicated) == ["t-0 -: a3 b2 c2"]
    refused(replicated, "replica elect t", 1, "ELIGIBLE_LEADERS_NOT_AVAILABLE: t-0: a leader needs every record below")
    before = said_by(replicated)
    (row,) = replicated.json("replica", "elect", "t", "--unclean", "--dry-run")["elections"]
    assert (row["before"], row["leader"], row["lost_records"]) == (None, "c", 1)
    said = replicated("replica", "elect", "t", "--unclean")
    assert (said.code, "an unclean election that may lose 1 acknowledged record needs --yes" in said.err) == (2, True)
    assert said_by(replicated) == before
    monkeypatch.setattr("sparklog.cli.topics.replica_verbs._at_terminal", lambda: True)
    said = replicated("replica", "elect", "t", "--unclean", stdin="n\n")
    assert (said.code, said.out.strip()) == (130, "")
    assert "1 acknowledged record will be lost. Elect anyway?" in said.err
    assert said_by(replicated) == before
    assert replicated("replica", "elect", "t", "--unclean", "--yes").code == 0
    assert replicas(replicated) == ["t-0 c:c a3 b3 c3"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ("replica elect t --store d", 2, "INELIGIBLE_REPLICA: t-0: store d has no replica of the partition"),
        ("replica elect t --store a", 4, "ELECTION_NOT_NEEDED: t-0: store a already leads the partition"),
        ("replica elect --store a", 2, "--store needs TOPIC: give it too"),
        ("replica elect --unclean", 2, "--unclean needs TOPIC: give it too"),
        ("replica elect nope", 3, "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_an_election_that_can_not_be_is_refused(replicated: Cli, arguments: str, code: int, text: str) -> None:
    refused(replicated, arguments, code, text)


# ---- what else shows replicas -----------------------------------------------------------------------


def test_describe_shows_who_is_behind(replicated: Cli) -> None:
    replicated("store", "fence", "c")
    produce(replicated, "z")
    (row,) = replicated.json("topic", "describe", "t")["partitions"]
    replicas = [(replica["store"], replica["log_end"], replica["lag_records"]) for replica in row["replicas"]]
    assert replicas == [("a", 3, 0), ("b", 3, 0), ("c", 2, 1)]
    assert (row["leader"], row["leader_epoch"], row["isr"], row["elr"]) == ("a", 0, ["a", "b"], [])
    header, line = replicated("topic", "describe", "t").out.splitlines()[-2:]
    assert line[header.index("lag records") :].startswith("c 1 ")


def test_health_names_partitions_that_are_offline_or_lack_replicas(replicated: Cli) -> None:
    def health() -> tuple[int, list[str], list[str], list[int]]:
        said = replicated("cluster", "health", "--format", "json")
        counts = ("partitions_offline", "partitions_under_min_isr", "partitions_under_replicated")
        return said.code, said.json["wrong"], said.json["remarks"], [said.json[name] for name in counts]

    assert health() == (0, [], [], [0, 0, 0])
    replicated("store", "fence", "c")
    assert health() == (
        0,
        [],
        [
            "topic t: partition 0 has replicas that are not in sync (under-replicated)",
            "store c is fenced, and has 1 replica",
        ],
        [0, 0, 1],
    )
    replicated("topic", "alter", "t", "-s", "min.insync.replicas=3")
    code, wrong, _, counts = health()
    assert (code, counts) == (5, [0, 1, 0])
    assert wrong == [
        "topic t: partition 0 has fewer replicas in sync than min.insync.replicas: writes with acks=all fail"
    ]
    replicated("store", "fence", "a")
    replicated("store", "fence", "b")
    code, wrong, _, counts = health()
    assert (code, counts) == (5, [1, 0, 0])
    assert wrong == [
        "topic t: partition 0 has no leader: sparklog replica list --offline shows which stores could lead"
    ]


def test_what_is_wrong_with_a_fenced_store_is_a_remark(replicated: Cli) -> None:
    shutil.rmtree(disk(replicated, "c"))
    said = replicated("cluster", "health", "--format", "json")
    assert (said.code, said.json["wrong"][0].startswith("store c: nothing there: no INCARNATION")) == (5, True)
    replicated("store", "fence", "c")
    said = replicated("cluster", "health", "--format", "json")
    assert (said.code, said.json["wrong"]) == (0, [])
    assert said.json["remarks"][0].startswith("store c: nothing there: no INCARNATION")


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_more_replicas_wanted_in_sync_than_there_are_is_a_warning(
    replicated: Cli, dry: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    config = "min.insync.replicas=3"
    for arguments in (("create", "u", "-r", "2", "-c", config), ("alter", "u", "-s", config)):
        if dry and arguments[0] == "alter":
            replicated("topic", "create", "u", "-r", "2")
        caplog.clear()
        said = replicated("topic", *arguments, *dry)
        assert said.code == 0
        assert f"topic u: {config} is more than its 2 replicas" in said.err + caplog.text
    caplog.clear()
    said = replicated("topic", "alter", "t", "-s", config, *dry)
    assert (said.code, said.err + caplog.text) == (0, "")
