"""Appends under acks 0, 1 and all: LEOs, ISR and HW."""

from __future__ import annotations

import pytest

from sparklog.core.errors import (
    FencedLeaderEpoch,
    NoReplicaOnline,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
)
from sparklog.core.replication.replica_append import Acks, append, committed
from sparklog.core.replication.replica_invariants import check, check_step
from sparklog.core.types import LeaderEpoch, Offset
from tests.core.replication.example_partition import ends, held, partition, roles

NOW = LeaderEpoch(0)
EQUAL = {"a": 5, "b": 5, "c": 5}


def test_acks_all_on_every_in_sync_store_is_committed_at_once() -> None:
    before = partition(EQUAL, "abc", hw=5)
    after = append(before, [held(3, "abc")], Acks.ALL, NOW, 2)
    assert (ends(after), roles(after), after.high_watermark, after.version) == ("a8 b8 c8", "a:abc", 8, 7)
    check_step(before, after, 2)


def test_step_4_who_lacks_the_object_leaves_the_isr_in_the_same_entry() -> None:
    before = partition(EQUAL, "abc", hw=5)
    after = append(before, [held(3, "ac")], Acks.ALL, NOW, 2)
    assert (ends(after), roles(after), after.high_watermark, after.version) == ("a8 b5 c8", "a:ac", 8, 8)
    check(after, 2)


def test_step_4_nothing_is_written_if_too_few_would_stay() -> None:
    with pytest.raises(NotEnoughReplicas, match=r"2 stores in sync .* it is on \['a'\] of \['a', 'b', 'c'\]"):
        append(partition(EQUAL, "abc", hw=5), [held(3, "a")], Acks.ALL, NOW, 2)


def test_step_4_a_holder_without_what_lies_below_leaves_too() -> None:
    """b has the new object, but not [5, 7), which was written with acks=1: HW could not pass on it."""
    before = partition({"a": 7, "b": 5, "c": 7}, "abc", hw=5)
    after = append(before, [held(3, "abc")], Acks.ALL, NOW, 2)
    assert (ends(after), roles(after), after.high_watermark) == ("a10 b5 c10", "a:ac", 10)


def test_step_4_a_store_needs_every_object_of_the_write() -> None:
    after = append(partition(EQUAL, "abc", hw=5), [held(1, "abc"), held(2, "ac"), held(1, "abc")], Acks.ALL, NOW, 1)
    assert (ends(after), roles(after)) == ("a9 b6 c9", "a:ac")


def test_acks_all_below_min_isr_is_refused_even_if_all_of_the_isr_hold_it() -> None:
    with pytest.raises(NotEnoughReplicas):
        append(partition(EQUAL, "a", hw=5, elr="bc"), [held(1, "abc")], Acks.ALL, NOW, 2)


@pytest.mark.parametrize("acks", [Acks.NONE, Acks.LEADER])
def test_acks_0_and_1_need_the_leader_alone_and_nobody_leaves(acks: Acks) -> None:
    after = append(partition(EQUAL, "abc", hw=5), [held(3, "a")], acks, NOW, 2)
    assert (ends(after), roles(after), after.high_watermark, after.next_offset) == ("a8 b5 c5", "a:abc", 5, 8)
    assert after.version == 7


def test_h2_acks_1_below_min_isr_is_durable_on_the_leader_and_invisible() -> None:
    before = partition(EQUAL, "a", hw=5, elr="b")
    after = append(before, [held(3, "a")], Acks.LEADER, NOW, 2)
    assert (after.log_end(after.replicas[0]), after.high_watermark, roles(after)) == (8, 5, "a:a+b")


def test_a_follower_outside_the_isr_that_was_at_the_end_goes_on_with_it() -> None:
    after = append(partition(EQUAL, "ab", hw=5), [held(3, "abc")], Acks.ALL, NOW, 2)
    assert (ends(after), roles(after)) == ("a8 b8 c8", "a:ab")  # it joins by a report, not by a write


def test_the_leaders_store_must_hold_every_object() -> None:
    for slices in ([held(3, "bc")], [held(1, "abc"), held(1, "b")]):
        for acks in Acks:
            with pytest.raises(NotLeaderOrFollower, match="on the leader's store a"):
                append(partition(EQUAL, "abc", hw=5), slices, acks, NOW, 1)


def test_without_a_leader_nothing_is_written() -> None:
    with pytest.raises(NoReplicaOnline):
        append(partition(EQUAL, "", leader=None, hw=5, elr="abc"), [held(3, "abc")], Acks.LEADER, NOW, 1)


@pytest.mark.parametrize(("epoch", "error"), [(1, FencedLeaderEpoch), (3, UnknownLeaderEpoch)])
def test_a_write_of_another_epoch_is_refused(epoch: int, error: type[Exception]) -> None:
    value = partition(EQUAL, "abc", hw=5, epochs=((0, 0), (2, 4)))
    with pytest.raises(error):
        append(value, [held(3, "abc")], Acks.NONE, LeaderEpoch(epoch), 1)


def test_a_pulled_write_with_acks_all_waits_until_hw_passes() -> None:
    before = partition(EQUAL, "abc", hw=5)
    after = append(before, [held(3, "a")], Acks.ALL, NOW, 2, pull=True)
    assert (ends(after), roles(after), after.high_watermark) == ("a8 b5 c5", "a:abc", 5)
    assert not committed(after, Offset(8), 2, named=True)
    assert committed(partition({"a": 8, "b": 8, "c": 5}, "ab", hw=8), Offset(8), 2, named=True)


def test_a_pulled_write_with_acks_all_is_refused_below_min_isr_before_and_after() -> None:
    alone = partition({"a": 8, "b": 5, "c": 5}, "a", hw=5, elr="b")
    with pytest.raises(NotEnoughReplicas):
        append(alone, [held(3, "a")], Acks.ALL, NOW, 2, pull=True)
    with pytest.raises(NotEnoughReplicasAfterAppend) as caught:
        committed(alone, Offset(8), 2, named=True)
    assert caught.value.landed == "yes"


def test_a_pulled_write_that_an_election_forgot_is_not_committed_though_hw_passes_its_offsets() -> None:
    with pytest.raises(NotLeaderOrFollower, match="write them again"):
        committed(partition({"a": 8, "b": 8}, "ab", hw=8), Offset(8), 2, named=False)
