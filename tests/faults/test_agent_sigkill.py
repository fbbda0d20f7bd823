"""The agent of a store is killed (SIGKILL) at a change of its store or of the chain: the next one goes on there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparklog
from sparklog.agent.run import AgentRun
from sparklog.core.types import StoreId
from sparklog.storage.local.upload import LocalUpload
from tests.agent.agent_world import ReplicatedCluster, replicated_cluster
from tests.faults.interruptions import NEVER, killed_at
from tests.faults.killed_runs import KilledRuns

OBJECTS = 5  # that store c lacks
KILLS = 4


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster on disk whose store c lacks OBJECTS objects."""
    url = tmp_path_factory.mktemp("killed") / "cluster"
    world = replicated_cluster(str(url))
    world.write("0")
    for number in range(OBJECTS):
        world.write(f"{number + 1}", on="ab")
    assert world.replicas() == "a:ab a6 b6 c1"
    world.cluster.close()
    return url


@pytest.fixture(scope="module")
def killer() -> Iterator[KilledRuns]:
    with KilledRuns("tests.faults.killed_agent") as runs:
        yield runs


# M: N-07 (kills)
def test_an_agent_that_was_killed_goes_on_where_it_was(
    template: Path, killer: KilledRuns, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shutil.copytree(template, tmp_path / "whole")
    changes = killer(NEVER, str(whole)).notes
    assert changes >= 3 * OBJECTS
    copied: list[object] = []
    copy = LocalUpload.copy

    def counted(upload: LocalUpload, fd: int, size_bytes: int) -> bool:
        copied.append(upload)
        return copy(upload, fd, size_bytes)

    monkeypatch.setattr(LocalUpload, "copy", counted)
    for step in killed_at(changes, request, KILLS):
        url = str(shutil.copytree(template, tmp_path / f"{step}"))
        assert killer(step, url).killed
        with sparklog.connect(url) as cluster:
            world = ReplicatedCluster(cluster)
            there = [key for key in world.objects("c") if key.endswith(".arrow")]
            copied.clear()
            AgentRun(cluster.connection, StoreId("c"), lambda note: None, once=True).run()
            assert world.replicas() == "a:abc a6 b6 c6"
            assert world.objects("c") == world.objects("a")
            assert len(copied) == 1 + OBJECTS - len(there)
