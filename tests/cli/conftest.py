"""A command line on a cluster of its own, run in this process."""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparklog.cli.main import run
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import connect


@dataclass(frozen=True)
class Said:
    """What a command line led to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class Cli:
    """Runs command lines on the cluster at `url`."""

    url: str
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, *arguments: str, stdin: str | bytes = b"") -> Said:
        body = stdin.encode() if isinstance(stdin, str) else stdin
        self.monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(body)))
        self.capsys.readouterr()
        code = run(["--cluster", self.url, *arguments])
        return Said(code, *self.capsys.readouterr())

    def json(self, *arguments: str, stdin: str | bytes = b"") -> Any:
        """The JSON document that the command line prints."""
        said = self(*arguments, "--format", "json", stdin=stdin)
        assert (said.code, said.err) == (0, "")
        return said.json


@pytest.fixture
def nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The address of a cluster that is not there yet."""
    return Cli(str(tmp_path / "cluster"), capsys, monkeypatch)


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clusters to be copied, so that not every test waits for the disk to make its own."""
    folder = tmp_path_factory.mktemp("clusters")
    init_cluster(str(folder / "empty"))
    shutil.copytree(folder / "empty", folder / "orders")
    with connect(str(folder / "orders")) as cluster:
        cluster.create_topic("orders")
        for value in ("a", "b", "c"):
            cluster.append("orders", pa.table({"value": [value]}))
    root = folder / "replicated" / "cluster"
    init_cluster(str(root), stores={each: f"../{each}" for each in "abc"}, zones={"a": "z1", "b": "z2", "c": "z3"})
    with connect(str(root)) as cluster:
        cluster.create_topic("t", assignment=["abc"])
        for value in ("x", "y"):
            cluster.append("t", pa.table({"value": [value]}))
    return folder


@pytest.fixture
def sparklog(nowhere: Cli, templates: Path) -> Cli:
    """An empty cluster."""
    shutil.copytree(templates / "empty", nowhere.url)
    return nowhere


@pytest.fixture
def orders(nowhere: Cli, templates: Path) -> Cli:
    """A cluster with the topic orders, of one partition, which holds a, b and c in three commits."""
    shutil.copytree(templates / "orders", nowhere.url)
    return nowhere


@pytest.fixture
def replicated(nowhere: Cli, templates: Path) -> Cli:
    """Stores a, b and c in zones z1, z2 and z3, and the topic t on a:b:c, which holds x and y in two commits."""
    shutil.copytree(templates / "replicated", Path(nowhere.url).parent, dirs_exist_ok=True)
    return nowhere
