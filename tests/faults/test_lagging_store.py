"""A follower's agent is killed: readers see new records a period later, and it joins again once it is back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import sparklog
from tests.faults.store_folders import StoreFolders

pytestmark = pytest.mark.slow

PERIOD_MS = 1_000
CONFIG = {"replica.lag.time.max.ms": PERIOD_MS, "replica.fetch.wait.max.ms": 50}


@contextmanager
def agent(folders: StoreFolders, store: str) -> Iterator[subprocess.Popen[str]]:
    """`sparklog agent` for a store."""
    command = [sys.executable, "-m", "sparklog", "--cluster", folders.url, "agent", "--format", "json"]
    process = subprocess.Popen(
        [*command, "--store", store], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def hear(process: subprocess.Popen[str], event: str) -> str:
    """Wait until an agent says this."""
    assert process.stdout is not None
    for line in process.stdout:
        said = json.loads(line)
        if said["event"] == event:
            return str(said["text"])
    raise AssertionError(f"the agent ended before it said {event}")


# M: P-01 L-02 (kills)
def test_readers_see_new_records_although_the_agent_of_a_follower_was_killed(tmp_path: Path) -> None:
    folders = StoreFolders.create(tmp_path, config=CONFIG)
    with ExitStack() as agents, sparklog.connect(folders.url) as cluster:
        cluster.create_topic("t", assignment=[["a", "b", "c"]])
        a, b, c = (agents.enter_context(agent(folders, store)) for store in "abc")
        for process in (a, b, c):
            hear(process, "up")
        cluster.append("t", pa.table({"value": ["0"]}), replication="pull")
        c.kill()
        c.wait()
        cluster.append("t", pa.table({"value": ["1"]}), replication="pull", acks=1)
        while "c" in folders.replication("t").isr:
            assert "has left the ISR of 1 partition" in hear(a, "lag")
        cluster.append("t", pa.table({"value": ["2"]}), replication="pull")  # waits for the others alone
        assert cluster.read("t", partition=0)["value"].to_pylist() == [b"0", b"1", b"2"]
        hear(agents.enter_context(agent(folders, "c")), "caught-up")
        value = folders.replication("t")
        assert ("c" in value.isr, value.log_ends[2]) == (True, 3)
    assert folders.complaints() == []
