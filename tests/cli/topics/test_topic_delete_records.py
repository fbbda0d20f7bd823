"""`sparklog topic delete-records`: its three forms, the plan, the question, and what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparklog.core.errors import StoreUnavailable
from tests.cli.conftest import Cli


def log_starts(orders: Cli) -> list[int]:
    return [row["offset"] for row in orders.json("topic", "offsets", "orders", "--time", "earliest")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "offsets.json"


# M: R-05
def test_a_dry_run_shows_what_would_go_and_changes_nothing(orders: Cli) -> None:
    before = orders.json("chain", "state")
    said = orders("topic", "delete-records", "orders", "--all-to", "end", "--dry-run")
    assert said.code == 0
    header, row, summary = said.out.splitlines()
    assert header.split()[:6] == ["partition", "before", "log", "start", "records", "objects"]
    assert row.split()[:5] == ["0", "0", "3", "3", "3"]
    assert summary.startswith("would delete 3 records of topic orders; the first job that runs after 20")
    assert " deletes 3 objects (" in summary
    planned = orders.json("topic", "delete-records", "orders", "-p", "0=1", "--dry-run")
    assert (planned["dry_run"], planned["partitions"][0]["log_start"]) == (True, 1)
    assert orders.json("chain", "state") == before


# M: R-05
@pytest.mark.parametrize("form", ["partition", "all", "file"])
def test_records_go_below_the_offset_in_each_form(orders: Cli, file: Path, form: str) -> None:
    document = {"partitions": [{"topic": "orders", "partition": 0, "offset": 2}], "version": 1}
    file.write_text(json.dumps(document))
    given = {"partition": ["-p", "0=2"], "all": ["--all-to", "2"], "file": ["--offset-json-file", str(file)]}[form]
    said = orders("topic", "delete-records", "orders", *given, "--yes")
    assert said.code == 0
    sentence = said.out.splitlines()[2]
    assert sentence.startswith("deleted 2 records of topic orders; the first job that runs after 20")
    assert " deletes 2 objects (" in sentence
    assert log_starts(orders) == [2]
    assert orders("consume", "orders").out == "c\n"


@pytest.mark.parametrize("end", ["end", "-1"])
def test_the_end_is_the_high_watermark(orders: Cli, end: str) -> None:
    assert orders("topic", "delete-records", "orders", "--partition", f"0={end}", "--yes").code == 0
    assert log_starts(orders) == [3]


def test_a_log_start_that_is_higher_stays_and_nothing_is_asked(orders: Cli) -> None:
    orders("topic", "delete-records", "orders", "-p", "0=2", "-y")
    said = orders("topic", "delete-records", "orders", "-p", "0=1")
    assert (said.code, said.out.splitlines()[2]) == (0, "deleted 0 records of topic orders")
    assert log_starts(orders) == [2]


def test_without_yes_it_asks_on_a_terminal_and_refuses_elsewhere(orders: Cli) -> None:
    said = orders("topic", "delete-records", "orders", "--all-to", "end")
    assert (said.code, said.out) == (2, "")
    assert "INVALID_OPTION: 3 records would be deleted: that needs --yes" in said.err
    for answer, code, left in (("n", 130, [0]), ("y", 0, [3])):
        orders.monkeypatch.setattr("sparklog.cli.topics.topic_delete_records._at_terminal", lambda: True)
        said = orders("topic", "delete-records", "orders", "--all-to", "end", stdin=f"{answer}\n")
        assert (said.code, "3 records will be deleted forever. Continue?" in said.err) == (code, True)
        assert log_starts(orders) == left


def test_a_partition_that_failed_is_shown(orders: Cli) -> None:
    def failing(*_: object) -> list[StoreUnavailable]:
        return [StoreUnavailable("the store is away")]

    orders.monkeypatch.setattr("sparklog.client.delete_records.delete_records", failing)
    said = orders("topic", "delete-records", "orders", "--all-to", "1", "--yes")
    assert said.code == 1
    assert "KAFKA_STORAGE_ERROR: the store is away" in said.out
    assert said.out.endswith("deleted 0 records of topic orders; 1 partition failed: run it again\n")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ("orders", 2, "wanted exactly one of --partition N=OFFSET"),
        ("orders --all-to 1 -p 0=1", 2, "wanted exactly one of --partition"),
        ("orders --all-to soon", 2, "--all-to: wanted an offset from 0, or end (also -1) for the high watermark"),
        ("orders --all-to -2", 2, "found '-2'"),
        ("orders -p 0", 2, "--partition: wanted KEY=VALUE, found '0'"),
        ("orders -p x=1", 2, "--partition: wanted N=OFFSET, found x=1"),
        ("orders -p 0=1 -p 00=2", 2, "--partition: 0 is given twice"),
        ("orders -p 1=0", 3, "UNKNOWN_TOPIC_OR_PARTITION: wanted partition 1 of topic orders"),
        ("nope --all-to end", 3, "UNKNOWN_TOPIC_OR_PARTITION: wanted topic 'nope'"),
        ("orders -p 0=4", 2, "OFFSET_OUT_OF_RANGE: the log start of orders-0 can rise to its high watermark 3"),
        (f"orders -p 0={'9' * 25}", 2, "OFFSET_OUT_OF_RANGE"),
        (f"orders -p 0={'9' * 5000}", 2, "INVALID_OPTION: --partition 0: wanted an offset"),
        (f"orders -p {'9' * 5000}=1", 2, "INVALID_OPTION: --partition: wanted N=OFFSET"),
        ("orders -p 0=\N{ARABIC-INDIC DIGIT ONE}", 2, "wanted an offset from 0"),
        ("orders --all-to 1_0", 2, "wanted an offset from 0"),
        ("orders --all-to +1", 2, "wanted an offset from 0"),
        ("orders --offset-json-file /nowhere", 2, "--offset-json-file /nowhere: it can't be read: No such file"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(orders: Cli, arguments: str, code: int, text: str) -> None:
    before = orders.json("chain", "state")
    for more in ("--yes", "--dry-run"):
        said = orders("topic", "delete-records", *arguments.split(), more)
        assert (said.code, said.out) == (code, "")
        assert text in said.err
    assert orders.json("chain", "state") == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'wanted {"partitions"'),
        ("[]", 'wanted {"partitions"'),
        ("[" * 100_000, 'wanted {"partitions"'),
        ('{"partitions": [{"topic": "orders"}]}', 'wanted {"partitions"'),
        (
            '{"partitions": [{"topic": "u", "partition": 0, "offset": 1}]}',
            "wanted only topic orders, found 'u'",
        ),
        ('{"partitions": [{"topic": "orders", "partition": "0", "offset": 1}]}', "wanted numbers, found partition '0'"),
        ('{"partitions": [{"topic": "orders", "partition": 0, "offset": true}]}', "with offset True"),
        ('{"partitions": []}', "nothing to delete in topic orders"),
        (
            '{"partitions": [{"topic": "orders", "partition": 0, "offset": 1}, '
            '{"topic": "orders", "partition": 0, "offset": 2}]}',
            "partition 0 is given twice",
        ),
    ],
)
def test_a_file_that_can_not_be_meant_is_refused(orders: Cli, file: Path, text: str, message: str) -> None:
    file.write_text(text)
    said = orders("topic", "delete-records", "orders", "--offset-json-file", str(file), "--yes")
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert log_starts(orders) == [0]


# M: R-05
def test_a_topic_that_is_only_compacted_keeps_its_records(orders: Cli) -> None:
    orders("topic", "alter", "orders", "--set", "cleanup.policy=compact")
    for more in ("--yes", "--dry-run"):
        said = orders("topic", "delete-records", "orders", "--all-to", "end", more)
        assert (said.code, said.out) == (2, "")
        assert said.err.startswith("POLICY_VIOLATION: records of orders-0 can't be deleted by offset")
    assert orders("consume", "orders").out == "a\nb\nc\n"
