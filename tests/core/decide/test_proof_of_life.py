"""A write that reached a store proves that it lives; the silence of its agent proves nothing (rule E8)."""

from __future__ import annotations

import pytest

from sparklog.core.commands import AgentDown, AgentUp, FenceStore
from sparklog.core.errors import StaleBrokerEpoch
from sparklog.core.records import AgentChanged, Appended, PartitionsChanged
from sparklog.core.types import StoreId
from tests.core.decided_log import span
from tests.core.replicated_log import ReplicatedLog


def silence(log: ReplicatedLog, stores: str = "cba") -> None:
    for each in stores:
        log.submit(AgentDown(StoreId(each), log.registration(each)))


def speak(log: ReplicatedLog, store: str) -> None:
    log.submit(AgentUp(StoreId(store), log.registration(store)))


def agents(log: ReplicatedLog) -> dict[str, bool | None]:
    return {each.store: each.agent_up for each in log.state.stores.values()}


@pytest.fixture
def log() -> ReplicatedLog:
    """[0, 1) is on all stores, whose agents were stopped."""
    made = ReplicatedLog()
    made.write("abc", 1)
    silence(made)
    assert made.replicas() == "a:abc a1 b1 c1 hw1"
    return made


def test_an_agent_that_comes_up_takes_no_records_of_a_leader_that_is_written_to(log: ReplicatedLog) -> None:
    log.write_to_leader("a", 2)
    assert agents(log) == {"a": None, "b": False, "c": False}
    speak(log, "b")
    assert log.replicas() == "a:abc a3 b1 c1 hw1"
    assert log.bounds() == [(0, 1), (1, 3)]


def test_without_such_a_write_it_leads(log: ReplicatedLog) -> None:
    speak(log, "b")
    assert log.replicas() == "b:abc a1 b1 c1 hw1"


def test_each_store_that_holds_the_write_is_reached_and_said_so_once(log: ReplicatedLog) -> None:
    records = log.decide(log.write_of("ab", acks=-1)).records
    assert isinstance(records[0], Appended)
    assert records[1:] == (AgentChanged(StoreId("a"), up=None), AgentChanged(StoreId("b"), up=None))
    log.write("ab")
    assert len(log.decide(log.write_of("ab", acks=-1)).records) == 1
    assert agents(log) == {"a": None, "b": None, "c": False}


def test_a_write_of_a_producer_says_so_too_and_is_known_when_it_is_repeated(log: ReplicatedLog) -> None:
    producer = log.producer()
    first = log.write("abc", 1, producer=span(producer, 0, 0, 0))
    assert set(agents(log).values()) == {None}
    before = log.state.n
    assert log.write("abc", 1, producer=span(producer, 0, 0, 0)).ranges[0].start == first.ranges[0].start
    assert log.state.n == before


def test_an_agent_is_believed_again_afterwards(log: ReplicatedLog) -> None:
    log.write("abc")
    speak(log, "b")
    assert agents(log)["b"] is True
    silence(log, "a")
    assert (agents(log)["a"], log.value().leader) == (False, "b")


def test_what_was_written_before_a_store_was_fenced_proves_nothing() -> None:
    log = ReplicatedLog()
    planned = log.write_of("abc")
    log.fence("c")
    log.register("c")
    silence(log, "c")
    with pytest.raises(StaleBrokerEpoch):
        log.submit(planned)
    assert agents(log)["c"] is False


def test_a_store_that_is_reached_leads_where_nobody_does() -> None:
    """No partition has a leader: the only store that was in sync beside it was silent when it was fenced."""
    log = ReplicatedLog(partitions=3)
    for at in range(3):
        log.write("ab", 1, at)
    silence(log, "a")
    assert [log.value(at).leader for at in range(3)] == ["b"] * 3
    log.submit(FenceStore(StoreId("b")))
    assert [log.replicas(at) for at in range(3)] == ["-:a a1 b1 c0 hw1"] * 3
    planned = log.write_of("a", 1, 0, take_over=True)
    records = log.decide(planned).records
    assert [type(each) for each in records] == [Appended, AgentChanged, PartitionsChanged]
    log.submit(planned)
    assert [log.value(at).leader for at in range(3)] == ["a"] * 3
    assert [log.value(at).next_offset for at in range(3)] == [2, 1, 1]


def test_the_write_itself_says_who_leads_its_partition() -> None:
    """a and c are reached. c takes over, for it lacks nothing; a would be the first by rule E1, without [1, 2)."""
    log = ReplicatedLog()
    log.write("abc", 1)
    log.elect("b")
    log.write_to_leader("bc", 1)
    silence(log, "ac")
    log.fence("b")
    assert log.replicas() == "-:ac a1 b2 c2 hw1"
    log.write("ac", 1, take_over=True)
    assert log.replicas() == "c:c a1 b2 c3 hw3"
    assert log.bounds() == [(0, 1), (1, 2), (2, 3)]
