"""Stores: who is registered, what fencing, return, loss and removal mean for the replicas on them."""

from __future__ import annotations

import msgspec
import pytest

from sparklog.core.commands import (
    AddPartitions,
    AgentDown,
    AgentUp,
    AlterCluster,
    CreateTopic,
    FenceStore,
    HeldEnd,
    NewStore,
    RegisterStore,
    RemoveStore,
    ReportLoss,
)
from sparklog.core.decide import changes
from sparklog.core.errors import (
    BrokerIdNotRegistered,
    Conflict,
    DuplicateBrokerRegistration,
    InvalidInput,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    NotEnoughReplicas,
    OffsetOutOfRange,
    StaleBrokerEpoch,
)
from sparklog.core.records import PartitionsChanged, StoreFenced, StoreRegistered
from sparklog.core.state import Store
from sparklog.core.types import Offset, PartitionIndex, StoreId, TopicId
from tests.core.replicated_log import TOPIC, ReplicatedLog
from tests.core.replication.example_partition import offsets, stores

A, B, C, D = stores("a", "b", "c", "d")


@pytest.fixture
def log() -> ReplicatedLog:
    return ReplicatedLog()


# ---- registering --------------------------------------------------------------------------------------


def test_a_new_store_gets_the_next_registration(log: ReplicatedLog) -> None:
    log.register("d")
    assert log.state.stores[D] == Store(D, 3, "file:///d", "i-d", "", registered_at=log.state.n)
    assert log.state.next_registration == 4


@pytest.mark.parametrize(
    ("store", "incarnation", "text"),
    [
        ("a", "i-a", "store a is already registered, and not fenced"),
        ("a", "other", "registered with INCARNATION i-a, found other: if it was wiped, report its loss"),
        ("d", "i-b", "with INCARNATION i-b is registered as b, not as d"),
    ],
)
def test_a_store_is_registered_once(log: ReplicatedLog, store: str, incarnation: str, text: str) -> None:
    with pytest.raises(DuplicateBrokerRegistration, match=text):
        log.register(store, incarnation)


def test_a_wiped_store_that_is_fenced_does_not_come_back_as_if_it_had_everything(log: ReplicatedLog) -> None:
    log.fence("a")
    with pytest.raises(DuplicateBrokerRegistration, match="report its loss"):
        log.register("a", "other")


def test_the_zone_of_a_store_is_legal(log: ReplicatedLog) -> None:
    with pytest.raises(InvalidInput, match="a zone is up to 100 of"):
        log.submit(RegisterStore(NewStore(D, "file:///d", "i-d", "eu west")))


# M: N-03
def test_new_partitions_are_spread_over_the_zones_of_the_stores(log: ReplicatedLog) -> None:
    log.submit(RegisterStore(NewStore(D, "file:///d", "i-d", "z")))
    log.submit(CreateTopic("two", 4, 2))
    found = [each.replication.replicas for each in log.state.partitions_of(log.state.topics[2])]
    assert all(D in replicas for replicas in found)  # a, b and c have no zone, which is one, too
    log.submit(AddPartitions(TopicId(2), 5))
    assert D in log.state.partitions_of(log.state.topics[2])[4].replication.replicas


def test_a_silent_store_gets_no_new_partition_while_there_are_others(log: ReplicatedLog) -> None:
    log.submit(AgentDown(A, 0))
    log.submit(CreateTopic("two", 3, 2))
    assert {each.replication.replicas for each in log.state.partitions_of(log.state.topics[2])} == {(B, C), (C, B)}
    log.submit(CreateTopic("three", 2, 3))
    assert {each.replication.replicas[2] for each in log.state.partitions_of(log.state.topics[3])} == {A}


def test_the_id_of_a_new_store_is_as_in_settings(log: ReplicatedLog) -> None:
    with pytest.raises(InvalidInput, match="each store needs an id of its own"):
        log.submit(RegisterStore(NewStore(StoreId("A"), "file:///d", "i-d")))


@pytest.mark.parametrize("command", [FenceStore(D), RemoveStore(D, {}), ReportLoss(D, 0, "i"), AgentUp(D, 0)])
def test_an_unknown_store_is_named(log: ReplicatedLog, command: FenceStore) -> None:
    with pytest.raises(BrokerIdNotRegistered, match="wanted store 'd', the cluster has a, b, c"):
        log.submit(command)


# ---- fencing and return -------------------------------------------------------------------------------


# M: P-06
def test_fencing_the_leaders_store_elects_another_in_the_same_entry(log: ReplicatedLog) -> None:
    log.write("abc", 4)
    log.fence("a")
    assert log.replicas() == "b:bc a4 b4 c4 hw4"
    assert log.value().epochs == ((0, 0), (1, 4))
    assert log.state.stores[A].fenced
    assert log.registration("a") == 3


def test_fencing_comes_first_and_the_partitions_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "PARTITIONS_PER_RECORD", 2)
    log = ReplicatedLog(partitions=5)
    records = log.decide(FenceStore(B)).records
    assert [type(each) for each in records] == [StoreFenced, *[PartitionsChanged] * 3]
    log.fence("b")
    assert [log.replicas(at) for at in range(5)] == ["a:ac a0 b0 c0 hw0"] * 5


def test_a_store_is_fenced_once(log: ReplicatedLog) -> None:
    log.fence("a")
    assert log.decide(FenceStore(A)).records == ()


def test_a_fenced_store_is_given_no_partition(log: ReplicatedLog) -> None:
    log.fence("c")
    log.submit(CreateTopic("two", 2, 2))
    assert {each.replication.replicas for each in log.state.partitions_of(log.state.topics[2])} == {(A, B), (B, A)}
    with pytest.raises(InvalidReplicationFactor, match="the cluster has 2 that are not fenced: a, b"):
        log.submit(CreateTopic("three", 1, 3))
    with pytest.raises(InvalidReplicaAssignment, match=r"different stores of \['a', 'b'\], found \['c'\]"):
        log.submit(CreateTopic("four", assignment=((C,),)))
    with pytest.raises(InvalidReplicationFactor, match="not fenced"):
        log.submit(AddPartitions(TOPIC, 2))


# M: P-02
def test_a_store_that_is_back_keeps_what_it_had_and_joins_when_it_has_all(log: ReplicatedLog) -> None:
    log.write("abc", 4)
    log.fence("a")
    log.write("bc", 2)
    log.register("a")
    assert log.replicas() == "b:bc a4 b6 c6 hw6"
    log.report("a", 6)
    assert log.replicas() == "b:abc a6 b6 c6 hw6"
    assert not log.state.stores[A].fenced


def test_a_partition_whose_stores_are_all_fenced_is_led_by_the_first_that_is_back_and_lacks_nothing(
    log: ReplicatedLog,
) -> None:
    log.configure(min_insync_replicas="2")
    log.write("abc", 4)
    log.fence("a")
    log.write("bc", 2)
    for each in "bc":
        log.fence(each)
    assert log.replicas() == "-:+bc a4 b6 c6 hw6"
    log.register("a")
    assert log.value().leader is None
    log.register("c")
    assert log.replicas() == "c:c+b a4 b6 c6 hw6"


# M: P-06
def test_a_store_that_lacks_nothing_leads_when_it_is_back_whatever_it_was_when_it_went(log: ReplicatedLog) -> None:
    """b left the ISR while a was in it alone; a then lost what b has."""
    log.write("abc", 1)
    log.write("abc", 2)
    for each in "bc":
        log.fence(each)
    log.lose("a", (0, 1))
    assert log.replicas() == "-: a1 b3 c3 hw3"
    log.register("b")
    assert log.replicas() == "b:b a1 b3 c3 hw3"


def test_a_topic_without_a_record_outlives_the_loss_of_all_its_stores(log: ReplicatedLog) -> None:
    for each in "abc":
        log.lose(each, wiped=True)
    assert log.value().leader is not None
    log.fence("a")
    log.fence("b")
    log.fence("c")
    log.lose("b", wiped=True)
    assert log.value().leader == "b"


def test_a_report_makes_its_store_the_leader_where_there_is_none_and_it_lacks_nothing(log: ReplicatedLog) -> None:
    """b found again what it had lost: no other store is there to lead."""
    log.write("abc", 1)
    log.write("abc", 2)
    for each in "ca":
        log.fence(each)
    log.lose("b", (0, 1))
    assert log.replicas() == "-: a3 b1 c3 hw3"
    log.report("b", 3)
    assert log.replicas() == "b:b a3 b3 c3 hw3"


def test_a_write_that_was_planned_before_a_store_was_fenced_is_refused(log: ReplicatedLog) -> None:
    planned = log.write_of("abc")
    log.fence("c")
    with pytest.raises(StaleBrokerEpoch, match="store c as 2, the store is registered as 3 and fenced"):
        log.submit(planned)


# ---- loss ---------------------------------------------------------------------------------------------


def test_a_wiped_store_has_nothing_and_a_new_registration(log: ReplicatedLog) -> None:
    log.write("abc", 4)
    log.lose("a", wiped=True)
    assert log.replicas() == "b:bc a0 b4 c4 hw4"
    assert (log.registration("a"), log.state.stores[A].fenced) == (3, False)
    assert log.state.stores[A].incarnation != "i-a"


def test_a_loss_counts_where_it_happened_alone() -> None:
    log = ReplicatedLog(partitions=2)
    for at in (0, 1):
        log.write("abc", 2, at)
        log.write("abc", 2, at)
    log.lose("b", (1, 2))
    assert log.replicas(0) == "a:abc a4 b4 c4 hw4"
    assert log.replicas(1) == "a:ac a4 b2 c4 hw4"


def test_of_a_slice_that_is_there_in_part_nothing_is_held(log: ReplicatedLog) -> None:
    log.write("abc", 2)
    log.write("abc", 4)
    log.lose("c", (0, 5))
    assert log.replicas() == "a:ab a6 b6 c2 hw6"


def test_a_loss_is_reported_by_who_speaks_for_the_store_now(log: ReplicatedLog) -> None:
    with pytest.raises(StaleBrokerEpoch, match="store a is registered as 0, its agent reports for 9"):
        log.submit(ReportLoss(A, 9, "i-a"))


def test_of_another_life_of_a_store_only_what_was_found_again_is_held() -> None:
    """INCARNATION says that it is another one: a partition that is not named lost everything."""
    log = ReplicatedLog(partitions=2)
    for at in (0, 1):
        log.write("abc", 2, at)
    records = [HeldEnd(TOPIC, PartitionIndex(1), Offset(2))]
    log.submit(ReportLoss(B, 1, "i-other", tuple(records)))
    assert log.replicas(0) == "a:ac a2 b0 c2 hw2"
    assert log.replicas(1) == "a:ac a2 b2 c2 hw2"  # in sync again by a report under the new registration
    log.report("b", 2, 1)
    assert log.replicas(1) == "a:abc a2 b2 c2 hw2"


def test_a_loss_is_not_harmless_while_the_store_that_has_everything_cannot_be_reached(log: ReplicatedLog) -> None:
    """Another one can, but has less than the damaged store."""
    for store in "bc":
        log.fence(store)
        log.register(store)
    for _ in range(2):
        log.write_to_leader("a", 2)
    log.report("b", 2)
    log.submit(AgentDown(A, log.registration("a")))
    assert log.replicas() == "a:a a4 b2 c0 hw4"
    held = (HeldEnd(TOPIC, PartitionIndex(0), Offset(0)),)
    loss = ReportLoss(B, log.registration("b"), log.state.stores[B].incarnation, held, harmless=True)
    with pytest.raises(NotEnoughReplicas, match="needs a replica beside store b that has everything up to offset 2"):
        log.submit(loss)
    log.submit(AgentUp(A, log.registration("a")))
    log.submit(loss)
    assert log.replicas() == "a:a a4 b0 c0 hw4"


def test_a_loss_is_not_harmless_if_the_next_leader_lacks_records_that_another_replica_has(log: ReplicatedLog) -> None:
    for _ in range(2):
        log.write_to_leader("a", 2)
    log.report("b", 2)
    log.report("c", 4)
    assert log.replicas() == "a:abc a4 b2 c4 hw2"
    held = (HeldEnd(TOPIC, PartitionIndex(0), Offset(2)),)
    with pytest.raises(NotEnoughReplicas, match="needs a replica beside store a that has everything up to offset 4"):
        log.submit(ReportLoss(A, log.registration("a"), log.state.stores[A].incarnation, held, harmless=True))


def test_no_more_than_the_log_can_be_held(log: ReplicatedLog) -> None:
    with pytest.raises(OffsetOutOfRange, match="up to 1, the log ends at 0"):
        log.lose("a", (0, 1))


def test_a_loss_of_what_nobody_counted_changes_the_number_only(log: ReplicatedLog) -> None:
    log.write("abc", 4)
    records = log.decide(ReportLoss(B, 1, "i-b")).records
    assert [type(each) for each in records] == [StoreRegistered]


# ---- agents -------------------------------------------------------------------------------------------


def test_a_silent_leader_is_replaced_and_stays_in_sync(log: ReplicatedLog) -> None:
    log.write("abc", 4)
    log.submit(AgentDown(A, 0))
    assert log.replicas() == "b:abc a4 b4 c4 hw4"
    assert log.state.stores[A].agent_up is False
    assert log.decide(AgentDown(A, 0)).records == ()


def test_a_clean_stop_of_an_agent_takes_the_lead_from_nobody(log: ReplicatedLog) -> None:
    log.submit(AgentUp(A, 0))
    log.write_to_leader("a")
    log.submit(AgentDown(A, 0, stopped=True))
    assert log.state.stores[A].agent_up is None
    assert log.value().leader == A
    assert log.decide(AgentDown(A, 0, stopped=True)).records == ()


def test_where_nobody_else_may_a_silent_store_leads_on(log: ReplicatedLog) -> None:
    for at, each in enumerate((B, C, A)):
        log.submit(AgentDown(each, log.registration(each)))
        assert log.value().leader == A, at
    log.submit(AgentUp(B, 1))
    assert log.value().leader == B


def test_an_agent_speaks_for_the_registration_that_its_store_has(log: ReplicatedLog) -> None:
    for command in (AgentUp(A, 7), AgentDown(A, 7)):
        with pytest.raises(StaleBrokerEpoch, match="store a is registered as 0, its agent reports for 7"):
            log.submit(command)
    log.fence("a")
    with pytest.raises(StaleBrokerEpoch, match="store a is fenced: register it again"):
        log.submit(AgentUp(A, log.registration("a")))


def test_a_store_that_is_registered_again_can_be_reached(log: ReplicatedLog) -> None:
    log.submit(AgentDown(A, 0))
    log.fence("a")
    log.register("a")
    assert log.state.stores[A].reachable


# ---- removal ------------------------------------------------------------------------------------------


def test_a_store_with_replicas_stays(log: ReplicatedLog) -> None:
    with pytest.raises(Conflict, match="store a has 1 replica: move them to other stores first"):
        log.submit(RemoveStore(A, {}))


def test_a_store_without_replicas_goes(log: ReplicatedLog) -> None:
    log.register("d")
    log.submit(RemoveStore(D, {}))
    assert D not in log.state.stores
    log.register("d")
    assert log.registration("d") == 4  # no number is used twice


def test_the_only_store_that_is_not_fenced_stays(log: ReplicatedLog) -> None:
    log.register("d")
    for store in "abc":
        log.fence(store)
    with pytest.raises(Conflict, match="store d is the only one of the cluster that is not fenced"):
        log.submit(RemoveStore(D, {}))


def test_the_last_store_that_may_have_copies_stays(log: ReplicatedLog) -> None:
    log.register("d")
    log.submit(AlterCluster({"metadata.copies": "1"}))
    for others in ({}, {StoreId("e"): 0}):
        with pytest.raises(Conflict, match="store d is the last one that may have copies of the metadata"):
            log.submit(RemoveStore(D, others))
    registered = log.registration("a")
    with pytest.raises(Conflict, match="store a was registered again meanwhile: remove store d again"):
        log.submit(RemoveStore(D, {A: registered + 1}))
    log.submit(RemoveStore(D, {A: registered, StoreId("e"): 0}))
    assert D not in log.state.stores


def test_a_removal_that_names_no_other_stores_is_not_of_this_version() -> None:
    with pytest.raises(msgspec.ValidationError, match="missing required field `others`"):
        msgspec.json.decode(b'{"type": "remove-store", "store": "d"}', type=RemoveStore)


# ---- config -------------------------------------------------------------------------------------------


def test_hw_moves_when_fewer_replicas_are_wanted_in_sync(log: ReplicatedLog) -> None:
    log.configure(min_insync_replicas="2")
    log.write("abc", 4)
    log.fence("b")
    log.fence("c")
    log.write_to_leader("a", 3)
    assert log.replicas() == "a:a+c a7 b4 c4 hw4"
    log.configure(min_insync_replicas="1")
    assert log.replicas() == "a:a a7 b4 c4 hw7"


def test_a_topic_that_takes_unclean_leaders_from_now_on_has_one(log: ReplicatedLog) -> None:
    log.write("a", 4)
    log.fence("a")
    assert log.replicas() == "-:+a a4 b0 c0 hw4"
    log.configure(unclean_leader_election_enable="true")
    assert log.replicas() == "b:b a4 b4 c4 hw4"  # nobody lacks anything of what is left
    assert log.value().lost == (offsets(0, 4),)
    assert log.bounds() == []


def test_a_change_of_other_settings_says_nothing_of_replicas(log: ReplicatedLog) -> None:
    log.configure(retention_ms="1")
    assert len(log.entries[log.state.n][0].records) == 1
    assert log.value().version == 0


def test_one_place_is_not_two_stores(log: ReplicatedLog) -> None:
    """b's address leads to c's place by now: what is there once would count as two replicas."""
    before = log.state.n
    with pytest.raises(DuplicateBrokerRegistration, match="with INCARNATION i-c is registered as c, not as b"):
        log.submit(ReportLoss(StoreId("b"), log.registration("b"), "i-c"))
    assert log.state.n == before


def test_partitions_that_are_added_during_a_move_have_as_many_replicas_as_it_leads_to() -> None:
    log = ReplicatedLog(stores="abcdef")
    log.move("def")
    log.submit(AddPartitions(TOPIC, 2))
    assert len(log.value(1).replicas) == 3


# ---- partitions that are created on silent stores -----------------------------------------------------


def test_a_partition_is_led_from_the_start_by_a_store_that_can_be_reached(log: ReplicatedLog) -> None:
    """Before that only an operator, or an agent that comes up, would have made another store lead it."""
    log.submit(AgentDown(A, 0))
    log.submit(CreateTopic("two", assignment=((A, B, C), (B, A, C), (A, C, B))))
    values = [each.replication for each in log.state.partitions_of(log.state.topics[TopicId(2)])]
    assert [each.leader for each in values] == [B, B, C]
    assert [(each.isr, each.epochs) for each in values[:2]] == [((A, B, C), ((1, 0),)), ((B, A, C), ((0, 0),))]
    log.submit(AddPartitions(TopicId(2), 5, ((A, B, C), (C, A, B))))
    values = [each.replication for each in log.state.partitions_of(log.state.topics[TopicId(2)])]
    assert [each.leader for each in values[3:]] == [B, C]


def test_where_no_store_can_be_reached_the_preferred_leader_leads_a_new_partition(log: ReplicatedLog) -> None:
    for number, each in enumerate((A, B, C)):
        log.submit(AgentDown(each, number))
    records = log.decide(CreateTopic("two", assignment=((A, B, C),))).records
    assert len(records) == 1
