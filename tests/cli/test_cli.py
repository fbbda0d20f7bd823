"""The command line from outside: output, exit codes, errors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from sparklog.cli.main import app, run
from sparklog.storage.keys import entry_key

Sparklog = Callable[..., tuple[int, str, str]]


@pytest.fixture
def sparklog(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Sparklog:
    """Runs a command line on a fresh cluster; gives exit code, stdout, stderr."""
    cluster = str(tmp_path / "cluster")

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["--cluster", cluster, *arguments])
        return (code, *capsys.readouterr())

    assert call("cluster", "init")[0] == 0
    return call


def produce(monkeypatch: pytest.MonkeyPatch, sparklog: Sparklog, text: str, *arguments: str) -> tuple[int, str, str]:
    import io

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    return sparklog("produce", *arguments)


def test_a_topic_is_created_described_altered_and_deleted(sparklog: Sparklog) -> None:  # M: N-03
    assert sparklog("topic", "create", "t", "-p", "2", "-c", "retention.ms=1000")[0] == 0
    assert sparklog("topic", "alter", "t", "-s", "segment.bytes=1000", "-d", "retention.ms")[0] == 0
    assert sparklog("topic", "add-partitions", "t", "--total", "3")[0] == 0
    code, out, _ = sparklog("topic", "describe", "t", "--format", "json")
    found = json.loads(out)
    assert (code, len(found["partitions"]), found["config"]["segment.bytes"]) == (0, 3, "1000")
    assert sparklog("topic", "delete", "t", "--dry-run")[1].startswith("would delete")
    assert sparklog("topic", "delete", "t")[0] == 0
    assert sparklog("topic", "list")[1] == "no topics\n"


def test_what_is_produced_is_consumed(sparklog: Sparklog, monkeypatch: pytest.MonkeyPatch) -> None:
    sparklog("topic", "create", "t")
    assert produce(monkeypatch, sparklog, "k:a\nk:b\nk:c\n", "t", "--key-separator", ":")[0] == 0
    assert sparklog("consume", "t")[1] == "a\nb\nc\n"
    assert sparklog("consume", "t", "-o", "-1")[1] == "c\n"
    assert sparklog("consume", "t", "-o", "1", "-n", "1")[1] == "b\n"
    assert sparklog("consume", "t", "-o", "end")[1] == ""
    lines = [json.loads(line) for line in sparklog("consume", "t", "--format", "json")[1].splitlines()]
    assert [(each["offset"], each["key"], each["value"]) for each in lines] == [
        (0, "k", "a"),
        (1, "k", "b"),
        (2, "k", "c"),
    ]


def test_json_records_come_back_as_they_went_in(sparklog: Sparklog, monkeypatch: pytest.MonkeyPatch) -> None:
    sparklog("topic", "create", "t", "-p", "2")
    record = {"partition": 1, "timestamp": 1357000000000, "key": "aw==", "value": "/w==", "headers": []}
    given = record | {"headers": [{"key": "h", "value": "AQ=="}]}
    assert produce(monkeypatch, sparklog, json.dumps(given), "t", "--json", "--base64")[0] == 0
    (found,) = [json.loads(line) for line in sparklog("consume", "t", "--format=json", "--base64")[1].splitlines()]
    assert {name: found[name] for name in given} == given
    at = "2013-01-01T00:26:40Z"
    assert sparklog("consume", "t", "-p", "1", "--base64", "-o", f"@{at}", "--format", "json")[1].count("\n") == 1
    assert sparklog("consume", "t", "-p", "1", "-o", f"@1356999999999:{at}")[1] == ""


def test_segments_and_chain_can_be_looked_into(sparklog: Sparklog, monkeypatch: pytest.MonkeyPatch) -> None:
    sparklog("topic", "create", "t")
    produce(monkeypatch, sparklog, "a\nb\n", "t")
    (segment,) = json.loads(sparklog("segment", "list", "t", "--format", "json")[1])
    assert (segment["start"], segment["end"], segment["kind"]) == (0, 2, "append")
    (batch,) = json.loads(sparklog("segment", "dump", "t", "--format", "json")[1])
    assert batch["records"] == 2
    assert "a" in sparklog("segment", "dump", "t", "--records")[1]
    assert "appended" in sparklog("chain", "tail")[1]
    assert sparklog("chain", "snapshot")[0] == 0
    assert json.loads(sparklog("chain", "state", "--format", "json")[1])["slices"] == 1
    assert sparklog("cluster", "info")[0] == 0
    assert json.loads(sparklog("cluster", "health", "--format", "json")[1])["healthy"] is True


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("topic", "describe", "none"), 3, "UNKNOWN_TOPIC_OR_PARTITION: wanted topic 'none'"),
        (("topic", "create", "a b"), 2, "INVALID_TOPIC_EXCEPTION"),
        (("topic", "create", "t", "-c", "retention.mss=1"), 2, "did you mean retention.ms"),
        (("topic", "create", "t", "-c", "retention.ms"), 2, "KEY=VALUE"),
        (("topic", "crate", "t"), 2, "create"),
        (("cluster", "init"), 4, "CLUSTER_ALREADY_EXISTS"),
        (("chain", "write", "0" * 32), 3, "did not land"),
        (("topic", "list", "--format", "xml"), 2, "table or json"),
    ],
)
def test_errors_are_one_line_with_a_code(sparklog: Sparklog, arguments: tuple[str, ...], code: int, text: str) -> None:
    found = sparklog(*arguments)
    assert (found[0], found[1]) == (code, "")
    assert text in found[2]
    assert found[2].count("\n") == 1


def test_an_address_with_nothing_behind_it_is_not_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topic", "list", "--cluster", str(tmp_path)]) == 3
    assert capsys.readouterr().err.startswith("CLUSTER_NOT_FOUND: ")
    assert run(["topic", "list", "--cluster", "localhost:9092"]) == 2
    assert "Kafka address" in capsys.readouterr().err
    assert run(["topic", "list"]) == 2
    assert "SPARKLOG_CLUSTER" in capsys.readouterr().err


def test_the_address_may_come_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "sparklog.toml"
    config.write_text(f'cluster = "{tmp_path / "c"}"\n')
    assert run(["cluster", "init", "--config", str(config)]) == 0
    config.write_text("clutser = 1\n")
    assert run(["topic", "list", "--config", str(config)]) == 2
    assert "wanted 'cluster'" in capsys.readouterr().err


def test_a_cluster_of_a_newer_format_says_so(sparklog: Sparklog, tmp_path: Path) -> None:
    path = tmp_path / "cluster" / entry_key(0)
    path.write_bytes(path.read_bytes().replace(b"entry 1 ", b"entry 2 ", 1))
    code, _, err = sparklog("topic", "list")
    assert (code, err.startswith("UNSUPPORTED_VERSION: ")) == (2, True)


def verbs() -> list[tuple[str, ...]]:
    root = typer.main.get_command(app)
    found: list[tuple[str, ...]] = [()]
    for name, command in root.commands.items():
        found += [(name,), *((name, verb) for verb in getattr(command, "commands", ()))]
    return found


def test_help_of_any_verb_loads_no_heavy_library() -> None:
    code = (
        "import sys\nfrom sparklog.cli.main import run\n"
        f"for verb in {verbs()!r}:\n    run([*verb, '--help'])\n"
        "heavy = {'pyarrow', 'numpy', 's3fs', 'fsspec', 'pyspark', 'pandas'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage:") == len(verbs())
