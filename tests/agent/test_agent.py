"""The agent of a store on three stores in memory: it fetches, reports, and the ISR grows again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from sparklog.agent.agent_requests import Fetch, PutIncarnation, ReadIncarnation, Reply, Request, Submit
from sparklog.core.commands import (
    AgentDown,
    AgentUp,
    DropLagging,
    Election,
    ElectLeaders,
    LaggingReplicas,
    Move,
    MoveReplicas,
    ReportReplicas,
)
from sparklog.core.errors import (
    BrokerIdNotRegistered,
    ClusterAuthorizationFailed,
    InconsistentClusterId,
    OutcomeUnknown,
    StaleBrokerEpoch,
    StoreFull,
    StoreUnavailable,
)
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import PartitionIndex, StoreId, TopicId
from sparklog.log.objects.object_copy import FetchResult, SourceFailure
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.space.retention_job import run_retention
from sparklog.maintenance.space.vacuum_job import run_vacuum
from tests.agent.agent_world import DrivenAgent, ReplicatedCluster, replicated_cluster


@pytest.fixture
def world() -> Iterator[ReplicatedCluster]:
    """Offsets 0 and 1 are on all stores."""
    world = replicated_cluster()
    world.write("0", "1")
    yield world
    world.cluster.close()


def reports(agent: DrivenAgent) -> list[ReportReplicas]:
    return [
        each.command for each in agent.asked if isinstance(each, Submit) and isinstance(each.command, ReportReplicas)
    ]


# M: P-02 L-03 N-07
def test_a_store_that_missed_writes_is_filled_and_in_sync_again(world: ReplicatedCluster) -> None:
    world.write("2", on="ab")
    world.write("3", on="ab")
    assert world.replicas() == "a:ab a4 b4 c2"
    agent = DrivenAgent(world, "c").run()
    assert world.replicas() == "a:abc a4 b4 c4"
    assert world.objects("c") == world.objects("a")
    assert [each.replicas[0].log_end for each in reports(agent)] == [4]
    assert [each.event for each in agent.notes] == ["up", "behind", "caught-up"]
    for name in "ab":
        world.wipe(name)
    assert world.values() == ["0", "1", "2", "3"]


# M: L-03 L-02
def test_the_high_watermark_follows_what_agents_report(world: ReplicatedCluster) -> None:
    world.write("2", on="a", acks=Acks.LEADER)
    assert (world.value().high_watermark, world.replicas()) == (2, "a:abc a3 b2 c2")
    DrivenAgent(world, "b").run()
    assert world.value().high_watermark == 2
    DrivenAgent(world, "c").run()
    assert (world.value().high_watermark, world.replicas()) == (3, "a:abc a3 b3 c3")


def test_a_store_that_has_everything_joins_without_a_copy(world: ReplicatedCluster) -> None:
    value = world.value()
    world.write("2", on="ab", acks=Acks.LEADER)
    dropped = LaggingReplicas(TopicId(1), PartitionIndex(0), value.leader_epoch, value.version, (StoreId("c"),))
    world.submit(DropLagging((dropped,)))
    world.fence("b")
    world.register("b")
    assert world.replicas() == "a:a a3 b3 c2"
    agent = DrivenAgent(world, "b").run()
    assert world.replicas() == "a:ab a3 b3 c2"
    assert agent.count(Fetch) == 0


# M: P-11
def test_a_replica_that_moves_to_a_store_is_filled_there() -> None:
    world = replicated_cluster(partitions=2)
    world.write("0", "1", partition=1)
    world.submit(MoveReplicas((Move(TopicId(1), PartitionIndex(1), (StoreId("b"),)),)))
    world.write("2", partition=1, on="b")
    assert world.replicas(1) == "b:b b3"
    world.submit(MoveReplicas((Move(TopicId(1), PartitionIndex(1), (StoreId("c"), StoreId("b"))),)))
    DrivenAgent(world, "c").run()
    assert world.replicas(1) == "b:cb c3 b3"


def test_what_is_there_already_is_not_copied_twice(world: ReplicatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write("2", on="ab")
    world.write("3", on="ab")
    missing = [key for key in world.objects("a") if key not in world.objects("c")]
    for key in missing[:2]:
        world.store("c").put_if_absent(key, bytes(world.store("a").get(key)))
    copied: list[str] = []
    copy_from = type(world.store("c")).copy_from

    def watched(self: object, source: object, source_key: str, key: str) -> bool:
        copied.append(key)
        return copy_from(self, source, source_key, key)  # type: ignore[arg-type]

    monkeypatch.setattr(type(world.store("c")), "copy_from", watched)
    DrivenAgent(world, "c").run()
    assert copied == [key for key in missing if key.endswith(".arrow") and key not in missing[:2]]
    assert world.replicas() == "a:abc a4 b4 c4"


# ---- what else happens meanwhile -----------------------------------------------------------------


# M: L-04 (loses)
def test_a_report_that_another_change_overtook_is_made_again(world: ReplicatedCluster) -> None:
    """A new leader between the copy and the report: the old epoch is fenced, the agent reports under the new one."""
    world.write("2", on="ab")

    def elect(request: Request) -> Reply:
        if isinstance(request, Submit) and isinstance(request.command, ReportReplicas) and world.value().leader == "a":
            world.submit(ElectLeaders((Election(TopicId(1), PartitionIndex(0), StoreId("b")),)))
        return None

    agent = DrivenAgent(world, "c", before=elect).run()
    assert world.replicas() == "b:abc a3 b3 c3"
    assert [each.replicas[0].leader_epoch for each in reports(agent)] == [0, 1]


# M: L-06
def test_a_store_that_comes_back_with_forgotten_records_ends_with_the_leaders(world: ReplicatedCluster) -> None:
    world.write("lost", on="a", acks=Acks.LEADER)
    assert world.replicas() == "a:abc a3 b2 c2"
    world.fence("a")
    world.write("2", on="bc")
    forgotten = [key for key in world.objects("a") if key not in world.objects("b")]
    assert len(forgotten) == 2
    world.register("a")
    DrivenAgent(world, "a").run()
    assert world.replicas() == "b:abc a4 b4 c4"
    assert world.value().log_ends == (4, 4, 4)
    for name in "bc":
        world.wipe(name)
    assert world.values() == ["0", "1", "2"]
    assert [key for key in world.objects("a") if key in forgotten] == forgotten, "an agent never deletes anything"


def test_a_roll_before_the_copies_gives_the_agent_other_objects(world: ReplicatedCluster) -> None:
    world.write("2", on="ab")
    rolled = False

    def roll(request: Request) -> Reply:
        nonlocal rolled
        if isinstance(request, Fetch) and not rolled:
            rolled = True
            run_roll(world.cluster.connection.url, everything=True)
            run_retention(world.cluster.connection.url)
        return None

    DrivenAgent(world, "c", before=roll).run()
    assert world.replicas() == "a:abc a3 b3 c3"
    assert [key for key in world.objects("c") if key.startswith("topics/")] == [
        key for key in world.objects("a") if key.startswith("topics/")
    ]


def test_vacuum_takes_what_an_election_forgot_and_nothing_of_an_agent(world: ReplicatedCluster) -> None:
    world.write("2", on="ab")
    agent = DrivenAgent(world, "c")
    agent.run(500)
    run_vacuum(world.cluster.connection.url, now_ms=1 << 45)
    agent.run()
    assert world.replicas() == "a:abc a3 b3 c3"
    assert world.objects("c") == world.objects("a")


def test_a_topic_that_is_deleted_meanwhile_is_no_error(world: ReplicatedCluster) -> None:
    world.write("2", on="ab")

    def delete(request: Request) -> Reply:
        if isinstance(request, Submit) and isinstance(request.command, ReportReplicas):
            world.cluster.delete_topic("t")
        return None

    agent = DrivenAgent(world, "c", before=delete).run()
    assert (agent.agent.ended, agent.said("error")) == (False, [])


def test_an_unknown_outcome_of_a_report_is_looked_up_in_the_state(world: ReplicatedCluster) -> None:
    world.write("2", on="ab")
    lost = 0

    def lose_reply(request: Request) -> Reply:
        nonlocal lost
        if isinstance(request, Submit) and isinstance(request.command, ReportReplicas) and not lost:
            lost += 1
            world.submit(request.command)
            return OutcomeUnknown("the reply was lost")
        return None

    agent = DrivenAgent(world, "c", before=lose_reply).run()
    assert world.replicas() == "a:abc a3 b3 c3"
    assert len(reports(agent)) == 1


# ---- failures ------------------------------------------------------------------------------------


def failing(
    world: ReplicatedCluster, sources: str, *, lacks_it: bool, times: int = 1 << 30
) -> tuple[DrivenAgent, list[int]]:
    """The agent of c. Copies fail as if these sources could not provide anything; when they were asked for (ms)."""
    asked: list[int] = []

    def fail(request: Request) -> Reply:
        nonlocal times
        if not isinstance(request, Fetch) or times == 0:
            return None
        bad = [store for store in request.wanted.sources if store in sources]
        if not bad:
            return None
        times -= 1
        asked.append(agent.now_ms)
        failures = tuple(SourceFailure(store, lacks_it, f"{store} fails") for store in bad)
        good = [store for store in request.wanted.sources if store not in sources]
        return FetchResult(StoreId(good[0]) if good else None, failures) if not good else None

    agent = DrivenAgent(world, "c", before=fail)
    return agent, asked


# M: N-07 (loses)
def test_a_source_that_fails_is_asked_less_and_less_often_and_then_gone_on_with(world: ReplicatedCluster) -> None:
    world.write("2", on="ab")
    agent, asked = failing(world, "ab", lacks_it=False)
    agent.run(60_000)
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert pauses[:3] == sorted(pauses[:3])
    assert 10_000 < max(pauses) <= 31_000
    assert len(asked) < 15
    assert agent.said("error") == ["a fails", "b fails"]
    agent.before = lambda request: None
    agent.run(60_000)
    assert world.replicas() == "a:abc a3 b3 c3"


def test_an_object_that_no_source_has_stops_only_its_own_partition() -> None:
    world = replicated_cluster(partitions=2)
    world.write("bad", on="ab", partition=0)
    world.write("good", on="ab", partition=1)
    (number,) = world.objects_of(0)

    def fail(request: Request) -> Reply:
        if isinstance(request, Fetch) and request.wanted.number == number:
            return FetchResult(
                None, tuple(SourceFailure(each, True, f"{each} lacks it") for each in request.wanted.sources)
            )
        return None

    agent = DrivenAgent(world, "c", before=fail).run(20_000)
    assert (world.replicas(0), world.replicas(1)) == ("a:ab a1 b1 c0", "a:abc a1 b1 c1")
    assert agent.said("error") == ["a lacks it"]
    assert agent.count(Fetch) < 12


def test_what_lies_behind_an_object_that_can_not_be_had_is_not_copied_again_and_again() -> None:
    """Its log end can't rise, so a copy of a later object changes nothing: neither the pauses nor what people hear."""
    world = replicated_cluster(partitions=2)
    for number in range(4):
        world.write(str(number), on="ab", partition=0)
    world.write("other", on="ab", partition=1)
    bad = world.objects_of(0)[1]
    fail = True

    def lack(request: Request) -> Reply:
        if fail and isinstance(request, Fetch) and request.wanted.number == bad:
            return FetchResult(None, tuple(SourceFailure(each, True, "it lacks it") for each in request.wanted.sources))
        return None

    agent = DrivenAgent(world, "c", before=lack).run(20_000)
    assert (world.replicas(0), world.replicas(1)) == ("a:ab a4 b4 c1", "a:abc a1 b1 c1")
    assert agent.said("error") == ["it lacks it"]
    assert agent.count(Fetch) < 12
    fail = False
    agent.run(40_000)
    assert world.replicas(0) == "a:abc a4 b4 c4"


def test_a_full_store_waits_and_goes_on(world: ReplicatedCluster) -> None:
    world.write("2", on="ab")
    full = True

    def fail(request: Request) -> Reply:
        return StoreFull("c is full") if full and isinstance(request, Fetch) else None

    agent = DrivenAgent(world, "c", before=fail).run(5_000)
    assert agent.said("error") == ["STORE_FULL: c is full"]
    full = False
    agent.run(40_000)
    assert world.replicas() == "a:abc a3 b3 c3"


def test_an_agent_without_the_right_waits_until_somebody_grants_it(world: ReplicatedCluster) -> None:
    world.write("2", on="ab")
    refused = True

    def fail(request: Request) -> Reply:
        return ClusterAuthorizationFailed("not c") if refused and isinstance(request, Submit) else None

    agent = DrivenAgent(world, "c", before=fail).run(5_000)
    assert agent.said("error") == ["CLUSTER_AUTHORIZATION_FAILED: not c"]
    refused = False
    agent.run(40_000)
    assert world.replicas() == "a:abc a3 b3 c3"


def test_a_refusal_that_no_change_explains_is_waited_out(world: ReplicatedCluster) -> None:
    """The cluster was deleted, or its coordinator's address is another cluster's by now."""

    def before(request: Request) -> Reply:
        return InconsistentClusterId("another one") if isinstance(request, Submit) else None

    agent = DrivenAgent(world, "c", before=before)
    for _ in range(300):
        agent.step()
    assert agent.now_ms > 60_000  # it pauses, and longer each time
    assert [note.event for note in agent.notes] == ["error"]


def test_an_agent_whose_cluster_and_store_were_deleted_rests_and_stops(world: ReplicatedCluster) -> None:
    """It reports the loss, and the chain refuses whatever it says."""
    is_deleted = False

    def before(request: Request) -> Reply:
        return InconsistentClusterId("deleted") if is_deleted and isinstance(request, Submit) else None

    world.write("0", on="abc")
    agent = DrivenAgent(world, "c", before=before).run()
    world.wipe("c")
    is_deleted = True
    agent.now_ms += 10 * 60_000
    began_ms = agent.now_ms
    for _ in range(300):
        agent.step()
    assert agent.count(PutIncarnation)
    assert agent.now_ms > began_ms + 60_000
    agent.agent.stop()
    for _ in range(100):
        agent.step()
    assert agent.agent.ended


def test_a_chain_that_can_not_be_read_for_a_while_is_waited_for(world: ReplicatedCluster) -> None:
    down = True

    def fail(request: Request) -> Reply:
        return StoreUnavailable("down") if down and not isinstance(request, Fetch) else None

    agent = DrivenAgent(world, "c", before=fail).run(10_000)
    assert 4 < len(agent.asked) < 20
    down = False
    agent.run(40_000)
    assert agent.said("up")
    assert agent.said("error") == ["KAFKA_STORAGE_ERROR: down"]


# ---- up and down ---------------------------------------------------------------------------------


def test_an_agent_says_that_it_is_up_and_that_it_stops(world: ReplicatedCluster) -> None:
    agent = DrivenAgent(world, "b").run(1_000)
    assert world.state.stores[StoreId("b")].agent_up is True
    agent.stop()
    assert world.state.stores[StoreId("b")].agent_up is None
    assert agent.agent.error is None
    said = [type(each.command) for each in agent.asked if isinstance(each, Submit)]
    assert said == [AgentUp, AgentDown]


def test_an_agent_that_is_called_silent_says_that_it_is_up(world: ReplicatedCluster) -> None:
    agent = DrivenAgent(world, "b").run(1_000)
    world.submit(AgentDown(StoreId("b"), world.state.stores[StoreId("b")].registration))
    agent.run(1_000)
    assert world.state.stores[StoreId("b")].agent_up is True


def test_what_was_copied_before_the_stop_is_reported(world: ReplicatedCluster) -> None:
    world.write("2", on="ab")
    agent = DrivenAgent(world, "c")
    while not agent.count(Fetch):
        agent.step()
    agent.stop()
    assert world.replicas() == "a:abc a3 b3 c3"


def test_a_fenced_store_stops_its_agent_with_the_way_back(world: ReplicatedCluster) -> None:
    agent = DrivenAgent(world, "c").run(1_000)
    world.fence("c")
    agent.run(2_000)
    assert isinstance(agent.agent.error, StaleBrokerEpoch)
    assert "`sparklog store add`" in agent.agent.error.message
    world.register("c")
    assert DrivenAgent(world, "c").run(1_000).agent.error is None


def test_a_store_that_nobody_registered_has_no_agent(world: ReplicatedCluster) -> None:
    agent = DrivenAgent(world, "x").run()
    assert isinstance(agent.agent.error, BrokerIdNotRegistered)


def test_an_agent_goes_on_under_a_new_registration(world: ReplicatedCluster) -> None:
    agent = DrivenAgent(world, "c").run(1_000)
    before = world.state.stores[StoreId("c")].registration
    world.fence("c")
    world.register("c")
    assert world.state.stores[StoreId("c")].registration > before
    world.write("2", on="ab")
    agent.run(3_000)
    assert world.replicas() == "a:abc a3 b3 c3"
    assert len(agent.said("up")) == 2


def copied_and_wiped() -> DrivenAgent:
    """The agent of c, which lacked an object: c is wiped between the copy of it and the report."""
    world = replicated_cluster()
    world.write("0", on="ab")
    agent = DrivenAgent(world, "c")
    while not agent.count(Fetch):
        agent.step()
    world.wipe("c")
    return agent


# M: L-04 (loses)
def test_what_was_copied_in_another_life_of_the_store_is_not_reported() -> None:
    """Another process reports that the store was wiped, and marks it anew."""
    agent = copied_and_wiped()
    world = agent.world
    other = DrivenAgent(world, "c", before=no_copies)
    other.run(500)
    assert other.said("loss")
    assert world.replicas() == "a:ab a1 b1 c0"
    while agent.now_ms < 5_000:
        agent.step()
    assert world.objects("c") == world.objects("a")
    assert world.replicas() == "a:abc a1 b1 c1"


# M: L-04 (loses)
def test_what_was_copied_before_the_store_was_wiped_is_not_reported() -> None:
    agent = copied_and_wiped()
    agent.before = no_copies
    agent.run()
    assert agent.world.replicas() == "a:ab a1 b1 c0"
    assert agent.said("loss")


def no_copies(request: Request) -> Reply:
    return StoreUnavailable("no copy") if isinstance(request, Fetch) else None


# M: L-04 (loses)
def test_the_mark_is_read_after_the_copies_and_before_the_report(world: ReplicatedCluster) -> None:
    world.write("2", on="ab")
    agent = DrivenAgent(world, "c").run()
    kinds = [type(each) for each in agent.asked]
    report = agent.asked.index(
        next(each for each in agent.asked if isinstance(each, Submit) and each.command in reports(agent))
    )
    assert ReadIncarnation in kinds[kinds.index(Fetch) : report]


# ---- once ----------------------------------------------------------------------------------------


def test_once_ends_when_nothing_is_missing_and_claims_no_agent(world: ReplicatedCluster) -> None:
    world.write("2", on="ab")
    agent = DrivenAgent(world, "c", once=True).run()
    assert (agent.agent.ended, agent.agent.error) == (True, None)
    assert world.replicas() == "a:abc a3 b3 c3"
    assert world.state.stores[StoreId("c")].agent_up is None


def test_once_fails_if_something_can_not_be_had(world: ReplicatedCluster) -> None:
    world.write("2", on="ab")
    agent, asked = failing(world, "ab", lacks_it=True)
    agent.agent._once = agent.once = True
    agent.run(60_000)
    assert isinstance(agent.agent.error, StoreUnavailable)
    assert agent.agent.error.message == "store c: 1 replica could not be caught up; last error: b fails"
    assert 3 <= len(asked) <= 5
