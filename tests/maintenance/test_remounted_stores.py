"""A process that stops between an upload and its last look at the store, while the store's disk comes back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from sparklog.client.plans.write_plan import Durability
from sparklog.core.commands import Election, ElectLeaders
from sparklog.core.errors import StoreUnavailable
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import PartitionIndex, StoreId
from sparklog.maintenance.replication_job import run_replication
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.verify.recovery_job import run_recovery
from sparklog.maintenance.verify.verify_job import run_verify
from sparklog.storage.keys import INCARNATION, index_key
from sparklog.storage.local.store import LocalStore
from sparklog.storage.local.upload import LocalUpload
from tests.agent.agent_world import DrivenAgent, ReplicatedCluster, replicated_cluster
from tests.client.replicated_cluster import commit, uploaded
from tests.kit.silent_console import SILENT
from tests.mounts import Disk, begin_own_mounts


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    world = replicated_cluster(str(tmp_path / "cluster"))
    world.write("0", "1")
    yield world
    world.cluster.close()


@pytest.fixture(params=["mounts", "names"])
def disk(world: ReplicatedCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Disk]:
    """The disk of store c."""
    real = request.param == "mounts"
    if real and not begin_own_mounts():
        pytest.skip("this machine allows no mounts")
    disk = Disk(tmp_path / "cluster" / "c", real=real)
    yield disk
    if real:
        disk.unmount()


def url(world: ReplicatedCluster) -> str:
    return world.cluster.connection.url


def append(world: ReplicatedCluster) -> None:
    world.cluster.append("t", pa.table({"value": ["2"]}))


def agent(world: ReplicatedCluster) -> None:
    DrivenAgent(world, "c").run()


def replication(world: ReplicatedCluster) -> None:
    run_replication(url(world), stores=["c"], console=SILENT)


def roll(world: ReplicatedCluster) -> None:
    run_roll(url(world), everything=True, console=SILENT)


def submitted_again(world: ReplicatedCluster) -> None:
    """Copied to the store that leads by now."""
    plan, written = uploaded(world.cluster, "2", durability=Durability(Acks.LEADER, pull=True))
    world.submit(ElectLeaders((Election(world.key().topic_id, PartitionIndex(0), StoreId("c")),)))
    commit(world.cluster, plan, written)


def mended_index(world: ReplicatedCluster) -> None:
    (key, *_) = world.objects("c")
    world.store("c").delete(index_key(key) if key.endswith(".arrow") else key)
    if run_recovery(url(world), console=SILENT).exit_code:
        run_recovery(url(world), console=SILENT)


def without_the_disk(monkeypatch: pytest.MonkeyPatch, disk: Disk) -> list[str]:
    """Unmount the disk before the next upload there, and mount it before the look after that upload.

    Returns what was uploaded first.
    """
    below: list[str] = []
    upload = LocalStore.upload

    def unmounted(store: LocalStore, key: str) -> LocalUpload:
        if key.endswith((".arrow", ".index")) and store.url == disk.at.as_uri() and not below:
            disk.unmount()
            below.append(key)
        return upload(store, key)

    def mounted(look: Callable[..., memoryview]) -> Callable[..., memoryview]:
        def at_last(store: LocalStore, key: str, *others: Collection[str]) -> memoryview:
            if key == INCARNATION and store.url == disk.at.as_uri() and not disk.is_mounted:
                assert (disk.at / below[0]).exists(), "it was uploaded"
                disk.mount()
            return look(store, key, *others)

        return at_last

    monkeypatch.setattr(LocalStore, "upload", unmounted)
    monkeypatch.setattr(LocalStore, "get", mounted(LocalStore.get))
    monkeypatch.setattr(LocalStore, "get_beside", mounted(LocalStore.get_beside))
    return below


# M: P-07
@pytest.mark.parametrize("write", [append, agent, replication, roll, submitted_again, mended_index])
def test_what_lies_below_a_disk_that_is_back_does_not_count(
    world: ReplicatedCluster, disk: Disk, monkeypatch: pytest.MonkeyPatch, write: Callable[[ReplicatedCluster], None]
) -> None:
    if write in (agent, replication):
        world.write("2", on="ab")
    below = without_the_disk(monkeypatch, disk)
    write(world)
    assert disk.is_mounted
    assert below, "it was stopped at that point"
    assert run_verify(url(world), console=SILENT).differences == ()
    DrivenAgent(world, "c").run(10_000)
    assert world.value().log_end(StoreId("c")) == world.value().next_offset
    assert world.objects("c") == world.objects("a")


def test_a_store_without_others_takes_the_next_try(
    world: ReplicatedCluster, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.cluster.create_topic("u", assignment=[["c"]])
    without_the_disk(monkeypatch, disk)
    with pytest.raises(StoreUnavailable, match=f"beside {INCARNATION} in {disk.at}, found it elsewhere"):
        world.cluster.append("u", pa.table({"value": ["lost"]}))
    world.cluster.append("u", pa.table({"value": ["0"]}))
    assert world.cluster.read("u", partition=0).column("value").to_pylist() == [b"0"]
