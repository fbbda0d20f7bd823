"""The frame of every verb: help, exit codes, errors as one line, pipes and Ctrl-C."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from sparklog.cli.main import app, run
from sparklog.storage.keys import entry_key
from tests.chain.newer_format import make_newer
from tests.cli.conftest import Cli

HEAVY = {"pyarrow", "numpy", "s3fs", "fsspec", "pyspark", "pandas", "rich", "sparklog.core.state"}


def verbs(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from verbs(child, (*path, name))


def does_something(command: Any) -> bool:
    return not hasattr(command, "commands") or command.invoke_without_command


EVERY = dict(verbs(typer.main.get_command(app)))


def test_help_of_any_verb_loads_no_heavy_library() -> None:
    code = f"""
import sys
from sparklog.cli.main import run
for verb in {list(EVERY)!r}:
    assert run([*verb, "--help"]) == 0
    heavy = {HEAVY!r} & set(sys.modules)
    if heavy:
        sys.exit(f"{{verb}}: {{heavy}}")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Usage: sparklog") == len(EVERY)


@pytest.mark.parametrize("verb", ["topic list", "topic describe orders", "group list", "cluster health", "chain tail"])
def test_what_reads_no_records_loads_no_arrow(orders: Cli, verb: str) -> None:
    code = f"""
import sys
from sparklog.cli.main import run
assert run(["--cluster", {orders.url!r}, *{verb.split()!r}]) == 0
print({{"pyarrow", "pyspark", "pandas", "rich", "s3fs", "starlette"}} & set(sys.modules), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "set()\n")


def test_everything_is_explained_and_every_verb_has_an_example() -> None:
    for path, command in EVERY.items():
        assert command.help, path
        for each in command.params:
            assert each.help, (path, each.name)
        if path and does_something(command):
            assert f"sparklog {' '.join(path)}" in command.epilog


def test_the_verbs_are_those_of_this_version() -> None:
    assert {" ".join(path) for path, command in EVERY.items() if path and does_something(command)} == {
        *(
            "cluster init",
            "cluster alter",
            "cluster info",
            "cluster health",
            "cluster doctor",
            "cluster forget-applications",
        ),
        *("cluster restore", "cluster cost", "doctor"),
        *(f"topic {verb}" for verb in ("create", "list", "describe", "alter", "add-partitions", "delete", "offsets")),
        "topic delete-records",
        "topic promote",
        *(f"group {verb}" for verb in ("list", "describe", "reset", "import", "delete", "evict")),
        *(f"store {verb}" for verb in ("add", "list", "fence", "remove", "free", "reserve")),
        *(f"replica {verb}" for verb in ("list", "move", "elect")),
        *(
            "produce",
            "consume",
            "agent",
            "jar",
            "segment list",
            "segment dump",
            "coordinator",
            "coordinator resign",
            "coordinator token",
        ),
        *("chain tail", "chain state", "chain snapshot", "chain write"),
        *("job roll", "job compaction", "job retention", "job vacuum", "job replication", "job run-all", "job status"),
        *("job recovery", "job verify", "job materialize", "job mirror", "segment verify"),
    }


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (
            ("topic", "describe", "none"),
            3,
            "UNKNOWN_TOPIC_OR_PARTITION: wanted topic 'none', the cluster has no topics",
        ),
        (("consume", "none"), 3, "UNKNOWN_TOPIC_OR_PARTITION"),
        (("topic", "create", "a b"), 2, "INVALID_TOPIC_EXCEPTION"),
        (("topic", "create", "t", "-c", "retention.mss=1"), 2, "did you mean retention.ms"),
        (("topic", "create", "t", "-c", "retention.ms"), 2, "wanted KEY=VALUE"),
        (("topic", "create", "t", "-p", "x"), 2, "INVALID_REQUEST: Invalid value for '--partitions'"),
        (("topic", "create", "t", "-r", "2"), 2, "INVALID_REPLICATION_FACTOR"),
        (("topic", "crate", "t"), 2, "create"),
        (("topic", "create"), 2, "Missing argument 'TOPIC'"),
        (("topic", "list", "--pratition"), 2, "--pratition"),
        (("cluster", "init"), 4, "CLUSTER_ALREADY_EXISTS"),
        (("chain", "write", "0" * 32), 3, "did not land"),
        (("--format", "xml", "topic", "list"), 2, "wanted table or json"),
        (("--cluster", "localhost:9092", "topic", "list"), 2, "this is a Kafka address"),
        (("--cluster", "oss://bucket/prefix", "topic", "list"), 2, "not oss://"),
        (
            ("--cluster", "http://127.0.0.1:1", "topic", "list"),
            1,
            "COORDINATOR_NOT_AVAILABLE: no coordinator answers at",
        ),
        (("--cluster", "/nowhere/at/all", "topic", "list"), 3, "CLUSTER_NOT_FOUND: no cluster at file:///nowhere"),
    ],
)
def test_an_error_is_one_line_on_stderr_with_a_code(
    sparklog: Cli, arguments: tuple[str, ...], code: int, text: str
) -> None:
    said = sparklog("--format", "json", *arguments)
    assert (said.code, said.out, said.err.count("\n")) == (code, "", 1)
    assert text in said.err
    assert said.err.split(":")[0].isupper()


def test_without_an_address_the_error_says_how_to_give_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topic", "list"]) == 2
    assert "SPARKLOG_CLUSTER" in capsys.readouterr().err


def test_a_cluster_of_a_newer_format_is_refused_by_name(sparklog: Cli) -> None:
    path = Path(sparklog.url, entry_key(0))
    make_newer(path)
    said = sparklog("topic", "list")
    assert (said.code, said.err.startswith("UNSUPPORTED_VERSION: ")) == (2, True)


def test_a_damaged_chain_is_named(sparklog: Cli) -> None:
    path = Path(sparklog.url, entry_key(0))
    path.write_bytes(path.read_bytes()[:-1])
    said = sparklog("topic", "list")
    assert (said.code, said.out, said.err.startswith("CHAIN_DAMAGED: ")) == (5, "", True)


def test_a_read_only_directory_is_named_and_nothing_changes(sparklog: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object, **__: object) -> None:
        raise OSError(30, os.strerror(30))

    with monkeypatch.context() as patch:
        patch.setattr("os.link", link)
        said = sparklog("topic", "create", "t")
    assert (said.code, said.err.startswith("STORE_READ_ONLY: ")) == (1, True)
    assert sparklog("topic", "list").out == "no topics\n"


def test_an_error_that_nobody_foresaw_is_one_line_too(sparklog: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr("sparklog.client.cluster.Connection", broken)
    said = sparklog("topic", "list")
    assert said.code == 1
    assert said.err == "UNKNOWN_SERVER_ERROR: ZeroDivisionError: a b; SPARKLOG_DEBUG=1 shows where\n"
    monkeypatch.setenv("SPARKLOG_DEBUG", "1")
    assert "Traceback" in sparklog("topic", "list").err


def test_a_noun_alone_shows_its_verbs_and_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["topic"]):
        assert run(arguments) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "Commands:" in err


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    import sparklog

    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"sparklog {sparklog.__version__}\n"


def _process(cluster: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "sparklog", "--cluster", cluster, *arguments]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env={**os.environ, "PYTHONFAULTHANDLER": "1"}, **pipes)


def _said(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """What it printed from now to its end. If it does not end, the errors tell what each of its threads was at."""
    try:
        return process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        return process.communicate()


def test_a_pipe_that_is_closed_early_is_no_error(sparklog: Cli) -> None:
    sparklog("topic", "create", "t")
    sparklog("produce", "t", stdin="x" * 1000 + "\n" + ("y" * 1000 + "\n") * 999)
    process = _process(sparklog.url, "consume", "t")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(1) == b"x"
    process.stdout.close()
    assert (process.wait(), process.stderr.read()) == (0, b"")
    process.stderr.close()


def test_a_closed_pipe_does_not_hide_that_a_verb_failed(
    sparklog: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Closed(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

        def fileno(self) -> int:
            return spare.fileno()

    def failed() -> None:
        raise typer.Exit(5)

    monkeypatch.setattr("sparklog.cli.jobs.job_verbs.connect", failed)
    with (tmp_path / "spare").open("w") as spare, monkeypatch.context() as patched:
        patched.setattr("sys.stdout", Closed())
        code = run(["--cluster", sparklog.url, "job", "status"])
    assert code == 5


def test_control_c_ends_a_follower_quietly(orders: Cli) -> None:
    process = _process(orders.url, "consume", "orders", "--follow")
    assert process.stdout is not None
    assert process.stdout.read(6) == b"a\nb\nc\n"
    process.send_signal(signal.SIGINT)
    assert (_said(process), process.returncode) == ((b"", b""), 130)
