"""The demo, on a sample of its data: it checks itself, so it is enough that it ends well."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import sparklog
from tests.examples.quick_spark import END_OF_DEMO, NEXT

PROJECT = Path(__file__).parents[2]
DEMO = PROJECT / "examples" / "demo.py"
FLIGHTS = 1_000  # each is about an eighth of a segment, and each segment a task of compaction
PNG = b"\x89PNG\r\n\x1a\n"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.examples.quick_spark", *arguments],
        cwd=PROJECT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@dataclass(frozen=True)
class Done:
    """A demo that has ended: its folder, what it said, and its exit code. `errors`: stderr of all demos."""

    folder: Path
    said: str
    code: int
    errors: str


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Done]:
    """The first act alone, and then all of them, on one Spark. tests/cli/test_job_files.py has spark-submit."""
    first, full = (tmp_path_factory.mktemp("demos") / name for name in ("first", "full"))
    of_first = ["--keep", str(first), "--flights", str(FLIGHTS)]
    of_full = ["--full", "--keep", str(full), "--flights", str(FLIGHTS), "--without-delta"]
    ran = run(*of_first, NEXT, *of_full, STORE="local")
    said = re.split(rf"^{END_OF_DEMO}([0-9]+)\n", ran.stdout, flags=re.MULTILINE)
    assert (ran.returncode, len(said)) == (0, 5), ran.stdout + ran.stderr
    return Done(first, said[0], int(said[1]), ran.stderr), Done(full, said[2], int(said[3]), ran.stderr)


# M: S-01 N-07 P-07 (kills)
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_demo_ends_with_every_check_passed(demos: tuple[Done, Done]) -> None:
    _, full = demos
    folder = full.folder
    assert full.code == 0, full.said + full.errors
    assert "all checks passed" in full.said
    assert "no Delta table: --without-delta" in full.said
    assert "further acts" not in full.said
    for picture in ("log.png", "replicas.png"):
        assert (folder / picture).read_bytes().startswith(PNG)
    removed = json.loads((folder / "retention.json").read_text())["done"]["records"]
    with sparklog.connect(str(folder / "cluster")) as cluster:
        partitions = cluster.describe("flights").partitions
        assert sum(part.high_watermark - part.log_start for part in partitions) == FLIGHTS - removed < FLIGHTS
        left = [cluster.read("flights", partition=number, columns=["key"]) for number in range(len(partitions))]
        keys = [key for table in left for key in table["key"].to_pylist()]
        assert 100 < len(keys) == len(set(keys)) < FLIGHTS - removed
    with sparklog.connect(str(folder / "three-stores" / "chain")) as cluster:
        assert cluster.describe("flights").records == FLIGHTS
        assert not any(store.agent_up for store in cluster.stores())


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_first_act_ends_with_the_commands_of_the_others(demos: tuple[Done, Done]) -> None:
    first, _ = demos
    assert first.code == 0, first.said + first.errors
    assert {path.name for path in first.folder.glob("*.png")} == {"log.png"}
    further = first.said.partition("further acts:")[2]
    for command in set(re.findall(r"make [a-z-]+", further)):
        assert f"\n{command.removeprefix('make ')}: " in (PROJECT / "Makefile").read_text(encoding="utf-8")
    assert {"make demo-full", "make demo-cluster"} == set(re.findall(r"make [a-z-]+", further))


@pytest.mark.spark
@pytest.mark.campaign
def test_the_demo_has_a_delta_table(tmp_path: Path) -> None:
    """As users run it, each job by spark-submit."""
    done = subprocess.run(
        [sys.executable, str(DEMO), "--full", "--keep", str(tmp_path / "demo"), "--flights", "3000"],
        env=os.environ | {"STORE": "local"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "read by Delta Lake it has the same" in done.stdout
    assert (tmp_path / "demo" / "latest-flights" / "_delta_log").is_dir()


@pytest.mark.parametrize(
    ("arguments", "environment", "sentence"),
    [
        ([], {"STORE": "s3"}, "STORE=s3: wanted nothing, or an address like s3://bucket/prefix"),
        (["--keep", str(DEMO.parent)], {}, "wanted a new or empty folder"),
        (["--flights", "0"], {}, "wanted a number from 1 on"),
    ],
)
def test_what_the_demo_cannot_do_is_refused_in_one_sentence(
    arguments: list[str], environment: dict[str, str], sentence: str
) -> None:
    done = run(*arguments, **environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
