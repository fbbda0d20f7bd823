"""The demo of a whole cluster, on a sample of its data: it checks itself, so it is enough that it ends well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sparklog

DEMO = Path(__file__).parents[2] / "examples" / "demo_cluster.py"
FLIGHTS = 3_000


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(DEMO), *arguments], env=os.environ, capture_output=True, text=True, check=False
    )


# M: N-01 N-06 (kills)
@pytest.mark.slow
def test_the_demo_ends_with_every_check_passed_and_leaves_no_process_behind(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = run("--keep", str(folder), "--flights", str(FLIGHTS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all checks passed" in done.stdout
    assert "failover: coordinator-" in done.stdout
    with sparklog.connect(str(folder / "chain")) as cluster:
        assert cluster.describe("flights").records == FLIGHTS
        state = cluster.connection.follower.state
        assert state.coordinator.epoch >= 2
        assert not state.coordinator.in_force
        assert {"roll", "retention"} <= set(state.jobs)
        assert not any(store.agent_up for store in cluster.stores())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--keep", str(DEMO.parent)], "wanted a new or empty folder"),
        (["--flights", "5"], "wanted a number from 3,000 on, found 5"),
    ],
)
def test_what_the_demo_cannot_do_is_refused_in_one_sentence(arguments: list[str], sentence: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
