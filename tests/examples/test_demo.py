"""The demo, on a sample of its data: it checks itself, so it is enough that it ends well."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sparklog

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


# M: S-01 N-07 P-07 (kills)
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_demo_ends_with_every_check_passed(tmp_path: Path) -> None:
    """On one Spark. tests/cli/test_job_files.py has spark-submit."""
    folder = tmp_path / "demo"
    done = run("--full", "--keep", str(folder), "--flights", str(FLIGHTS), "--without-delta", STORE="local")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all checks passed" in done.stdout
    assert "no Delta table: --without-delta" in done.stdout
    assert "further acts" not in done.stdout
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
def test_the_first_act_ends_with_the_commands_of_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = run("--keep", str(folder), "--flights", str(FLIGHTS), STORE="local")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in folder.glob("*.png")} == {"log.png"}
    further = done.stdout.partition("further acts:")[2]
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
