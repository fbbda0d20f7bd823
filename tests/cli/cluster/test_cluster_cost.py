"""`sparklog cluster cost`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import sparklog as library
from sparklog.chain.follow.stored_entries import StoredEntry, stored_entry
from sparklog.client.describe import counted_day
from sparklog.core.cost.request_costs import ENTRY, PLAN, stored
from sparklog.storage.object_store import ObjectStore
from tests.cli.conftest import Cli
from tests.cost_table import PRICES, list_prices


def test_what_was_appended_is_counted_and_priced(orders: Cli) -> None:
    found = orders.json("cluster", "cost")
    assert (found["entries"], found["entries_read"]) == (5, 5)
    lines = {line["what"]: line["requests"] for line in found["lines"]}
    appends = stored(1).times(3)
    chain = (ENTRY + PLAN).times(5)
    assert lines == {
        "objects of appends": {"puts": appends.puts, "posts": 0, "gets": appends.gets, "lists": 0},
        "entries of the chain": {"puts": chain.puts, "posts": 0, "gets": chain.gets, "lists": 0},
    }
    assert found["requests_usd"] == pytest.approx(list_prices().of_requests(appends + chain))
    on_disk = sum(file.stat().st_size for file in (Path(orders.url) / "append").rglob("*") if file.is_file())
    assert found["written_bytes"] == on_disk
    assert found["usd_per_month"] == pytest.approx(30 * found["usd_per_day"])


def test_bytes_stored_are_those_of_the_stores(replicated: Cli) -> None:
    found = replicated.json("cluster", "cost")
    root = Path(replicated.url).parent
    data = sum(file.stat().st_size for part in "abc" for file in (root / part / "append").rglob("*") if file.is_file())
    entries = sum(file.stat().st_size for file in (root / "cluster" / "meta" / "log").rglob("*") if file.is_file())
    assert found["stored_bytes"] == data + entries
    assert found["between_zones_bytes"] == data * 2 // 3
    assert "zone of the leader's store" in " ".join(found["advice"])


@pytest.mark.spark
def test_a_large_append_and_a_roll_are_counted(sparklog: Cli) -> None:
    with library.connect(sparklog.url) as cluster:
        cluster.create_topic("wide", partitions=1_200)
        partitions = pa.array(range(1_200), pa.int32())
        cluster.append("wide", pa.table({"value": ["x"] * 1_200, "partition": partitions}))  # slices by reference
        cluster.create_topic("t")
        cluster.append("t", pa.table({"value": ["x"]}))
    roll = [sys.executable, "-m", "sparklog", "job", "roll", "--topic", "t", "--all", "--cluster", sparklog.url]
    subprocess.run(roll, check=True, capture_output=True)
    lines = {line["what"]: line["requests"] for line in sparklog.json("cluster", "cost")["lines"]}
    assert lines["objects of appends"]["puts"] == 2 + 2 + 2, "two appends and the body of the large one"
    assert lines["roll and compaction"]["puts"] == 2
    assert lines["roll and compaction"]["gets"] == 1 + 2 * 1_201
    assert lines["starts of jobs"]["lists"] == 3


def test_of_many_entries_a_sample_is_read(orders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with library.connect(orders.url) as cluster:
        for _ in range(35):
            cluster.append("orders", pa.table({"value": ["x"]}))
    monkeypatch.setattr(counted_day, "SAMPLE", 8)
    found = orders.json("cluster", "cost")
    assert (found["entries"], found["entries_read"]) == (40, 8)
    puts = next(line["requests"]["puts"] for line in found["lines"] if line["what"] == "objects of appends")
    assert puts == pytest.approx(2 * 38, rel=0.2)
    assert "estimated from 8" in orders("cluster", "cost").out


def test_entries_of_the_days_before_are_not_counted(orders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    stored_bytes = orders.json("cluster", "cost")["stored_bytes"]
    monkeypatch.setattr(counted_day, "DAY_MS", -1_000)  # the day begins after the newest entry
    found = orders.json("cluster", "cost")
    assert (found["entries"], found["lines"]) == (0, [])
    assert found["stored_bytes"] == pytest.approx(stored_bytes, rel=0.1), "the chain is still there"


def test_what_was_deleted_within_a_day_is_no_part_of_the_time_that_was_counted(
    orders: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stored_since_2(store: ObjectStore, n: int) -> StoredEntry | None:
        return stored_entry(store, n) if n >= 2 else None

    monkeypatch.setattr(counted_day, "stored_entry", stored_since_2)
    found = orders.json("cluster", "cost")
    with library.connect(orders.url) as cluster:
        second = stored_entry(cluster.connection.follower.store, 2)
        assert second is not None
        assert found["from_ms"] == second.entry.time_ms


def test_the_table_shows_prices_advice_and_what_is_not_counted(orders: Cli) -> None:
    said = orders("cluster", "cost", "--provider", "gcs", "--reads-per-day", "1000000", "--gib-out-per-day", "3")
    assert (said.code, said.err) == (0, "")
    for words in ("reads, as given", "gcs, us-east1", "3 GiB out", "only ", "not counted  reads by clients"):
        assert words in said.out


def test_each_provider_has_prices_and_an_unknown_one_is_named(orders: Cli, tmp_path: Path) -> None:
    for provider in ("aws-s3", "gcs", "azure-blob"):
        assert orders.json("cluster", "cost", "--provider", provider)["usd_per_day"] > 0
    said = orders("cluster", "cost", "--provider", "azure")
    assert said.code == 2
    assert "wanted one of aws-s3, gcs, azure-blob (the tables of conf/prices.toml), found 'azure'" in said.err
    mine = tmp_path / "mine.toml"
    mine.write_text(PRICES.read_text().replace("[gcs]", "[ours]"))
    assert orders.json("cluster", "cost", "--prices", str(mine), "--provider", "ours")["prices"]["region"] == "us-east1"
    mine.write_text("[")
    assert "is not TOML" in orders("cluster", "cost", "--prices", str(mine)).err
    assert "can't be read" in orders("cluster", "cost", "--prices", str(tmp_path / "none")).err


def test_the_wheel_has_the_list_prices() -> None:
    from hatchling.builders.wheel import WheelBuilder

    root = Path(__file__).parents[3]
    (packed,) = [
        included
        for included in WheelBuilder(str(root)).recurse_included_files()
        if included.distribution_path == "sparklog/cli/cluster/prices.toml"
    ]
    assert Path(packed.path).read_bytes() == PRICES.read_bytes()
