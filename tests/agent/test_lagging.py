"""The agent of the store that leads takes followers that lag out of the ISR, so that HW goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparklog.agent.agent_requests import Fetch, Reply, Request, Submit
from sparklog.core.commands import DropLagging, Election, ElectLeaders, ReplicaReport, ReportReplicas
from sparklog.core.errors import StoreUnavailable
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import Offset, PartitionIndex, StoreId, TopicId
from tests.agent.agent_world import DrivenAgent, ReplicatedCluster, replicated_cluster

PERIOD_MS = 30_000  # the default
SOON_MS = PERIOD_MS * 3 // 2 + 2_000  # a period, half a one until the check, and the agent's own pace


@pytest.fixture
def world() -> Iterator[ReplicatedCluster]:
    """Offsets 0 and 1 are on all stores."""
    world = replicated_cluster()
    world.write("0", "1")
    yield world
    world.cluster.close()


def drops(agent: DrivenAgent) -> list[DropLagging]:
    return [each.command for each in agent.asked if isinstance(each, Submit) and isinstance(each.command, DropLagging)]


def written_to_a(world: ReplicatedCluster) -> None:
    """Offset 2, as a writer with acks=1 and replication=pull writes it; b fetches it, c does not."""
    world.write("2", on="a", acks=Acks.LEADER)
    DrivenAgent(world, "b").run()


def report(world: ReplicatedCluster, store: str, log_end: int) -> None:
    value = world.value()
    said = ReplicaReport(TopicId(1), PartitionIndex(0), value.leader_epoch, value.version, Offset(log_end))
    world.submit(ReportReplicas(StoreId(store), world.state.stores[StoreId(store)].registration, (said,)))


# M: P-01 L-02
def test_the_high_watermark_goes_on_a_period_after_a_follower_died(world: ReplicatedCluster) -> None:
    agent = DrivenAgent(world, "a").run(1_000)
    written_to_a(world)
    agent.run(PERIOD_MS - 1_000)
    assert (world.value().high_watermark, world.replicas()) == (2, "a:abc a3 b3 c2")
    agent.run(SOON_MS - PERIOD_MS)
    assert (world.value().high_watermark, world.replicas()) == (3, "a:ab a3 b3 c2")
    assert world.values() == ["0", "1", "2"]
    assert agent.said("lag") == ["store c lags: it has left the ISR of 1 partition"]
    DrivenAgent(world, "c").run()
    assert world.replicas() == "a:abc a3 b3 c3"
    agent.run(3 * PERIOD_MS)
    assert world.replicas() == "a:abc a3 b3 c3"
    assert len(drops(agent)) == 1


# M: P-01
def test_a_follower_with_everything_stays_however_long_it_is_silent(world: ReplicatedCluster) -> None:
    agent = DrivenAgent(world, "a").run(1_000)
    agent.now_ms += 86_400_000
    agent.run(3 * PERIOD_MS)
    assert world.replicas() == "a:abc a2 b2 c2"
    assert drops(agent) == []
    written_to_a(world)  # after a day, its period begins only now
    agent.run(PERIOD_MS)
    assert world.replicas() == "a:abc a3 b3 c2"


# M: P-01
def test_a_follower_that_is_never_level_but_never_a_period_behind_stays(world: ReplicatedCluster) -> None:
    agent = DrivenAgent(world, "a").run(1_000)
    for end in range(3, 30):  # it takes two thirds of the period to get what the leader has
        world.write(f"{end - 1}", on="a", acks=Acks.LEADER)
        report(world, "b", end)
        report(world, "c", max(2, end - 2))
        agent.run(PERIOD_MS // 3)
    assert drops(agent) == []
    assert world.replicas() == "a:abc a29 b29 c27"


def test_an_agent_that_starts_again_gives_followers_a_new_period(world: ReplicatedCluster) -> None:
    written_to_a(world)
    first = DrivenAgent(world, "a").run(PERIOD_MS - 1_000)
    second = DrivenAgent(world, "a", now_ms=first.now_ms).run(PERIOD_MS - 1_000)
    assert world.replicas() == "a:abc a3 b3 c2"
    second.run(SOON_MS - PERIOD_MS + 1_000)
    assert world.replicas() == "a:ab a3 b3 c2"


def test_a_new_leader_gives_followers_a_new_period(world: ReplicatedCluster) -> None:
    written_to_a(world)
    agents = [DrivenAgent(world, name) for name in "ab"]
    for agent in agents:
        agent.run(PERIOD_MS - 1_000)
    world.submit(ElectLeaders((Election(TopicId(1), PartitionIndex(0), StoreId("b")),)))
    for agent in agents:
        agent.run(PERIOD_MS - 1_000)
    assert world.replicas() == "b:abc a3 b3 c2"
    for agent in agents:
        agent.run(SOON_MS - PERIOD_MS + 1_000)
    assert world.replicas() == "b:ab a3 b3 c2"
    assert [len(drops(agent)) for agent in agents] == [0, 1]


def test_two_agents_of_one_store_take_a_follower_out_once(world: ReplicatedCluster) -> None:
    """The second one decides on a state of before: it is refused, and nothing comes of it."""
    written_to_a(world)
    late: list[Request] = []

    def first_the_other(request: Request) -> Reply:
        if isinstance(request, Submit) and isinstance(request.command, DropLagging) and not late:
            late.append(request)
            other.run(SOON_MS)
        return None

    agent, other = DrivenAgent(world, "a", before=first_the_other), DrivenAgent(world, "a")
    other.run(1_000)
    agent.run(SOON_MS)
    assert world.replicas() == "a:ab a3 b3 c2"
    version = world.value().version
    agent.run(3 * PERIOD_MS)
    assert (len(drops(agent)), len(drops(other)), world.value().version) == (1, 1, version)
    assert (agent.agent.ended, agent.said("error"), agent.said("lag")) == (False, [], [])


def test_a_drop_that_can_not_be_written_is_said_once_and_made_later(world: ReplicatedCluster) -> None:
    written_to_a(world)
    fails = True

    def failing(request: Request) -> Reply:
        if fails and isinstance(request, Submit) and isinstance(request.command, DropLagging):
            return StoreUnavailable("no chain")
        return None

    agent = DrivenAgent(world, "a", before=failing).run(SOON_MS + 4 * PERIOD_MS)
    assert agent.said("error") == ["KAFKA_STORAGE_ERROR: no chain"]
    assert 2 <= len(drops(agent)) <= 10
    fails = False
    agent.run(2 * PERIOD_MS)
    assert world.replicas() == "a:ab a3 b3 c2"


def test_the_isr_may_shrink_to_the_leader_alone() -> None:
    """As in Kafka: below min.insync.replicas, and then HW stays where it is."""
    world = replicated_cluster(None, 1, **{"min.insync.replicas": 2})
    world.write("0", "1")
    world.write("2", on="a", acks=Acks.LEADER)
    DrivenAgent(world, "a").run(SOON_MS)
    assert (world.value().high_watermark, world.replicas()) == (2, "a:a+bc a3 b2 c2")
    DrivenAgent(world, "b").run()
    assert (world.value().high_watermark, world.replicas()) == (3, "a:ab a3 b3 c2")
    world.cluster.close()


def test_an_agent_that_runs_once_takes_nobody_out() -> None:
    """It stays for as long as it can't fetch something."""
    world = replicated_cluster(partitions=2)
    world.submit(ElectLeaders((Election(TopicId(1), PartitionIndex(1), StoreId("b")),)))
    for partition, leader in ((0, "a"), (1, "b")):
        world.write("0", on=leader, partition=partition, acks=Acks.LEADER)
    once = DrivenAgent(world, "a", once=True, before=no_copies)
    for _ in range(12):
        once.now_ms += PERIOD_MS
        once.step()
    assert (once.agent.ended, drops(once)) == (False, [])
    world.cluster.close()


def no_copies(request: Request) -> Reply:
    return StoreUnavailable("no copy") if isinstance(request, Fetch) else None


def test_an_agent_that_stops_takes_nobody_out(world: ReplicatedCluster) -> None:
    written_to_a(world)
    agent = DrivenAgent(world, "a").run(1_000)
    while agent.agent.wake_ms is None:
        agent.step()
    agent.now_ms += 2 * PERIOD_MS
    agent.stop()
    assert drops(agent) == []
