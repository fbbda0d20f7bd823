"""Checkpoint files on stores: new objects, whole or not at all, three of each, and never on another's store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparklog.core.describe.checkpoints import CHECKPOINTS, HIGH_WATERMARKS, checkpoints_of
from sparklog.core.errors import OutcomeUnknown, StoreUnavailable
from sparklog.core.types import StoreId
from sparklog.log.checkpoint_files import KEPT, CheckpointFiles, newest_checkpoint
from sparklog.storage.keys import checkpoints_prefix, parse_checkpoint_key
from sparklog.storage.memory import MemoryStore
from tests.agent.agent_world import ReplicatedCluster, replicated_cluster


@pytest.fixture
def world() -> Iterator[ReplicatedCluster]:
    world = replicated_cluster()
    world.write("0")
    yield world
    world.cluster.close()


def write(world: ReplicatedCluster, files: CheckpointFiles | None = None) -> dict[StoreId, str]:
    state = world.state
    return (files or CheckpointFiles()).write(state, world.cluster.connection.stores(state))


def keys(world: ReplicatedCluster, store: str = "a") -> list[str]:
    return [stored.key for stored in world.store(store).list_keys(checkpoints_prefix(world.state.chain_id))]


def newest(world: ReplicatedCluster, name: str, store: str = "a") -> tuple[int, str] | None:
    return newest_checkpoint(world.store(store), world.state.chain_id, name)


# M: F-07 N-06
def test_every_store_has_its_checkpoints_and_the_newest_three_stay(world: ReplicatedCluster) -> None:
    files = CheckpointFiles()
    assert newest(world, HIGH_WATERMARKS) is None
    for count in range(1, 6):
        assert write(world, files) == {}
        for store in "abc":
            wanted = checkpoints_of(world.state, StoreId(store))
            assert {name: newest(world, name, store)[1] for name in CHECKPOINTS} == wanted  # type: ignore[index]
        of_high_watermarks = [key for key in keys(world) if HIGH_WATERMARKS in key]
        assert len(of_high_watermarks) == min(count, KEPT)
        assert newest(world, HIGH_WATERMARKS) == (world.state.n, f"0\n1\nt 0 {count}\n")
        world.write("more")
    assert len([key for key in keys(world) if "leader-epoch" in key]) == 1, "it has not changed"


def test_what_has_not_changed_is_not_written_again(world: ReplicatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    files = CheckpointFiles()
    write(world, files)
    before = keys(world)
    state = world.state
    stores = world.cluster.connection.stores(state)
    with monkeypatch.context() as patch:
        for name in ("get", "list_keys", "put_if_absent", "delete"):
            patch.setattr(MemoryStore, name, None)
        assert files.write(state, stores) == {}, "without any request"
    write(world, CheckpointFiles())
    assert keys(world) == before, "another process sees that the newest say the same"


def test_a_store_that_does_not_answer_stops_no_other_and_is_tried_again(
    world: ReplicatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, put = CheckpointFiles(), MemoryStore.put_if_absent

    def silent(store: MemoryStore, key: str, body: bytes) -> None:
        if store.url.endswith("-b"):
            raise StoreUnavailable("b is down")
        put(store, key, body)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "put_if_absent", silent)
        assert list(write(world, files)) == ["b"]
    assert (len(keys(world, "a")), len(keys(world, "b"))) == (len(CHECKPOINTS), 0)
    assert write(world, files) == {}
    assert len(keys(world, "b")) == len(CHECKPOINTS)


def test_a_put_of_unknown_outcome_is_no_failure(world: ReplicatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(store: MemoryStore, key: str, body: bytes) -> None:
        raise OutcomeUnknown("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "put_if_absent", unknown)
        assert write(world) == {}
    assert write(world) == {}
    assert len(keys(world)) == len(CHECKPOINTS)


# M: F-07
def test_nothing_is_written_to_a_store_that_was_wiped_or_swapped(world: ReplicatedCluster) -> None:
    world.wipe("c")
    assert "INCARNATION" in write(world)[StoreId("c")]
    assert keys(world, "c") == []
    assert len(keys(world, "b")) == len(CHECKPOINTS)


def test_a_fenced_store_is_left_alone(world: ReplicatedCluster) -> None:
    world.fence("b")
    assert write(world) == {}
    assert (len(keys(world, "a")), keys(world, "b")) == (len(CHECKPOINTS), [])


def test_checkpoints_are_neither_copies_of_the_chain_nor_orphans(world: ReplicatedCluster) -> None:
    from sparklog.maintenance.space.vacuum_job import run_vacuum

    write(world)
    before = keys(world)
    assert all(parse_checkpoint_key(key) is not None for key in before)
    assert run_vacuum(world.cluster.connection.url, now_ms=2**41).exit_code == 0
    assert keys(world) == before
