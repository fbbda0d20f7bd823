"""A coordinator watches the agents of three stores: one is killed while nobody writes, and comes back."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

import sparklog
from tests.faults.running_coordinators import running_coordinators
from tests.faults.store_folders import StoreFolders
from tests.faults.test_lagging_store import agent, hear

pytestmark = pytest.mark.slow

SESSION_MS = 5_000  # long enough for a busy machine
CONFIG = {"broker.session.timeout.ms": SESSION_MS, "replica.fetch.wait.max.ms": 50}


# M: P-06 P-08 (kills)
def test_a_store_whose_agent_is_killed_leads_no_more_although_nobody_writes(tmp_path: Path) -> None:
    folders = StoreFolders.create(tmp_path, config=CONFIG)
    with (
        sparklog.connect(folders.url) as cluster,
        running_coordinators(folders.url) as coordinators,
        ExitStack() as agents,
    ):
        cluster.create_topic("t", assignment=[["a", "b", "c"]])
        a, b, c = (agents.enter_context(agent(folders, store)) for store in "abc")
        for process in (a, b, c):
            hear(process, "up")
        coordinator = coordinators.start()
        coordinator.wait_for("leads")
        cluster.append("t", pa.table({"value": ["0"]}))
        assert folders.replication("t").leader == "a"
        a.kill()
        a.wait()
        assert coordinator.wait_for("watch").startswith("the agent of store a is silent")
        value = folders.replication("t")
        assert (value.leader, value.leader_epoch) == ("b", 1)
        assert {str(store.store): store.agent_up for store in cluster.stores()} == {"a": False, "b": True, "c": True}
        assert cluster.read("t", partition=0)["value"].to_pylist() == [b"0"]
        hear(agents.enter_context(agent(folders, "a")), "up")
        assert {str(store.store): store.agent_up for store in cluster.stores()} == {"a": True, "b": True, "c": True}
        cluster.append("t", pa.table({"value": ["1"]}))
        assert cluster.read("t", partition=0)["value"].to_pylist() == [b"0", b"1"]
    assert folders.complaints() == []
