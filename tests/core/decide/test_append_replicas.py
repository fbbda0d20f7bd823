"""Appends to several replicas: what acks, missing holders, pulled writes and take-overs do to LEOs, ISR and leader."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from sparklog.core.commands import AlterTopic, Append, Application, FenceStore
from sparklog.core.errors import (
    FencedLeaderEpoch,
    InvalidRequiredAcks,
    Landed,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RequestTimedOut,
    StaleBrokerEpoch,
)
from sparklog.core.records import Appended
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import (
    Holder,
    NewSlice,
)
from tests.core.decide.test_append import epoch_of, object_with, several, slice_with
from tests.core.decided_log import TOPIC, A, B, DecidedLog, span
from tests.core.replicated_log import ReplicatedLog
from tests.core.replication.example_partition import ends, partition, roles


@pytest.fixture
def log() -> DecidedLog:
    return DecidedLog()


def replicated(log: DecidedLog, log_ends: dict[str, int], isr: str, *, hw: int, min_isr: int = 1) -> None:
    """Partition 0 on stores a and b, with these LEOs; the slices of before stay."""
    log.become(partition(log_ends, isr, hw=hw, version=0))
    log.submit(AlterTopic(TOPIC, {"min.insync.replicas": str(min_isr)}))


BOTH = (Holder(A, 0), Holder(B, 1))
ON_A, ON_B = BOTH[:1], BOTH[1:]


def replicas_of(log: DecidedLog) -> str:
    value = log.partition().replication
    return f"{roles(value)} {ends(value)} hw{value.high_watermark}"


def test_a_write_on_all_replicas_says_nothing_of_them(log: DecidedLog) -> None:
    replicated(log, {"a": 0, "b": 0}, "ab", hw=0, min_isr=2)
    (appended,) = log.decide(object_with(log.append_of(2), holders=BOTH)).records
    assert isinstance(appended, Appended)
    assert appended.changes == ()
    log.submit(object_with(log.append_of(2), holders=BOTH))
    assert replicas_of(log) == "a:ab a2 b2 hw2"


def test_a_member_of_the_isr_that_lacks_the_objects_leaves_it_in_the_same_entry(log: DecidedLog) -> None:
    replicated(log, {"a": 0, "b": 0}, "ab", hw=0)
    log.submit(object_with(log.append_of(2), holders=ON_A))
    assert replicas_of(log) == "a:a a2 b0 hw2"
    assert log.partition().replication.version == 1


def test_nothing_is_written_if_too_few_would_stay_in_sync(log: DecidedLog) -> None:
    replicated(log, {"a": 0, "b": 0}, "ab", hw=0, min_isr=2)
    with pytest.raises(NotEnoughReplicas, match=r"^NOT_ENOUGH_REPLICAS: orders-0: .*it is on \['a'\] of \['a', 'b'\]"):
        log.submit(object_with(log.append_of(2), holders=ON_A))
    assert replicas_of(log) == "a:ab a0 b0 hw0"


# M: P-03 P-05
def test_acks_1_is_durable_on_the_leader_and_readable_once_the_others_have_it(log: DecidedLog) -> None:
    replicated(log, {"a": 0, "b": 0}, "ab", hw=0)
    log.submit(acks(object_with(log.append_of(2), holders=ON_A), Acks.LEADER))
    assert replicas_of(log) == "a:ab a2 b0 hw0"
    log.submit(acks(object_with(log.append_of(1), holders=BOTH), Acks.LEADER))
    assert replicas_of(log) == "a:ab a3 b0 hw0"  # b has the second without the first


def test_a_pulled_write_waits_for_the_followers(log: DecidedLog) -> None:
    replicated(log, {"a": 0, "b": 0}, "ab", hw=0, min_isr=2)
    log.submit(msgspec.structs.replace(object_with(log.append_of(2), holders=ON_A), pull=True))
    assert replicas_of(log) == "a:ab a2 b0 hw0"


def test_slices_that_a_follower_has_only_in_part_raise_its_log_end_in_part(log: DecidedLog) -> None:
    replicated(log, {"a": 0, "b": 0}, "ab", hw=0)
    first, second = log.append_of(2), log.append_of(3)
    both = msgspec.structs.replace(
        first,
        objects=(object_with(first, holders=BOTH).objects[0], second.objects[0]),
        slices=(first.slices[0], slice_with(second, object_index=1).slices[0]),
        acks=Acks.LEADER,
    )
    log.submit(both)
    assert replicas_of(log) == "a:ab a5 b2 hw2"


def test_a_holder_takes_over_in_the_entry_of_a_write_that_did_not_reach_the_leader(log: DecidedLog) -> None:
    replicated(log, {"a": 0, "b": 0}, "ab", hw=0)
    unreached = object_with(log.append_of(2), holders=ON_B)
    with pytest.raises(NotLeaderOrFollower):
        log.submit(unreached)
    log.submit(msgspec.structs.replace(unreached, take_over=True))
    assert replicas_of(log) == "b:b a0 b2 hw2"
    assert log.partition().replication.epochs == ((1, 0),)
    assert [each.leader_epoch for each in log.slices()] == [1]


def test_nobody_takes_over_who_would_forget_records(log: DecidedLog) -> None:
    replicated(log, {"a": 0, "b": 0}, "ab", hw=0)
    log.submit(acks(object_with(log.append_of(2), holders=ON_A), Acks.LEADER))
    with pytest.raises(NotEnoughReplicas, match="sparklog replica elect"):
        log.submit(msgspec.structs.replace(object_with(log.append_of(2), holders=ON_B), take_over=True))


def test_what_lands_as_a_whole_needs_acks_all(log: DecidedLog) -> None:
    """An election may forget the end of a log that not every replica had: then half of such a write."""
    over_both = several(log, log.part(2, 0), log.part(2, 1))
    versioned = msgspec.structs.replace(log.append_of(), application=Application("job", 1))
    for each in (over_both, versioned):
        for changed in (acks(each, Acks.LEADER), acks(each, Acks.NONE), msgspec.structs.replace(each, pull=True)):
            with pytest.raises(InvalidRequiredAcks, match="needs acks=all"):
                log.decide(changed)
        assert log.decide(each).records


def test_of_a_write_to_a_deposed_leader_the_epoch_is_told_before_its_holders(log: DecidedLog) -> None:
    """Its author asks for the new leader, and names the holders as they are then."""
    replicated(log, {"a": 0, "b": 0}, "ab", hw=0)
    planned = object_with(log.append_of(2), holders=BOTH)
    log.submit(FenceStore(A))
    with pytest.raises(FencedLeaderEpoch):
        log.submit(planned)
    with pytest.raises(StaleBrokerEpoch):
        log.submit(epoch_of(planned, 1))
    log.submit(object_with(epoch_of(planned, 1), holders=ON_B))


def test_a_fenced_store_holds_nothing_that_is_written(log: DecidedLog) -> None:
    """Even under the number that it has: only its return makes a store count again."""
    log.state.stores[B] = msgspec.structs.replace(log.state.stores[B], fenced=True)
    with pytest.raises(StaleBrokerEpoch, match="store b as 1, the store is registered as 1 and fenced"):
        log.submit(object_with(log.append_of(2), holders=BOTH))


def test_a_repeat_with_acks_all_is_acknowledged_once_every_store_in_sync_has_it(log: DecidedLog) -> None:
    replicated(log, {"a": 0, "b": 0}, "ab", hw=0)
    producer = log.producer()
    first = object_with(log.append_of(2, producer=span(producer, 0, 0, 1)), holders=ON_A)
    log.submit(acks(first, Acks.LEADER))
    assert log.decide(acks(first, Acks.LEADER)).known is not None
    assert log.decide(msgspec.structs.replace(first, pull=True)).known is not None  # it waits by itself
    with pytest.raises(RequestTimedOut, match="high watermark is 0") as caught:
        log.decide(first)
    assert caught.value.landed is Landed.YES
    log.become(partition({"a": 2, "b": 2}, "ab", hw=2))
    assert log.decide(first).known is not None


def acks(command: Append, acks: Acks) -> Append:
    return msgspec.structs.replace(command, acks=acks)


class CountedSlices(tuple[NewSlice, ...]):
    """Slices that count how often somebody goes through all of them."""

    passes = 0

    def __iter__(self) -> Iterator[NewSlice]:
        self.passes += 1
        return super().__iter__()


@pytest.mark.parametrize("partitions", [2, 40])
def test_the_slices_of_a_write_are_gone_through_as_often_however_many_partitions_lack_a_store(partitions: int) -> None:
    log = ReplicatedLog(partitions=partitions)
    writes = [log.write_of("ab", 1, at) for at in range(partitions)]
    slices = CountedSlices(msgspec.structs.replace(each.slices[0], object_index=at) for at, each in enumerate(writes))
    objects = tuple(each.objects[0] for each in writes)
    log.decide(Append(objects, slices, tuple(each.epochs[0] for each in writes)))
    assert slices.passes < 20
