"""`sparklog chain …`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import sparklog as library
from sparklog.client.bootstrap import init_cluster
from sparklog.core.describe.record_summary import summary
from sparklog.core.records import Record
from sparklog.storage import keys
from sparklog.storage.keys import block_entries, entry_key, void_key
from tests.chain.fenced_entry import claim, write_fenced_entry
from tests.cli.conftest import Cli
from tests.core.every_record import EVERY_RECORD


def test_the_newest_entries_are_told_in_words(orders: Cli) -> None:
    lines = orders("chain", "tail").out.splitlines()
    assert len(lines) == 6
    assert "cluster" in lines[1]
    assert lines[2].endswith("topic orders created with 1 partition")
    assert "1 record, " in lines[5]
    assert lines[5].endswith(" appended to orders-0")
    assert len(orders("chain", "tail", "-n", "2").out.splitlines()) == 3


def test_entries_are_whole_in_json(orders: Cli) -> None:
    entries = orders("chain", "tail", "-n", "2", "--format", "json").lines
    assert [each["n"] for each in entries] == [3, 4]
    assert entries[1]["commands"][0][2][0]["type"] == "appended"


def test_what_a_fenced_coordinator_wrote_is_shown_as_ignored(orders: Cli) -> None:
    with library.connect(orders.url) as cluster:
        write_fenced_entry(cluster.connection.follower)
    lines = orders("chain", "tail", "-n", "2").out.splitlines()
    assert "ignored" not in lines[1]
    assert lines[2].endswith("coordinator c1  ignored, its coordinator was fenced: FLOOR raised to 1")
    entries = orders("chain", "tail", "-n", "2", "--format", "json").lines
    assert [each["ignored"] for each in entries] == [False, True]


def test_heartbeats_are_one_row_unless_all_are_wanted(orders: Cli) -> None:
    with library.connect(orders.url) as cluster:
        claim(cluster.connection.follower, 1, times=5)
    lines = orders("chain", "tail", "-n", "6").out.splitlines()
    assert lines[-1].startswith("6-9 ")
    assert lines[-1].endswith(" 4 heartbeats of the coordinator")
    assert len(orders("chain", "tail", "-n", "6", "--all").out.splitlines()) == 7
    assert len(orders("chain", "tail", "-n", "6", "--format", "json").lines) == 6


def test_the_tail_says_up_to_where_entries_were_deleted(nowhere: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "ENTRIES_PER_BLOCK", 2)
    init_cluster(nowhere.url)
    with library.connect(nowhere.url) as cluster:
        cluster.create_topic("orders")
        for _ in range(3):
            cluster.append("orders", pa.table({"value": ["x"]}))
        cluster.connection.committer.snapshots.write()
        store = cluster.connection.follower.store
        for block in (0, 1):
            store.put_if_absent(void_key(block), b"")
            store.delete_many([entry_key(n) for n in block_entries(block)])
    said = nowhere("chain", "tail", "-n", "5")
    assert (said.code, len(said.out.splitlines())) == (0, 2)
    assert said.err == "warning: older entries were deleted, up to 3: FLOOR and snapshots have passed them\n"
    assert nowhere("chain", "tail", "-n", "1").err == ""


def test_the_state_and_its_snapshot_are_told(orders: Cli) -> None:
    before = orders.json("chain", "state")
    assert (before["n"], before["snapshot"], before["slices"], before["objects"]) == (4, None, 3, 3)
    assert orders("chain", "snapshot").out == "the newest snapshot is that of entry 4\n"
    assert orders.json("chain", "snapshot") == {"snapshot": 4}
    assert orders.json("chain", "state") == {**before, "snapshot": 4}


def test_a_write_is_found_by_command_write_id_and_application(orders: Cli) -> None:
    rows = pa.table({"value": ["d"]})
    with library.connect(orders.url) as cluster:
        cluster.append("orders", rows, write_id="nightly", application=("import", 7))
        (applied,) = cluster.connection.follower.state.results.labelled("nightly")
        command_id = applied.command_id
    (by_label,) = orders.json("chain", "write", "nightly")
    assert by_label["ranges"] == [{"topic": "orders", "partition": 0, "start": 3, "end": 4}]
    assert (by_label["txn_app_id"], by_label["txn_version"], by_label["records"]) == ("import", 7, 1)
    assert orders.json("chain", "write", command_id) == [by_label]
    assert orders.json("chain", "write", "import") == [{**by_label, "command_id": None}]
    assert "orders-0 [3, 4)" in orders("chain", "write", "nightly").out


def test_a_write_that_is_not_there_is_not_found(orders: Cli) -> None:
    said = orders("chain", "write", "nightly")
    assert (said.code, said.out) == (3, "")
    assert "did not land, or FLOOR (0) has passed it" in said.err


def test_a_damaged_entry_below_a_snapshot_hides_no_other_and_stops_nobody_who_does_not_need_it(orders: Cli) -> None:
    orders("chain", "snapshot")
    path = Path(orders.url, entry_key(2))
    body = bytearray(path.read_bytes())
    body[-3] ^= 1
    path.chmod(0o600)
    path.write_bytes(body)
    said = orders("chain", "tail")
    assert [line.split()[0] for line in said.out.splitlines()[1:]] == ["0", "1", "3", "4"]
    assert (said.code, said.err.split(",")[0]) == (5, "CHAIN_DAMAGED: entry 2")
    assert "until then nothing that needs it can continue" in said.err
    as_json = orders("chain", "tail", "--format", "json")
    assert ([each["n"] for each in as_json.lines], as_json.code) == ([0, 1, 3, 4], 5)
    assert orders("topic", "create", "new").code == 0
    assert orders("consume", "orders").code == 0


@pytest.mark.parametrize("record", EVERY_RECORD, ids=lambda each: type(each).__name__)
def test_every_record_has_words(record: Record) -> None:
    assert summary(record, {})
