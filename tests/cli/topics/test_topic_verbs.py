"""`sparklog topic …`."""

from __future__ import annotations

import json

import pytest

from sparklog.client.cluster import connect
from tests.cli.conftest import Cli
from tests.cli.replicated import said_by
from tests.client.mirrored_topic import SOURCE, MirroredTopic


def test_a_topic_is_created_described_altered_and_deleted(sparklog: Cli) -> None:  # M: N-03
    made = sparklog.json("topic", "create", "t", "-p", "2", "-c", "retention.ms=1000")
    assert made == {
        "topic": "t",
        "topic_id": 1,
        "partitions": 2,
        "assignment": [["local"], ["local"]],
        "config": {"retention.ms": "1000"},
        "dry_run": False,
    }
    altered = sparklog.json("topic", "alter", "t", "-s", "segment.bytes=1000", "-d", "retention.ms")
    assert (altered["before"], altered["config"]) == ({"retention.ms": "1000"}, {"segment.bytes": "1000"})
    assert sparklog.json("topic", "add-partitions", "t", "--total", "3")["before"] == 2
    found = sparklog.json("topic", "describe", "t")
    assert len(found["partitions"]) == 3
    assert (found["config"]["segment.bytes"], found["config_set_by"]) == ("1000", {"segment.bytes": "topic"})
    assert sparklog("topic", "delete", "t").out == "deleted topic t with 0 records (0 B)\n"
    assert sparklog("topic", "list").out == "no topics\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "u", "-p", "2"),
        ("alter", "orders", "-s", "segment.bytes=1000"),
        ("add-partitions", "orders", "--total", "3"),
        ("delete", "orders"),
    ],
)
def test_a_dry_run_says_what_would_be_done_and_writes_nothing(orders: Cli, arguments: tuple[str, ...]) -> None:
    before = orders.json("chain", "state")
    said = orders("topic", *arguments, "--dry-run")
    assert (said.code, said.err) == (0, "")
    assert "would" in said.out
    assert orders.json("topic", *arguments, "--dry-run")["dry_run"] is True
    assert orders.json("chain", "state") == before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("create", "orders"), 4),
        (("create", "u", "-p", "0"), 2),
        (("create", "u", "-r", "9"), 2),
        (("create", "u", "-c", "retention.ms=soon"), 2),
        (("alter", "orders"), 2),
        (("alter", "orders", "-d", "retention.mss"), 2),
        (("alter", "orders", "-d", "retention.ms", "-s", "retention.ms=1"), 2),
        (("alter", "none", "-s", "retention.ms=1"), 3),
        (("add-partitions", "orders", "--total", "1"), 2),
        (("add-partitions", "none", "--total", "2"), 3),
        (("delete", "none"), 3),
    ],
)
def test_a_dry_run_fails_where_the_real_one_would(orders: Cli, arguments: tuple[str, ...], code: int) -> None:
    dry = orders("topic", *arguments, "--dry-run")
    real = orders("topic", *arguments)
    assert (dry.code, dry.out, dry.err) == (real.code, real.out, real.err)
    assert real.code == code


# M: S-01
def test_topics_are_listed_by_name_with_their_size(orders: Cli) -> None:
    orders("topic", "create", "bills", "-p", "2")
    bills, found = orders.json("topic", "list")
    counts = {
        "partitions": 2,
        "replication_factor": 1,
        "records": 0,
        "size_bytes": 0,
        "segments": 0,
        "oldest_ms": None,
        "newest_ms": None,
    }
    assert bills.pop("created_ms") > 0
    assert (bills.pop("mirror_of"), bills.pop("promoted_from")) == (None, None)
    assert bills == {"topic": "bills", "topic_id": 2, "state": "in sync", **counts}
    assert (found["topic"], found["records"], found["size_bytes"] > 0) == ("orders", 3, True)
    assert [line.split()[0] for line in orders("topic", "list").out.splitlines()] == ["topic", "bills", "orders"]


def test_describe_shows_times_and_the_next_retention_cut(sparklog: Cli) -> None:
    sparklog("topic", "create", "t", "-c", "retention.ms=1000")
    stamps = (1_700_000_005_000, 1_700_000_003_000)
    for stamp in stamps:
        sparklog("produce", "t", "--json", stdin=json.dumps({"value": "v", "timestamp": stamp}))
    (row,) = sparklog.json("topic", "describe", "t")["partitions"]
    assert (row["oldest_ms"], row["newest_ms"], row["next_cut_ms"]) == (stamps[1], stamps[0], stamps[0] + 1001)
    assert (row["log_start"], row["high_watermark"], row["log_end"], row["segments"]) == (0, 2, 2, 2)
    assert (row["leader"], row["isr"]) == ("local", ["local"])
    assert "2023-11-14T22:13:25.000Z" in sparklog("topic", "describe", "t").out
    sparklog("topic", "alter", "t", "-s", "retention.ms=-1")
    assert sparklog.json("topic", "describe", "t")["partitions"][0]["next_cut_ms"] is None


def test_what_retention_would_take_by_size_is_due_now(orders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    orders("topic", "alter", "orders", "-s", "retention.bytes=0", "-s", "retention.ms=-1")
    monkeypatch.setattr("sparklog.cli.topics.topic_verbs.now_ms", lambda: 1_900_000_000_000)
    assert orders.json("topic", "describe", "orders")["partitions"][0]["next_cut_ms"] == 1_900_000_000_000


def test_describe_tells_what_the_cluster_sets(nowhere: Cli) -> None:
    nowhere("cluster", "init", "-c", "log.retention.ms=5000")
    nowhere("topic", "create", "t")
    assert "retention.ms=5000 (cluster)" in nowhere("topic", "describe", "t").out
    assert nowhere.json("topic", "describe", "t")["config_set_by"] == {"retention.ms": "cluster"}


def test_the_end_of_a_leader_epoch_is_shown(sparklog: Cli) -> None:  # M: L-05
    sparklog("topic", "create", "t", "-p", "2")
    sparklog("produce", "t", "--json", stdin=json.dumps({"value": "v", "partition": 1}))
    rows = [{"topic": "t", "partition": at, "leader_epoch": 0, "offset": at} for at in (0, 1)]
    assert sparklog.json("topic", "offsets", "t", "--leader-epoch", "0") == rows
    rows = [each | {"leader_epoch": None, "offset": None} for each in rows]
    assert sparklog.json("topic", "offsets", "t", "--leader-epoch", "1") == rows


def test_offsets_are_found_by_time(sparklog: Cli) -> None:  # M: S-05
    sparklog("topic", "create", "t", "-p", "2")
    lines = [{"value": "v", "partition": 0, "timestamp": stamp} for stamp in (1000, 3000, 2000)]
    sparklog("produce", "t", "--json", stdin="\n".join(json.dumps(each) for each in lines))

    def offsets(time: str) -> list[int | None]:
        return [row["offset"] for row in sparklog.json("topic", "offsets", "t", "--time", time)]

    assert offsets("earliest") == [0, 0]
    assert offsets("latest") == [3, 0]
    assert offsets("max-timestamp") == [1, None]
    assert offsets("1500") == [1, None]
    assert offsets("1970-01-01T00:00:01+00:00") == [0, None]
    assert offsets("3001") == [None, None]
    assert sparklog("topic", "offsets", "t", "--time", "3001").out.splitlines()[1].split() == ["t", "0", "-"]
    said = sparklog("topic", "offsets", "t", "--time", "noon")
    assert (said.code, "max-timestamp" in said.err) == (2, True)


# M: N-03
def test_partitions_are_spread_over_the_zones_or_put_by_hand(replicated: Cli) -> None:
    assert replicated("store", "add", "d@z1=../d").code == 0
    zones = {row["store"]: row["zone"] for row in replicated.json("store", "list")}
    made = replicated.json("topic", "create", "u", "-p", "8", "-r", "3")
    assert all(len({zones[store] for store in stores}) == 3 for stores in made["assignment"])
    leaders = [stores[0] for stores in made["assignment"]]
    assert sorted(leaders) == ["a", "a", "b", "b", "c", "c", "d", "d"]
    made = replicated.json("topic", "create", "v", "--assignment", "d:b,b:a")
    assert (made["partitions"], made["assignment"]) == (2, [["d", "b"], ["b", "a"]])
    added = replicated.json("topic", "add-partitions", "v", "--total", "3", "--assignment", "c:d")
    assert (added["partitions"], added["added"]) == (3, [["c", "d"]])
    found = replicated.json("topic", "describe", "v")["partitions"]
    assert [(row["leader"], [replica["store"] for replica in row["replicas"]]) for row in found] == [
        ("d", ["d", "b"]),
        ("b", ["b", "a"]),
        ("c", ["c", "d"]),
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("create u --assignment a:x", "INVALID_REPLICA_ASSIGNMENT: partition 0 needs 2 different stores of ['a', 'b']"),
        ("create u --assignment a:b,b:b", "INVALID_REPLICA_ASSIGNMENT: partition 1 needs 2 different stores"),
        ("create u --assignment a:b,b", "INVALID_REPLICA_ASSIGNMENT: partition 1 needs 2 different stores"),
        ("create u --assignment a:c", "INVALID_REPLICA_ASSIGNMENT: partition 0 needs 2 different stores"),
        (
            "create u -r 3",
            "INVALID_REPLICATION_FACTOR: replication factor 3 needs as many stores, the cluster has 2 that",
        ),
        ("add-partitions t --total 2", "INVALID_REPLICATION_FACTOR: replication factor 3 needs as many stores"),
        ("add-partitions t --total 2 --assignment a:b", "INVALID_REPLICA_ASSIGNMENT: each partition of topic t has 3"),
        ("add-partitions t --total 2 --assignment a:b:c", "INVALID_REPLICA_ASSIGNMENT: partition 0 needs 3 different"),
    ],
)
def test_an_assignment_that_can_not_be_is_refused(replicated: Cli, arguments: str, text: str) -> None:
    replicated("store", "fence", "c")
    before = said_by(replicated)
    for more in ((), ("--dry-run",)):
        said = replicated("topic", *arguments.split(), *more)
        assert (said.code, said.out) == (2, "")
        assert text in said.err
    assert said_by(replicated) == before


def test_a_mirrored_topic_is_promoted(sparklog: Cli) -> None:
    with connect(sparklog.url) as cluster:
        MirroredTopic(cluster).create(partitions=2).append([2, 3], end=5)
    assert sparklog.json("topic", "describe", "t")["mirror_of"] == str(SOURCE)
    assert f"mirror of           {SOURCE}" in sparklog("topic", "describe", "t").out
    said = sparklog("topic", "promote", "t", "--end", "0=9", "--dry-run")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[0].split("  ")[0] == "partition"
    assert said.out.splitlines()[1].split() == ["0", "5", "9", "4", "1"]
    assert said.out.splitlines()[-1].startswith("would promote topic t, the mirror of orders in Kafka cluster kafka-1")
    assert sparklog.json("topic", "describe", "t")["mirror_of"] == str(SOURCE)
    assert sparklog.json("topic", "promote", "t", "--end", "0=9")["partitions"][0]["end"] == 9
    found = sparklog.json("topic", "describe", "t")
    assert (found["mirror_of"], found["promoted_from"]) == (None, str(SOURCE))
    assert ([each["log_end"] for each in found["partitions"]]) == [9, 0]
    again = sparklog("topic", "promote", "t")
    assert (again.code, "wanted a mirror topic to promote" in again.err) == (2, True)


@pytest.mark.parametrize("end", ["0", "0=", "=5", "x=5", "0=5x", "0=-1"])
def test_an_end_is_an_offset_of_a_partition(orders: Cli, end: str) -> None:
    said = orders("topic", "promote", "orders", "--end", end)
    assert said.code == 2
    assert "--end: wanted" in said.err


def test_a_partition_has_one_end(orders: Cli) -> None:
    assert "once for each partition" in orders("topic", "promote", "orders", "--end", "0=5", "--end", "00=6").err
