"""Stores that lost objects: wiped, rolled back, swapped. The loss is reported, then they are filled again (S1, F2)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from sparklog.agent.agent import EXAMINE_EVERY_MS
from sparklog.agent.agent_requests import Fetch, LookForObject, PutIncarnation, Reply, Request, Submit
from sparklog.core.commands import HeldEnd, MoveLogStart, ReportLoss
from sparklog.core.errors import Conflict, DuplicateBrokerRegistration, InconsistentClusterId, StoreUnavailable
from sparklog.core.types import Offset, PartitionIndex, StoreId, TopicId
from sparklog.log.incarnation import Incarnation
from sparklog.maintenance.space.retention_job import run_retention
from sparklog.storage.keys import INCARNATION
from tests.agent.agent_world import DrivenAgent, ReplicatedCluster, replicated_cluster


@pytest.fixture
def world() -> Iterator[ReplicatedCluster]:
    """Three writes to partition 0 and one to partition 1, on all stores."""
    world = replicated_cluster(partitions=2)
    for value in ("0", "1", "2"):
        world.write(value, partition=0)
    world.write("x", partition=1)
    yield world
    world.cluster.close()


def losses(agent: DrivenAgent) -> list[ReportLoss]:
    return [each.command for each in agent.asked if isinstance(each, Submit) and isinstance(each.command, ReportLoss)]


def no_copies(request: Request) -> Reply:
    return StoreUnavailable("no copy") if isinstance(request, Fetch) else None


def data_of(world: ReplicatedCluster, name: str, partition: int = 0) -> list[str]:
    """The keys of the objects of a partition, in the order of offsets."""
    uploads = [world.state.objects.get(number).upload_id for number in world.objects_of(partition)]  # type: ignore[union-attr]
    return [next(key for key in world.objects(name) if each in key and key.endswith(".arrow")) for each in uploads]


# M: P-07
def test_a_wiped_store_leaves_the_isr_and_is_filled_again(world: ReplicatedCluster) -> None:
    world.wipe("b")
    agent = DrivenAgent(world, "b", before=no_copies).run()
    assert (world.replicas(0), world.replicas(1)) == ("a:ac a3 b0 c3", "a:ac a1 b0 c1")
    assert world.state.stores[StoreId("b")].incarnation != ""
    assert "no INCARNATION is there: it was wiped or swapped" in agent.said("loss")[0]
    assert "putting a new INCARNATION" in agent.said("loss")[1]
    agent.before = lambda request: None
    agent.run(60_000)
    assert (world.replicas(0), world.replicas(1)) == ("a:abc a3 b3 c3", "a:abc a1 b1 c1")
    assert world.objects("b") == world.objects("a")
    assert len(losses(agent)) == 1
    mark = msgspec.json.decode(world.store("b").get(INCARNATION), type=Incarnation)
    assert mark == Incarnation(world.state.stores[StoreId("b")].incarnation, world.state.chain_id)


# M: P-07
def test_a_wiped_leader_hands_over_before_it_is_filled(world: ReplicatedCluster) -> None:
    world.wipe("a")
    DrivenAgent(world, "a", before=no_copies).run()
    assert world.replicas(0) == "b:bc a0 b3 c3"
    assert world.values() == ["0", "1", "2"]


# M: P-07
def test_a_store_that_lost_only_its_mark_keeps_what_it_has(world: ReplicatedCluster) -> None:
    """It is out of the ISR, because nobody knows what happened; its log ends are what was really found."""
    before = world.state.stores[StoreId("b")].incarnation
    world.store("b").delete(INCARNATION)
    world.store("b").delete(data_of(world, "b")[1])
    agent = DrivenAgent(world, "b", before=no_copies).run()
    assert (world.replicas(0), world.replicas(1)) == ("a:ac a3 b1 c3", "a:abc a1 b1 c1")
    (loss,) = losses(agent)
    assert loss.incarnation == world.state.stores[StoreId("b")].incarnation != before
    assert loss.held == (
        HeldEnd(TopicId(1), PartitionIndex(0), Offset(1)),
        HeldEnd(TopicId(1), PartitionIndex(1), Offset(1)),
    )


# M: P-07
def test_a_store_that_was_rolled_back_to_an_old_copy_is_found_by_its_newest_objects(world: ReplicatedCluster) -> None:
    before = world.state.stores[StoreId("b")].incarnation
    kept = {*data_of(world, "b")[:1], *data_of(world, "b", 1)}
    for key in [key for key in world.objects("b") if key.endswith(".arrow") and key not in kept]:
        world.store("b").delete(key)
        world.store("b").delete(key.replace(".arrow", ".index"))
    agent = DrivenAgent(world, "b", before=no_copies).run()
    assert (world.replicas(0), world.replicas(1)) == ("a:ac a3 b1 c3", "a:abc a1 b1 c1")
    (loss,) = losses(agent)
    assert loss.incarnation == before
    assert loss.held == (HeldEnd(TopicId(1), PartitionIndex(0), Offset(1)),)
    agent.before = lambda request: None
    agent.run(60_000)
    assert world.replicas(0) == "a:abc a3 b3 c3"


def test_an_object_in_the_middle_that_is_missing_is_found_by_chance_or_later(world: ReplicatedCluster) -> None:
    agent = DrivenAgent(world, "b").run(1_000)
    world.store("b").delete(data_of(world, "b")[1])
    agent.run(EXAMINE_EVERY_MS + 60_000)
    assert len(losses(agent)) == 1
    assert world.replicas(0) == "a:abc a3 b3 c3"
    assert world.objects("b") == world.objects("a")


def test_an_object_that_was_cut_is_missing_and_never_overwritten(world: ReplicatedCluster) -> None:
    key = data_of(world, "b")[2]
    cut = bytes(world.store("b").get(key))[:-1]
    world.store("b").delete(key)
    world.store("b").put_if_absent(key, cut)
    agent = DrivenAgent(world, "b").run(30_000)
    assert world.replicas(0) == "a:ac a3 b2 c3"
    assert bytes(world.store("b").get(key)) == cut
    assert any("CORRUPT_MESSAGE" in text and key in text for text in agent.said("error"))
    world.store("b").delete(key)
    agent.run(60_000)
    assert world.replicas(0) == "a:abc a3 b3 c3"


def test_a_store_of_another_cluster_stops_the_agent_and_is_not_touched(world: ReplicatedCluster) -> None:
    world.wipe("b")
    other = Incarnation("f" * 32, "another chain")
    world.store("b").put_if_absent(INCARNATION, msgspec.json.encode(other))
    there = [each.key for each in world.store("b").list_keys("")]
    agent = DrivenAgent(world, "b").run()
    assert isinstance(agent.agent.error, InconsistentClusterId)
    assert [each.key for each in world.store("b").list_keys("")] == there
    assert world.replicas(0) == "a:abc a3 b3 c3"


def test_a_mark_that_is_not_sparklogs_stops_the_agent(world: ReplicatedCluster) -> None:
    world.wipe("b")
    world.store("b").put_if_absent(INCARNATION, b"mine")
    agent = DrivenAgent(world, "b").run()
    assert type(agent.agent.error) is Conflict
    assert bytes(world.store("b").get(INCARNATION)) == b"mine"


def test_two_stores_at_one_place_stop_the_agent(world: ReplicatedCluster) -> None:
    world.store("b").delete(INCARNATION)
    world.store("b").put_if_absent(INCARNATION, bytes(world.store("c").get(INCARNATION)))
    agent = DrivenAgent(world, "b").run()
    assert isinstance(agent.agent.error, DuplicateBrokerRegistration)


def test_an_agent_that_died_between_the_mark_and_the_report_is_continued(world: ReplicatedCluster) -> None:
    world.wipe("b")
    died = DrivenAgent(world, "b")
    while not died.count(PutIncarnation):
        died.step()
    mark = msgspec.json.decode(world.store("b").get(INCARNATION), type=Incarnation)
    agent = DrivenAgent(world, "b").run()
    assert losses(agent)[0].incarnation == mark.incarnation
    assert agent.count(PutIncarnation) == 0
    assert world.replicas(0) == "a:abc a3 b3 c3"


def test_what_retention_took_is_no_loss(world: ReplicatedCluster) -> None:
    """Between the state that the agent knows and its look, retention forgets and deletes what it looks for."""

    def retain(request: Request) -> Reply:
        if isinstance(request, LookForObject) and world.value().log_start == 0:
            world.submit(MoveLogStart(TopicId(1), PartitionIndex(0), Offset(3)))
            assert run_retention(world.cluster.connection.url, now_ms=1 << 45).exit_code == 0
        return None

    agent = DrivenAgent(world, "b", before=retain).run()
    assert agent.count(LookForObject) > 0
    assert (losses(agent), agent.said("loss")) == ([], [])
    assert world.replicas(0) == "a:abc a3 b3 c3"


def test_what_retention_took_during_the_search_after_a_loss_is_not_reported(world: ReplicatedCluster) -> None:
    world.store("b").delete(data_of(world, "b")[0])

    def retain(request: Request) -> Reply:
        if isinstance(request, LookForObject) and agent.said("loss") and world.value().log_start == 0:
            world.submit(MoveLogStart(TopicId(1), PartitionIndex(0), Offset(1)))
        return None

    agent = DrivenAgent(world, "b", before=retain)
    agent.run()
    assert agent.said("loss")
    assert losses(agent) == []
    assert world.replicas(0) == "a:abc a3 b3 c3"


def test_a_look_that_gets_no_answer_is_no_loss(world: ReplicatedCluster) -> None:
    silent = True

    def fail(request: Request) -> Reply:
        return StoreUnavailable("silent") if silent and isinstance(request, LookForObject) else None

    agent = DrivenAgent(world, "b", before=fail).run(5_000)
    assert losses(agent) == []
    silent = False
    agent.run(40_000)
    assert agent.said("up")
    assert losses(agent) == []


def test_looks_that_get_no_answer_are_repeated_and_the_others_count(world: ReplicatedCluster) -> None:
    """One look in two fails: the search still ends, and what answered is not asked again."""
    world.wipe("b", mark=False)
    unlucky = 0

    def fail(request: Request) -> Reply:
        nonlocal unlucky
        unlucky += isinstance(request, LookForObject)
        return StoreUnavailable("not now") if isinstance(request, LookForObject) and unlucky % 2 else no_copies(request)

    agent = DrivenAgent(world, "b", before=fail).run(3_000)
    assert len(losses(agent)) == 1
    assert world.replicas(0) == "a:ac a3 b0 c3"


def test_the_only_copy_that_lost_its_mark_keeps_its_records() -> None:
    """No other store has them. Its registration is a new one, and as it was found to have everything, it leads on."""
    world = replicated_cluster()
    world.write("0")
    for name in "bc":
        world.fence(name)
    world.write("1", on="a")
    world.store("a").delete(INCARNATION)
    DrivenAgent(world, "a", before=no_copies).run()
    assert world.replicas() == "a:a a2 b1 c1"
    assert world.values() == ["0", "1"]
