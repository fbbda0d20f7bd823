"""`sparklog cluster …`."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sparklog as library
from sparklog.core.commands import Application, RaiseFloor
from sparklog.core.idempotence import applications
from sparklog.core.types import EntryNumber
from tests.cli.conftest import Cli


# M: N-02
def test_a_cluster_is_made_with_its_stores_and_config(nowhere: Cli) -> None:
    said = nowhere.json("cluster", "init", "--store", "a@z/1=disk-a", "--store", "b=disk-b", "-c", "num.partitions=3")
    found = nowhere.json("cluster", "info")
    assert (found["chain_id"], found["cluster"]) == (said["chain_id"], f"file://{nowhere.url}")
    assert found["stores"] == [
        {"store": "a", "url": f"file://{nowhere.url}/disk-a", "zone": "z/1", "registration": 0},
        {"store": "b", "url": f"file://{nowhere.url}/disk-b", "zone": None, "registration": 1},
    ]
    assert found["config"] == {"num.partitions": "3"}
    assert nowhere.json("topic", "create", "t")["partitions"] == 3


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("-c", "num.partition=3"), "did you mean num.partitions"),
        (("-c", "retention.ms=3"), "log.retention.ms"),
        (("--store", "a"), "--store: wanted ID=URL or ID@ZONE=URL, found 'a'"),
        (("--store", "a=x", "--store", "a=y"), "is given twice"),
    ],
)
def test_a_cluster_with_wrong_settings_is_not_made(nowhere: Cli, arguments: tuple[str, ...], text: str) -> None:
    said = nowhere("cluster", "init", *arguments)
    assert said.code == 2
    assert text in said.err
    assert nowhere("cluster", "info").code == 3


def test_the_config_of_a_cluster_is_altered(orders: Cli) -> None:
    planned = orders.json("cluster", "alter", "--set", "page.writes=true", "--dry-run")
    assert planned == {"config": {"page.writes": "true"}, "before": {}, "dry_run": True}
    said = orders("cluster", "alter", "--set", "page.writes=true", "-s", "log.retention.ms=-1")
    changed = "changed the config of the cluster: log.retention.ms"
    assert (said.code, said.out) == (0, f"{changed}=-1 (cluster), page.writes=true (cluster)\n")
    assert orders("cluster", "alter", "--delete", "log.retention.ms").out == f"{changed}=604800000 (default)\n"
    assert orders.json("cluster", "alter", "--set", "page.writes=true", "--dry-run")["before"] == {
        "page.writes": "true"
    }
    assert "config of the cluster set" in orders("chain", "tail").out
    for wrong, text in (
        ((), "nothing to change"),
        (("--set", "page.write=true"), "did you mean page.writes"),
        (("--set", "page.writes=perhaps"), "page.writes"),
        (("--set", "page.writes=true", "--delete", "page.writes"), "is in both"),
        (("--delete", "nothing"), "INVALID_CONFIG"),
    ):
        refused = orders("cluster", "alter", *wrong)
        assert (refused.code, text in refused.err) == (2, True), refused.err
    assert orders.json("cluster", "alter", "--delete", "page.writes")["config"] == {}


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


def test_applications_are_counted_and_forgotten_when_they_are_old(orders: Cli) -> None:
    with library.connect(orders.url) as cluster:
        for app_id in ("old", "other"):
            cluster.append("orders", pa.table({"value": ["x"]}), application=(app_id, 1))
        committer = cluster.connection.committer
        before = "2100-01-01T00:00:00Z"
        assert orders.json("cluster", "forget-applications", "--before", before)["forgotten"] == []
        committer.submit(committer.begin(RaiseFloor(EntryNumber(committer.follower.state.n + 1))))
        cluster.append("orders", pa.table({"value": ["x"]}), application=("new", 1))
    assert orders.json("cluster", "info")["applications"] == 3
    assert orders.json("cluster", "forget-applications", "--before", "1000")["forgotten"] == []
    said = orders.json("cluster", "forget-applications", "--before", before, "--dry-run")
    assert said == {"forgotten": ["old", "other"], "applications": 3, "dry_run": True}
    said = orders.json("cluster", "forget-applications", "--before", before, "--app-id", "old")
    assert said == {"forgotten": ["old"], "applications": 2, "dry_run": False}
    words = orders("cluster", "forget-applications", "--before", before).out
    assert words == "forgot 1 application, 1 left\n"
    assert orders("chain", "write", "old").code == 3
    assert orders("chain", "tail", "-n", "1").out.strip().endswith("1 application forgotten")
    assert orders("cluster", "forget-applications").code == 2


def test_an_application_that_writes_meanwhile_is_not_called_forgotten(
    orders: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with library.connect(orders.url) as cluster:
        cluster.append("orders", pa.table({"value": ["x"]}), application=("busy", 2))
    monkeypatch.setattr(applications, "old_applications", lambda *_: [Application("busy", 1)])
    said = orders.json("cluster", "forget-applications", "--before", "1000")
    assert said == {"forgotten": [], "applications": 1, "dry_run": False}
