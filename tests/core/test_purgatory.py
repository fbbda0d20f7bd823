"""What waits for the chain, and which entry completes it. A slow twin looks at everything after every entry."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from sparklog.core.commands import (
    AddPartitions,
    AgentUp,
    ClaimCoordination,
    CreateTopic,
    DeleteTopic,
    DropLagging,
    LaggingReplicas,
    MoveLogStart,
)
from sparklog.core.errors import InvalidInput
from sparklog.core.placement.replica_fetch import unfinished_replicas
from sparklog.core.purgatory import (
    KnownTopic,
    Operation,
    Purgatory,
    Records,
    ReplicaNews,
    Replicated,
    WaitCondition,
    is_done,
)
from sparklog.core.reading.positions import Position
from sparklog.core.records import AppendedRange
from sparklog.core.types import EntryNumber, LeaderEpoch, Offset, PartitionIndex, StoreId, TopicId
from tests.core.decided_log import RECORD_BYTES
from tests.core.replicated_log import TOPIC, ReplicatedLog
from tests.core.test_replicated_walk import Walk
from tests.kit.budget import Seeds, random_runs

A, B, C = (StoreId(name) for name in "abc")


class Waiters:
    """A log with two partitions on a, b and c, and those who wait for it."""

    def __init__(self, log: ReplicatedLog | None = None) -> None:
        self.log = log or ReplicatedLog(partitions=2)
        self.purgatory = Purgatory(self.log.state.fork())

    def add(self, wanted: WaitCondition, seen: int | None = None) -> Operation:
        operation = self.purgatory.add(wanted, EntryNumber(self.log.state.n if seen is None else seen))
        assert operation is not None
        return operation

    def is_done_at_once(self, wanted: WaitCondition, seen: int | None = None) -> bool:
        return self.purgatory.add(wanted, EntryNumber(self.log.state.n if seen is None else seen)) is None

    def completed(self) -> set[Operation]:
        return set(self.purgatory.advance(self.log.state.fork()))

    def position(self, partition: int = 0, offset: int | None = None) -> Position:
        value = self.log.value(partition)
        at = value.high_watermark if offset is None else Offset(offset)
        return Position(self.log.state.chain_id, TOPIC, PartitionIndex(partition), at, value.leader_epoch)


@pytest.fixture
def waiters() -> Waiters:
    return Waiters()


def pulled(log: ReplicatedLog, partition: int = 0) -> Replicated:
    """A write to the leader's store alone, which waits for the others."""
    return Replicated(log.write("a", 1, partition, pull=True).ranges)


# ---- writes ---------------------------------------------------------------------------------------


# M: P-10
def test_a_pulled_write_waits_until_hw_has_passed_it(waiters: Waiters) -> None:
    log = waiters.log
    wanted, other = pulled(log), pulled(log, 1)
    waiters.completed()
    operation, _ = waiters.add(wanted), waiters.add(other)
    log.report("b", 1)
    assert waiters.completed() == set()
    log.report("c", 1)
    assert waiters.completed() == {operation}
    assert (len(waiters.purgatory), waiters.is_done_at_once(wanted)) == (1, True)


@pytest.mark.parametrize(
    "happens",
    [
        lambda log: log.submit(DeleteTopic(TOPIC)),
        lambda log: log.fence("a"),  # the new leader does not have it
        lambda log: log.submit(
            DropLagging((LaggingReplicas(TOPIC, PartitionIndex(0), LeaderEpoch(0), log.value().version, (B, C)),))
        ),
    ],
    ids=["deleted", "forgotten", "below-min-isr"],
)
def test_a_write_that_hw_will_not_pass_waits_no_longer(happens: Callable[[ReplicatedLog], object]) -> None:
    waiters = Waiters()
    waiters.log.configure(min_insync_replicas="2")
    wanted = pulled(waiters.log)
    waiters.completed()
    operation = waiters.add(wanted)
    happens(waiters.log)
    assert waiters.completed() == {operation}


def test_a_config_that_decides_about_a_write_completes_it() -> None:
    waiters = Waiters()
    log = waiters.log
    wanted = pulled(log)
    log.submit(DropLagging((LaggingReplicas(TOPIC, PartitionIndex(0), LeaderEpoch(0), log.value().version, (B,)),)))
    waiters.completed()
    operation = waiters.add(wanted)
    log.configure(min_insync_replicas="3")
    assert is_done(log.state, wanted), "fewer replicas are in sync than it needs now"
    assert waiters.completed() == {operation}


# ---- readers --------------------------------------------------------------------------------------


# M: P-10
def test_a_reader_waits_for_fetch_min_bytes_below_hw(waiters: Waiters) -> None:
    log = waiters.log
    both = (waiters.position(0), waiters.position(1))
    one = waiters.add(Records(both))
    many = waiters.add(Records(both, min_bytes=2 * RECORD_BYTES))
    log.write("a", acks=1)
    assert waiters.completed() == set(), "not on every replica yet"
    log.report("b", 1)
    log.report("c", 1)
    assert waiters.completed() == {one}
    log.write("abc", partition=1)
    assert waiters.completed() == {many}


def test_records_that_are_there_need_no_wait(waiters: Waiters) -> None:
    waiters.log.write("abc", 3)
    waiters.completed()
    at = waiters.position(offset=0)
    assert waiters.is_done_at_once(Records((at,), 3 * RECORD_BYTES))
    assert not waiters.is_done_at_once(Records((at,), 3 * RECORD_BYTES + 1))
    assert waiters.is_done_at_once(Records((), min_bytes=0))


@pytest.mark.parametrize("offset", [0, 4])
def test_a_position_out_of_range_is_told_at_once(waiters: Waiters, offset: int) -> None:
    waiters.log.write("abc", 3)
    waiters.log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(1)))
    waiters.completed()
    assert waiters.is_done_at_once(Records((waiters.position(offset=offset),), 1_000))


def test_a_reader_is_woken_when_retention_passes_it(waiters: Waiters) -> None:
    waiters.log.write("abc", 3)
    waiters.log.write("abc", 3)
    waiters.completed()
    operation = waiters.add(Records((waiters.position(offset=0),), 1_000))
    waiters.log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(3)))
    assert waiters.completed() == {operation}


def test_a_reader_is_woken_when_the_topic_is_deleted_or_made_anew(waiters: Waiters) -> None:
    operation = waiters.add(Records((waiters.position(),)))
    waiters.log.submit(DeleteTopic(TOPIC))
    waiters.log.submit(CreateTopic("orders", 2, 1))
    assert waiters.completed() == {operation}


def test_a_reader_is_woken_when_an_unclean_election_gives_up_what_it_has_read(waiters: Waiters) -> None:
    log = waiters.log
    log.configure(unclean_leader_election_enable="true")
    log.write("a", 3)
    waiters.completed()
    operation = waiters.add(Records((waiters.position(offset=3),)))
    log.fence("a")
    assert waiters.completed() == {operation}


def test_a_reader_of_a_whole_topic_is_woken_by_a_new_partition(waiters: Waiters) -> None:
    known = KnownTopic(TOPIC, 2)
    operation = waiters.add(Records((waiters.position(),), topics=(known,)))
    other = waiters.add(Records((waiters.position(),)))
    waiters.log.submit(AddPartitions(TOPIC, 3))
    assert waiters.completed() == {operation}
    assert other in waiters.purgatory._waiting
    assert waiters.is_done_at_once(Records((), topics=(known,)))


def test_a_reader_of_another_cluster_is_sent_to_the_chain(waiters: Waiters) -> None:
    strange = Position("e" * 32, TOPIC, PartitionIndex(0), Offset(0), LeaderEpoch(0))
    assert waiters.is_done_at_once(Records((strange,)))


@pytest.mark.parametrize(("start", "end"), [(0, 0), (-2, -1), (1, 1 << 63)])
def test_offsets_that_no_log_has_are_refused(waiters: Waiters, start: int, end: int) -> None:
    written = AppendedRange(TOPIC, PartitionIndex(0), Offset(start), Offset(end), 1)
    with pytest.raises(InvalidInput, match="an offset is in"):
        waiters.add(Replicated((written,)))
    if end:
        with pytest.raises(InvalidInput, match="an offset is in"):
            waiters.add(Records((waiters.position(offset=end),)))
    assert len(waiters.purgatory) == 0


# ---- agents, and followers of the chain ------------------------------------------------------------


def test_an_agent_hears_of_what_its_store_lacks_and_of_nothing_else(waiters: Waiters) -> None:
    log = waiters.log
    waiting = {name: waiters.add(ReplicaNews(StoreId(name))) for name in "abc"}
    log.write("abc")
    log.submit(CreateTopic("other", assignment=((A,),)))
    assert waiters.completed() == set()
    log.write("ab", acks=1)
    assert waiters.completed() == {waiting["c"]}
    log.submit(AgentUp(B, log.registration("b")))
    assert waiters.completed() == {waiting["b"]}


def test_news_between_two_requests_of_an_agent_are_not_lost(waiters: Waiters) -> None:
    log = waiters.log
    seen = log.state.n
    log.write("ab", acks=1)
    waiters.completed()
    log.write("abc", partition=1)
    waiters.completed()
    assert waiters.is_done_at_once(ReplicaNews(C), seen)
    assert waiters.is_done_at_once(ReplicaNews(C), seen - 1), "what was before this process began, nobody knows"
    assert not waiters.is_done_at_once(ReplicaNews(C))
    assert not waiters.is_done_at_once(ReplicaNews(B), seen)


def test_every_agent_hears_of_another_coordinator_and_not_of_its_renewals(waiters: Waiters) -> None:
    log = waiters.log
    one = waiters.add(ReplicaNews(A))
    log.submit(ClaimCoordination(1, "one", "http://one"))
    assert waiters.completed() == {one}
    waiters.add(ReplicaNews(A))
    log.submit(ClaimCoordination(1, "one", "http://one"))
    assert waiters.completed() == set()


# ---- bounds ---------------------------------------------------------------------------------------


def test_who_is_removed_or_done_leaves_nothing_behind(waiters: Waiters) -> None:
    purgatory = waiters.purgatory
    wanted: list[WaitCondition] = [
        Records((waiters.position(0), waiters.position(1)), topics=(KnownTopic(TOPIC, 2),)),
        pulled(waiters.log),
        ReplicaNews(A),
    ]
    waiters.completed()
    assert wanted[1] == Replicated((AppendedRange(TopicId(1), PartitionIndex(0), Offset(0), Offset(1), RECORD_BYTES),))
    for remove in (purgatory.remove, lambda _: purgatory.remove_all()):
        operations = [waiters.add(each) for each in wanted]
        assert (purgatory.watched, len(purgatory)) == (4 + 2 + 1, 3)
        for operation in operations:
            remove(operation)
            remove(operation)
        assert (purgatory.watched, len(purgatory)) == (0, 0)
        indexes = (purgatory._by_partition, purgatory._by_topic, purgatory._by_store)
        assert sum(map(len, indexes)) == 0


# M: P-10
def test_an_entry_looks_only_at_who_watches_what_it_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    waiters = Waiters(ReplicatedLog(partitions=200))
    for partition in range(200):
        waiters.add(Records((waiters.position(partition),), min_bytes=10 * RECORD_BYTES))
    looked: list[WaitCondition] = []
    monkeypatch.setattr(
        "sparklog.core.purgatory.is_done", lambda state, wanted: bool(looked.append(wanted)) or is_done(state, wanted)
    )
    waiters.log.write("abc", partition=7)
    assert waiters.completed() == set()
    assert [each.positions[0].partition for each in looked if isinstance(each, Records)] == [7]


@random_runs(range(2), campaign=[range(10)])
def test_nobody_waits_who_need_not(seeds: Seeds) -> None:
    """Whatever happens, those who still wait are those whom a look at everything would let wait."""
    assert {name for seed in seeds for name in walked(seed)} == {"Replicated", "Records", "ReplicaNews"}


def walked(seed: int) -> set[str]:
    """What was completed in a random walk."""
    walk, dice = Walk(seed), Random(seed)
    waiters = Waiters(walk.log)
    idle: dict[Operation, StoreId] = {}
    done_of: set[str] = set()
    for _ in range(150):
        walk.step()
        for operation in waiters.completed():
            done_of.add(type(operation.wanted).__name__)
            idle.pop(operation, None)
            if isinstance(operation.wanted, Replicated | Records):
                assert is_done(walk.log.state, operation.wanted)
        for operation in waiters.purgatory._waiting:
            if isinstance(operation.wanted, Replicated | Records):
                assert not is_done(walk.log.state, operation.wanted)
        for store in idle.values():
            at = unfinished_replicas(walk.log.state, store)
            assert not [*at.behind, *at.joinable], f"the agent of {store} waits, and has something to do"
        partition = dice.randrange(2)
        value, seen = walk.log.value(partition), EntryNumber(walk.log.state.n)
        at = waiters.position(partition, dice.randint(value.log_start, value.next_offset))
        waiters.purgatory.add(Records((at, waiters.position(1 - partition)), dice.choice([1, 30, 200])), seen)
        if value.next_offset > value.log_start:
            end = dice.randint(value.log_start + 1, value.next_offset)
            written = AppendedRange(TOPIC, PartitionIndex(partition), Offset(end - 1), Offset(end), RECORD_BYTES)
            waiters.purgatory.add(Replicated((written,)), seen)
        store = StoreId(dice.choice("abcd"))
        now = unfinished_replicas(walk.log.state, store)
        if not now.behind and not now.joinable:
            operation = waiters.purgatory.add(ReplicaNews(store), seen)
            if operation is not None:
                idle[operation] = store
    return done_of
