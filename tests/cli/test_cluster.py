"""`sparklog cluster …`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sparklog as library
from sparklog.cli import cluster as verbs
from sparklog.core.commands import ReportJob
from sparklog.storage.keys import INCARNATION
from sparklog.storage.local import LocalStore
from tests.cli.conftest import Cli


# M: N-02
def test_a_cluster_is_made_with_its_stores_and_config(nowhere: Cli) -> None:
    said = nowhere.json("cluster", "init", "--store", "a=disk-a", "--store", "b=disk-b", "-c", "num.partitions=3")
    found = nowhere.json("cluster", "info")
    assert (found["chain_id"], found["cluster"]) == (said["chain_id"], f"file://{nowhere.url}")
    assert found["stores"] == [
        {"store": "a", "url": f"file://{nowhere.url}/disk-a", "registration": 0},
        {"store": "b", "url": f"file://{nowhere.url}/disk-b", "registration": 1},
    ]
    assert found["config"] == {"num.partitions": "3"}
    assert nowhere.json("topic", "create", "t")["partitions"] == 3


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("-c", "num.partition=3"), "did you mean num.partitions"),
        (("-c", "retention.ms=3"), "log.retention.ms"),
        (("--store", "a"), "--store: wanted KEY=VALUE"),
        (("--store", "a=x", "--store", "a=y"), "stands there twice"),
    ],
)
def test_a_cluster_with_wrong_settings_is_not_made(nowhere: Cli, arguments: tuple[str, ...], text: str) -> None:
    said = nowhere("cluster", "init", *arguments)
    assert said.code == 2
    assert text in said.err
    assert nowhere("cluster", "info").code == 3


def test_info_and_health_count_what_is_there(orders: Cli) -> None:
    for verb in ("info", "health"):
        found = orders.json("cluster", verb)
        assert {name: found[name] for name in ("topics", "partitions", "records", "slices", "chain_position")} == {
            "topics": 1,
            "partitions": 1,
            "records": 3,
            "slices": 3,
            "chain_position": 4,
        }
        said = orders("cluster", verb)
        assert (said.code, said.err) == (0, "")
        assert "records" in said.out


def test_health_tells_what_the_next_runs_would_find(orders: Cli) -> None:
    waiting = ("slices_to_roll", "records_past_retention", "objects_to_delete_now", "objects_to_delete_later")
    assert [orders.json("cluster", "health")[name] for name in waiting] == [0, 0, 0, 0]
    orders("topic", "alter", "orders", "-s", "segment.bytes=1", "-s", "retention.bytes=0")
    assert [orders.json("cluster", "health")[name] for name in waiting] == [3, 3, 0, 0]
    orders("topic", "delete", "orders")
    found = orders.json("cluster", "health")
    assert [found[name] for name in waiting] == [0, 0, 0, 3]
    assert found["retired_bytes"] > 0


def test_the_age_of_the_snapshot_is_shown_and_an_old_one_is_unhealthy(
    orders: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = orders.json("cluster", "health")
    assert (found["snapshot"], found["entries_since_snapshot"]) == (None, 5)
    monkeypatch.setattr(verbs, "STALE_SNAPSHOT_ENTRIES", 4)
    said = orders("cluster", "health")
    assert said.code == 5
    assert "no snapshot for 5 entries: sparklog chain snapshot" in said.out
    orders("chain", "snapshot")
    found = orders.json("cluster", "health")
    assert (found["snapshot"], found["entries_since_snapshot"]) == (4, 0)
    assert found["snapshot_time_ms"] == found["chain_time_ms"]


def test_a_job_that_failed_is_unhealthy_until_it_succeeds(sparklog: Cli) -> None:
    report = json.dumps(
        {"planned": {"objects": 3, "bytes": 10}, "done": {"objects": 2, "bytes": 5}, "deletion": {"done": {}}}
    )
    with library.connect(sparklog.url) as cluster:
        cluster.submit(ReportJob("vacuum", 0, 1000, 1, report))
    said = sparklog("cluster", "health")
    assert said.code == 5
    assert "job vacuum: 1 failed, see sparklog job status" in said.out
    assert "3 objects, 10 B, of which 2 deleted, at 1970-01-01T00:00:01.000Z" in said.out
    with library.connect(sparklog.url) as cluster:
        cluster.submit(ReportJob("vacuum", 0, 2000, 0, report))
    found = sparklog.json("cluster", "health")
    assert found["jobs"] == [{"job": "vacuum", "ended_ms": 2000, "failed": 0}]
    assert found["orphans"] == {"at_ms": 2000, "found": 3, "found_bytes": 10, "deleted": 2}


# M: N-02 P-07
def test_a_store_that_was_swapped_or_wiped_is_unhealthy(sparklog: Cli) -> None:
    mark = Path(sparklog.url, INCARNATION)
    body = json.loads(mark.read_bytes())
    mark.write_text(json.dumps({**body, "incarnation": "0" * 32}))
    said = sparklog("cluster", "health", "--format", "json")
    assert (said.code, said.json["healthy"]) == (5, False)
    assert said.json["stores"][0]["found"].startswith("another store: ")
    mark.unlink()
    said = sparklog("cluster", "health")
    assert (said.code, "store local: nothing there" in said.out) == (5, True)


def test_doctor_probes_each_store_once_and_removes_what_it_wrote(orders: Cli, tmp_path: Path) -> None:
    before = sorted(each for each in tmp_path.rglob("*") if each.is_file())
    said = orders("cluster", "doctor", "--no-spark", "--format", "json")
    rows = json.loads(said.out)
    assert said.code == 0
    assert {each["what"] for each in rows} == {"metadata and local"}
    assert len(rows) == 7
    assert {each["found"] for each in rows} == {"ok"}
    assert sorted(each for each in tmp_path.rglob("*") if each.is_file()) == before


def test_doctor_names_a_store_that_fails_and_exits_5(orders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalStore, "delete", lambda store, key: None)
    said = orders("cluster", "doctor", "--no-spark")
    assert said.code == 5
    assert "a deleted object is gone" in said.out
    assert "it still there after it was deleted" in said.out
