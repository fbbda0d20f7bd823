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
    """`sparklog agent` for a store, which is up."""
    command = [sys.executable, "-m", "sparklog", "--cluster", folders.url, "agent", "--format", "json"]
    process = subprocess.Popen(
        [*command, "--store", store], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            hear(process, "up")
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
        a, _, c = (agents.enter_context(agent(folders, store)) for store in "abc")
        cluster.append("t", pa.table({"value": ["0"]}), replication="pull")  # returns when it is on all three
        c.kill()
        c.wait()
        cluster.append("t", pa.table({"value": ["1"]}), replication="pull", acks=1)
        assert cluster.read("t", partition=0)["value"].to_pylist() == [b"0"]
        assert hear(a, "lag") == "store c lags: it has left the ISR of 1 partition"
        cluster.append("t", pa.table({"value": ["2"]}), replication="pull")  # waits for a and b alone
        assert cluster.read("t", partition=0)["value"].to_pylist() == [b"0", b"1", b"2"]
        assert folders.replication("t").isr == ("a", "b")
        hear(agents.enter_context(agent(folders, "c")), "caught-up")
        assert folders.replication("t").isr == ("a", "b", "c")
        cluster.append("t", pa.table({"value": ["3"]}), replication="pull")
        assert folders.replication("t").log_ends == (4, 4, 4)
    assert folders.complaints() == []
