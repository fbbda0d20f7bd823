"""Agents beside writers, elections, moves, maintenance and losses, in a random order: what they report is really there.

After each step, what the chain says of a store that lost nothing since its agent looked is true. At the end all heals:
every replica has everything, and every record that was acknowledged with acks=all is read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from sparklog.agent.agent import EXAMINE_EVERY_MS
from sparklog.agent.agent_requests import Fetch, LookForObject, PutIncarnation, ReadIncarnation, Reply, Request, Submit
from sparklog.core.commands import (
    AgentDown,
    DropLagging,
    Election,
    ElectLeaders,
    LaggingReplicas,
    Move,
    MoveReplicas,
    ReportLoss,
)
from sparklog.core.errors import OutcomeUnknown, SparklogError, StoreUnavailable
from sparklog.core.placement.held_objects import all_held, held_partitions
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import PartitionIndex, StoreId, TopicId
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.space.retention_job import run_retention
from sparklog.storage.keys import INCARNATION, data_key
from tests.agent.agent_world import DrivenAgent, replicated_cluster
from tests.kit.budget import Seeds, random_runs
from tests.kit.kernel import RandomSteps, SeededDice, counts_of
from tests.kit.silent_console import SILENT

STEPS = 150
PARTITIONS = 2


class History(RandomSteps):
    """One seed, one history. `hurt` is a store that lost something, until its agent has dealt with that."""

    length = STEPS

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.world = replicated_cluster(partitions=PARTITIONS)
        self.acked: dict[int, list[str]] = {each: [] for each in range(PARTITIONS)}
        self.hurt = ""
        self.faults = True
        self.agents = {name: self.agent(name) for name in "abc"}
        self.number = 0

    def agent(self, name: str) -> DrivenAgent:
        return DrivenAgent(self.world, name, before=self.fault, dice=SeededDice(self.dice))

    def fault(self, request: Request) -> Reply:
        """Sometimes a request fails, or its reply is lost."""
        chance = self.dice.random()
        if not self.faults or chance > 0.1:
            return None
        if isinstance(request, Submit) and chance < 0.05:
            self.counts["lost reply"] += 1
            with suppress(SparklogError):
                self.world.submit(request.command)
            return OutcomeUnknown("the reply was lost")
        if isinstance(request, Fetch | LookForObject | ReadIncarnation | PutIncarnation | Submit):
            self.counts["failed request"] += 1
            return StoreUnavailable("not now")
        return None

    def step(self) -> None:
        actions: list[tuple[float, Callable[[], object]]] = [
            (6, self.write),
            (12, self.run_an_agent),
            (1, self.restart_an_agent),
            (1, self.elect),
            (1, self.drop),
            (1, self.move),
            (0.7, self.fence),
            (0.7, self.roll),
            (0.5, self.retain),
            (1, self.lose),
            (0.5, self.silence),
        ]
        self.act(actions)
        self.check()

    def write(self) -> None:
        at = self.dice.randrange(PARTITIONS)
        value = self.world.value(at)
        acks = self.dice.choice([Acks.ALL, Acks.ALL, Acks.LEADER])
        stores = [each for each in value.replicas if self.dice.random() < 0.7 and each != self.hurt]
        self.number += 1
        self.world.write(f"{self.number}", on="".join(sorted({*stores, value.leader or "a"})), partition=at, acks=acks)
        if acks is Acks.ALL:
            self.acked[at].append(f"{self.number}")

    def run_an_agent(self) -> None:
        agent = self.agents[self.dice.choice("abc")]
        for _ in range(self.dice.randint(1, 12)):
            if not agent.agent.ended:
                agent.step()
        if agent.agent.ended:
            self.counts["ended"] += 1
            self.agents[agent.name] = self.agent(agent.name)

    def restart_an_agent(self) -> None:
        """As after SIGKILL: the old one does nothing more."""
        name = self.dice.choice("abc")
        self.agents[name] = self.agent(name)

    def elect(self) -> None:
        store = StoreId(self.dice.choice("abc"))
        self.world.submit(ElectLeaders((Election(TopicId(1), PartitionIndex(self.dice.randrange(PARTITIONS)), store),)))
        self.counts["elected"] += 1

    def drop(self) -> None:
        at = self.dice.randrange(PARTITIONS)
        value = self.world.value(at)
        store = (StoreId(self.dice.choice("abc")),)
        lagging = LaggingReplicas(TopicId(1), PartitionIndex(at), value.leader_epoch, value.version, store)
        self.world.submit(DropLagging((lagging,)))

    def move(self) -> None:
        to = tuple(StoreId(each) for each in self.dice.sample("abc", self.dice.choice([2, 3])))
        self.world.submit(MoveReplicas((Move(TopicId(1), PartitionIndex(self.dice.randrange(PARTITIONS)), to),)))
        self.counts["moved"] += 1

    def fence(self) -> None:
        name = self.dice.choice("abc")
        if name == self.hurt or self.hurt:
            return
        self.world.fence(name)
        self.world.register(name)
        self.counts["fenced"] += 1

    def roll(self) -> None:
        if not self.hurt:
            run_roll(self.world.cluster.connection.url, everything=True, console=SILENT)
            self.counts["rolled"] += 1

    def retain(self) -> None:
        """It deletes what rolls have replaced."""
        run_retention(self.world.cluster.connection.url, console=SILENT)

    def silence(self) -> None:
        name = StoreId(self.dice.choice("abc"))
        self.world.submit(AgentDown(name, self.world.state.stores[name].registration))

    def lose(self) -> None:
        """A store that nobody depends on alone loses its mark, its newest objects or everything."""
        name = self.dice.choice("abc")
        values = [self.world.value(each) for each in range(PARTITIONS)]
        if self.hurt or not all({*value.isr} - {name} for value in values):
            return
        how = self.dice.choice(["wiped", "rolled back", "mark"])
        if how == "wiped":
            self.world.wipe(name)
        elif how == "mark":
            self.world.store(name).delete(INCARNATION)
        else:
            for key in held_partitions(self.world.state, StoreId(name)):
                held = list(all_held(self.world.state, StoreId(name), key))
                for each in held[self.dice.randrange(len(held)) :]:
                    self.world.store(name).delete(data_key(each.object, each.topic))
        self.hurt = name
        self.counts[how] += 1
        self.agents[name] = self.agent(name)
        self.agents[name].run(60_000)
        self.check_loss(name)

    def check_loss(self, name: str) -> None:
        agent = self.agents[name]
        self.hurt = ""
        self.counts["losses"] += any(
            isinstance(each, Submit) and isinstance(each.command, ReportLoss) for each in agent.asked
        )

    def check(self) -> None:
        """What the chain says of each store is there, with its length."""
        state = self.world.state
        for store in state.stores:
            for key in held_partitions(state, store):
                for held in all_held(state, store, key):
                    size_bytes = self.world.store(store).size(data_key(held.object, held.topic))
                    assert size_bytes == held.object.size_bytes

    def end(self) -> None:
        """All heals."""
        self.faults = False
        for _ in range(3):
            for name, agent in self.agents.items():
                if agent.agent.ended:
                    agent = self.agents[name] = self.agent(name)
                agent.run(EXAMINE_EVERY_MS + 60_000)
        self.check()
        for at in range(PARTITIONS):
            value = self.world.value(at)
            assert set(value.log_ends) == {value.next_offset}, value
            assert value.isr == value.replicas, value
            read = self.world.values(at)
            assert [each for each in read if each in set(self.acked[at])] == self.acked[at]
        self.world.cluster.close()


@random_runs(range(2), campaign=[range(6)])
def test_agents_report_what_is_there_and_fill_what_is_not(seeds: Seeds) -> None:
    seen = counts_of(map(History, seeds))
    wanted = ("lost reply", "failed request", "elected", "moved", "fenced", "rolled", "losses", "wiped", "rolled back")
    assert {name: seen[name] for name in wanted if seen[name] < max(1, seeds.least // 3)} == {}
