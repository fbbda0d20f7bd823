"""The scenarios that broke the rule "a follower truncates to its HW" (L-08 to L-10), from outside.

Three real stores (folders), writers, agents and the operator's commands. Each scenario is played twice: by the code as
it is, where nothing may be lost or differ; and with the old rule in place of the transitions (L-11), where it must be,
or the play could not see the fault. `tests/core/replication/test_scenarios.py` plays them on the value alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import sparklog
from sparklog.agent.run import AgentRun
from sparklog.core.commands import AgentDown
from sparklog.core.decide import stores as decide_stores
from sparklog.core.errors import NoReplicaOnline
from sparklog.core.replication import election, isr
from sparklog.core.replication.partition import Replication, ReplicationChange, with_log_ends
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange, StoreId
from tests.agent.agent_world import DrivenAgent, ReplicatedCluster
from tests.cli.conftest import Cli
from tests.faults.store_folders import StoreFolders

PATIENCE_MS = 60_000  # of a write that nothing but a missing guard refuses


class Play:
    """Topic "t" on some of the stores a, b and c. Whatever happens, it is done by the client, an agent or a command."""

    def __init__(self, folder: Path, command: Callable[[str], Cli], replicas: str, min_isr: int) -> None:
        self.folders = StoreFolders.create(folder)
        self.command = command(self.folders.url)
        self.known_hw = dict.fromkeys(replicas, 0)  # what the agent of each store was last told
        self.returning: str | None = None
        self.visible = 0
        self.wrong: list[str] = []
        self._agents: dict[str, DrivenAgent] = {}
        self._cluster = sparklog.connect(self.folders.url)  # a process that is there from the beginning
        config = {"min.insync.replicas": min_isr, "retention.ms": -1}
        self._cluster.create_topic("t", assignment=[list(replicas)], config=config)

    def close(self) -> None:
        self._cluster.close()

    @property
    def value(self) -> Replication:
        return self.folders.replication("t")

    # ---- writers --------------------------------------------------------------------------------

    def write(self, *values: str, acks: str = "all") -> None:
        """By a process of its own. What it hears is noted, once it is promised for good."""
        with sparklog.connect(self.folders.url) as cluster:
            rows = pa.table({"value": list(values)})
            (written,) = cluster.append("t", rows, acks=acks, timeout_ms=PATIENCE_MS).ranges
        if acks == "all":
            self.folders.note("t", 0, written.start, list(values))
        self.look()

    # ---- stores and agents ----------------------------------------------------------------------

    def hear(self, store: str) -> None:
        """The agent runs once: it fetches what the store lacks, reports it, and learns HW."""
        with sparklog.connect(self.folders.url) as cluster:
            AgentRun(cluster.connection, StoreId(store), lambda note: None, once=True).run()
        self.known_hw[store] = self.value.high_watermark
        self.look()

    def start(self, store: str) -> None:
        """The agent is up from now on, which the chain knows."""
        self._agents[store] = agent = DrivenAgent(ReplicatedCluster(self._cluster), store)
        self._returns(store, lambda: self._until_up(agent))

    def stop(self, store: str) -> None:
        """The agent stops cleanly, and says so."""
        self._agents.pop(store).stop()

    def call_silent(self, store: str) -> None:
        """Somebody says that the agent is down, as a coordinator will."""
        registered = self._cluster.connection.follower.catch_up().state.stores[StoreId(store)]
        self._cluster.submit(AgentDown(registered.store, registered.registration))

    def restart(self, store: str) -> None:
        """The agent stops and is back before anything else happens."""
        self.stop(store)
        self.start(store)

    def fail(self, store: str) -> None:
        """The store is gone, and the operator says so: sparklog store fence."""
        self.folders.take_away(store)
        said = self.command("store", "fence", store)
        assert said.code == 0, said.err
        self.look()

    def die(self, store: str) -> None:
        """The store is gone, and nobody says so: the next write finds it out."""
        self.folders.take_away(store)
        self.look()

    def come_back(self, store: str) -> None:
        """The store is there again with what it had: sparklog store add."""
        self.folders.bring_back(store)
        if self.folders.state().stores[StoreId(store)].fenced:
            self._returns(store, lambda: self._add(store))
        self.look()

    def _add(self, store: str) -> None:
        said = self.command("store", "add", f"{store}=../{store}")
        assert said.code == 0, said.err

    def _returns(self, store: str, act: Callable[[], object]) -> None:
        self.returning = store
        act()
        self.returning = None
        self.look()

    def _until_up(self, agent: DrivenAgent) -> None:
        while not agent.said("up"):
            agent.step()

    # ---- what is seen ---------------------------------------------------------------------------

    def look(self) -> None:
        """A reader that was there before, and one that comes now: neither sees the end go back (L-12)."""
        with sparklog.connect(self.folders.url) as now:
            for cluster in (self._cluster, now):
                end = cluster.describe("t").partitions[0].high_watermark
                if end < self.visible:
                    self.wrong.append(f"the visible end went back from {self.visible} to {end}")
                self.visible = end

    def reads(self, records: int) -> None:
        """A reader gets so many."""
        found = self._cluster.read("t", partition=0).num_rows
        if found != records:
            self.wrong.append(f"wanted {records} records, read {found}")

    def complaints(self) -> list[str]:
        """Everything that is wrong now, also for a reader that reaches one in-sync store alone."""
        wrong = [*self.wrong, *self.folders.complaints()]
        for store in self.value.isr:
            with self.folders.only(store):
                wrong += [f"with store {store} alone: {each}" for each in self.folders.lost()]
        return wrong


class OldRule:
    """Kafka 0.10's rule in place of the transitions: who returns or follows a new leader cuts its log to the HW that
    it was last told. An election asks only who is in the ISR, and what the new leader has is the log.

    That the chain never uses an offset twice stays as it is: its records have no way to say otherwise.
    """

    def __init__(self, play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
        self.play = play
        self._reachable_changed = decide_stores.reachable_changed
        monkeypatch.setattr(decide_stores, "reachable_changed", self.reachable_changed)
        monkeypatch.setattr(election, "led_by", self.led_by)
        monkeypatch.setattr(election, "_clean_candidate", self.clean_candidate)
        monkeypatch.setattr(isr, "may_join", self.may_join)

    def cut(self, value: Replication, stores: tuple[str, ...]) -> Replication:
        ends = {
            StoreId(store): Offset(min(value.log_end(StoreId(store)), self.play.known_hw[store]))
            for store in stores
            if store in value.replicas
        }
        return with_log_ends(value, ends)

    def reachable_changed(
        self, value: Replication, reachable: list[StoreId], min_isr: int, *, unclean: bool = False
    ) -> ReplicationChange:
        returning = self.play.returning
        if returning is not None and value.leader != returning:
            value = self.cut(value, (returning,))
        return self._reachable_changed(value, reachable, min_isr, unclean=unclean)

    def led_by(self, value: Replication, leader: StoreId) -> ReplicationChange:
        value = self.cut(value, tuple(store for store in value.isr if store != leader))
        end, next_offset = value.log_end(leader), value.next_offset
        epoch = LeaderEpoch(value.leader_epoch + 1)
        after = msgspec.structs.replace(
            value,
            leader=leader,
            leader_epoch=epoch,
            log_ends=tuple(next_offset if each >= end else each for each in value.log_ends),
            epochs=(*value.epochs, (epoch, next_offset)),
        )
        return ReplicationChange(after, OffsetRange(end, next_offset) if end < next_offset else None)

    def clean_candidate(self, value: Replication, reachable: list[StoreId]) -> StoreId | None:
        return next((store for store in (*value.isr, *value.elr) if store in reachable), None)

    def may_join(self, value: Replication, store: StoreId) -> bool:
        return value.leader is not None and store not in value.isr and value.log_end(store) >= value.high_watermark


def loss(play: Play) -> None:
    """L-08. a leads, b follows; both LEO 2, b was told HW 1; b restarts; a fails; b leads; a returns."""
    play.start("b")
    play.write("m0")
    play.hear("b")
    play.write("m1")
    play.restart("b")
    play.fail("a")
    assert play.value.leader == "b"
    play.come_back("a")
    play.hear("a")


def unnoticed_loss(play: Play) -> None:
    """L-08, but nobody says that a failed: the next write makes b the leader, and forgets nothing by any rule."""
    play.start("b")
    play.write("m0")
    play.hear("b")
    play.write("m1")
    play.restart("b")
    play.die("a")
    play.write("m2")
    assert play.value.leader == "b"
    play.come_back("a")
    play.hear("a")


def divergence(play: Play) -> None:
    """L-09. Both fail, a was told HW 2, b HW 1; b returns alone, leads, writes another record; a returns."""
    play.write("m0")
    play.hear("b")
    play.write("m1")
    play.hear("a")
    play.fail("b")
    play.fail("a")
    play.come_back("b")
    assert play.value.leader == "b"
    play.write("m2", acks="1")
    value = play.value
    assert value.log_end(StoreId("b")) == value.next_offset > value.high_watermark == play.visible
    play.reads(2)
    play.come_back("a")
    play.hear("a")
    play.reads(3)


def three(play: Play) -> None:
    """L-10. a leads, a record is on all three, HW is known to a only; a fails, b leads; b fails, c leads."""
    play.write("m0")
    play.hear("a")
    play.fail("a")
    assert play.value.leader == "b"
    play.fail("b")
    assert play.value.leader == "c"
    play.come_back("a")
    play.come_back("b")


SCENARIOS: list[tuple[Callable[[Play], None], str, int]] = [
    (loss, "ab", 1),
    (divergence, "ab", 2),
    (three, "abc", 1),
]
UNNOTICED: list[tuple[Callable[[Play], None], str, int]] = [(unnoticed_loss, "ab", 1), (unnoticed_loss, "abc", 2)]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Cli]:
    return lambda url: Cli(url, capsys, monkeypatch)


# M: L-08 L-09 L-10 L-12 L-01 L-02 P-02 P-05 P-06 S-01 N-02
@pytest.mark.parametrize(("scenario", "replicas", "min_isr"), SCENARIOS + UNNOTICED)
def test_nothing_is_lost_and_the_replicas_are_the_same(
    scenario: Callable[[Play], None], replicas: str, min_isr: int, tmp_path: Path, command: Callable[[str], Cli]
) -> None:
    play = Play(tmp_path, command, replicas, min_isr)
    try:
        scenario(play)
        assert play.complaints() == []
        for store in replicas:
            play.hear(store)
        assert sorted(play.value.isr) == list(replicas)
        assert set(play.value.log_ends) == {play.value.next_offset}
        play.write("the log goes on")
        assert play.complaints() == []
    finally:
        play.close()


# M: L-11
@pytest.mark.parametrize(("scenario", "replicas", "min_isr"), SCENARIOS)
def test_the_old_rule_loses_or_diverges(
    scenario: Callable[[Play], None],
    replicas: str,
    min_isr: int,
    tmp_path: Path,
    command: Callable[[str], Cli],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play = Play(tmp_path, command, replicas, min_isr)
    OldRule(play, monkeypatch)
    try:
        scenario(play)
        complaints = play.complaints()
        assert any("was acknowledged as" in each for each in complaints), complaints
    finally:
        play.close()


def states(play: Play) -> dict[str, str]:
    return {row["store"]: row["state"] for row in play.command.json("store", "list")}


# M: N-02
def test_a_store_is_new_live_stopped_or_dead_as_its_agent_says(tmp_path: Path, command: Callable[[str], Cli]) -> None:
    play = Play(tmp_path, command, "abc", 1)
    try:
        play.start("b")
        play.start("c")
        play.stop("c")
        play.fail("a")
        assert states(play) == {"a": "fenced", "b": "live", "c": "stopped"}
        play.call_silent("c")
        assert states(play) == {"a": "fenced", "b": "live", "c": "dead"}
        play.come_back("a")
        assert states(play) == {"a": "new", "b": "live", "c": "dead"}
    finally:
        play.close()


# M: S-07 P-09
def test_a_key_keeps_its_partition_while_that_has_no_leader(tmp_path: Path, command: Callable[[str], Cli]) -> None:
    play = Play(tmp_path, command, "abc", 1)
    try:
        with sparklog.connect(play.folders.url) as cluster:
            cluster.create_topic("u", assignment=[["a"], ["b"]])
            rows = pa.table({"key": ["k"], "value": ["v"]})
            partition = cluster.append("u", rows).ranges[0].partition
            (leader,) = play.folders.replication("u", partition).replicas
            play.fail(leader)
            with pytest.raises(NoReplicaOnline):
                cluster.append("u", rows, timeout_ms=1)
            play.come_back(leader)
            assert [each.partition for each in cluster.append("u", rows).ranges] == [partition]
            assert cluster.describe("u").records == 2
    finally:
        play.close()
