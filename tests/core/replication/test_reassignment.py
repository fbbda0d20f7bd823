"""Replicas move to other stores while the partition is written and read (P-11, KIP-455, rule E7)."""

from __future__ import annotations

import pytest

from sparklog.core.errors import InvalidReplicaAssignment, NotEnoughReplicas, PreferredLeaderNotAvailable
from sparklog.core.replication.election import elect
from sparklog.core.replication.isr import LogEndReport, report
from sparklog.core.replication.partition import Replication
from sparklog.core.replication.reassignment import move
from sparklog.core.replication.replica_append import Acks, append, is_fully_replicated
from sparklog.core.replication.replica_invariants import check, check_step
from sparklog.core.replication.store_changes import fence, min_isr_changed, reachable_changed
from sparklog.core.types import LeaderEpoch, Offset, StoreId
from tests.core.replication.example_partition import REGISTRATIONS, ends, held, offsets, partition, roles, stores

EQUAL = {"a": 9, "b": 9, "c": 9}


def moved(value: Replication, target: str, min_isr: int = 2, usable: str = "abcdef") -> Replication:
    after = move(value, stores(*target), stores(*usable), min_isr, value.log_start)
    check(after, min_isr)
    check_step(value, after, min_isr)
    return after


def caught_up(value: Replication, store: str, log_end: int, min_isr: int = 2) -> Replication:
    of = StoreId(store)
    said = LogEndReport(of, REGISTRATIONS[of], value.leader_epoch, value.version, Offset(log_end))
    after = report(value, said, REGISTRATIONS, min_isr).after
    check(after, min_isr)
    check_step(value, after, min_isr)
    return after


def test_new_replicas_start_with_nothing_and_the_old_ones_stay() -> None:
    after = moved(partition(EQUAL, "abc", hw=9, start=3), "ade")
    assert (ends(after), roles(after), after.version) == ("a9 d3 e3 b9 c9", "a:abc", 8)
    assert (after.adding, after.removing) == (stores("d", "e"), stores("b", "c"))


def test_the_old_replicas_go_in_the_entry_that_brings_the_last_new_one_in_sync() -> None:
    moving = caught_up(moved(partition(EQUAL, "abc", hw=9), "ade"), "d", 9)
    assert (ends(moving), roles(moving)) == ("a9 d9 e0 b9 c9", "a:adbc")
    done = caught_up(moving, "e", 9)
    assert (ends(done), roles(done), done.adding, done.removing) == ("a9 d9 e9", "a:ade", (), ())
    assert done.leader_epoch == 0


def test_e7_a_leader_that_goes_is_followed_by_a_replica_that_lacks_nothing() -> None:
    moving = moved(partition({"a": 9, "b": 9}, "ab", hw=9), "cd")
    moving = caught_up(caught_up(moving, "c", 9), "d", 9)
    assert (roles(moving), ends(moving), moving.epochs) == ("c:cd", "c9 d9", ((0, 0), (1, 9)))


def test_e7_until_there_is_one_the_old_replicas_stay() -> None:
    """c and d are in sync, for they have what is committed; a alone has [9, 12)."""
    value = partition({"a": 12, "b": 9}, "ab", hw=9)
    moving = caught_up(caught_up(moved(value, "cd"), "c", 9), "d", 9)
    assert (ends(moving), roles(moving)) == ("c9 d9 a12 b9", "a:cdab")
    assert (roles(caught_up(moving, "d", 12)), ends(caught_up(moving, "d", 12))) == ("d:cd", "c9 d12")


def test_who_holds_a_write_but_not_what_lies_below_it_does_not_end_a_move() -> None:
    """c has what is committed, but not [10, 12): with acks=all it leaves the ISR again, and the move goes on."""
    behind = caught_up(moved(partition({"a": 12, "b": 9}, "ab", hw=9), "cb", 1), "c", 10, 1)
    assert roles(behind) == "a:cba"
    assert roles(append(behind, [held(1, "abc")], Acks.ALL, behind.leader_epoch, 1)) == "a:a"


def test_the_fence_of_the_old_leader_ends_the_move() -> None:
    """c was in sync, but a led with more than it had; now c leads, and nothing keeps the replica on a."""
    value = partition({"c": 9, "a": 12}, "ca", hw=9, adding="c", removing="a")
    change = fence(value, StoreId("a"), stores("c"), 1)
    assert (roles(change.after), ends(change.after), change.after.removing) == ("c:c", "c12", ())
    assert (change.forgotten, change.after.leader_epoch) == (offsets(9, 12), 1)


def test_an_election_by_hand_ends_a_move_like_any_other() -> None:
    value = partition({"c": 9, "a": 12}, "ca", hw=9, adding="c", removing="a")
    change = elect(value, stores("c"), 1)
    assert (roles(change.after), ends(change.after), change.after.removing) == ("c:c", "c12", ())
    assert (change.forgotten, change.after.leader_epoch) == (offsets(9, 12), 1)


def test_no_silent_store_follows_a_leader_that_goes() -> None:
    """c is in sync and has all, but can't be reached: d follows, or a leads on until c is back."""
    both = partition({"c": 9, "d": 0, "a": 9}, "ca", hw=9, adding="cd", removing="a")
    said = LogEndReport(StoreId("d"), REGISTRATIONS[StoreId("d")], both.leader_epoch, both.version, Offset(9))
    assert roles(report(both, said, REGISTRATIONS, 1, silent=stores("c")).after) == "d:cd"
    alone = partition({"c": 9, "a": 9}, "ca", hw=9, adding="c", removing="a")
    waiting = min_isr_changed(alone, 1, silent=stores("c"))
    assert (roles(waiting), waiting.removing) == ("a:ca", stores("a"))
    assert roles(reachable_changed(waiting, stores("a", "c"), 1).after) == "c:c"
    back = partition({"c": 9, "a": 9, "b": 9}, "cab", leader="c", hw=9, adding="c")
    assert roles(move(back, stores("a", "b"), REGISTRATIONS, 1, Offset(0), silent=stores("a"))) == "b:ab"
    with pytest.raises(PreferredLeaderNotAvailable, match="that can be reached has its records up to offset 9"):
        move(back, stores("a", "b"), REGISTRATIONS, 1, Offset(0), silent=stores("a", "b"))


def test_a_write_on_all_replicas_ends_a_move_that_waited() -> None:
    """c was elected while a led on; both are in sync and have all."""
    waiting = partition({"c": 9, "a": 9}, "ca", leader="c", hw=9, adding="c", removing="a")
    assert not is_fully_replicated(waiting)
    after = append(waiting, [held(1, "ca")], Acks.ALL, LeaderEpoch(0), 1)
    assert (roles(after), after.removing) == ("c:c", ())


def test_a_write_that_could_end_a_move_elects_nobody() -> None:
    """Its records belong to the epoch it was begun under. c had been silent; a report or its agent ends the move."""
    waiting = partition({"c": 9, "a": 9}, "ca", hw=9, adding="c", removing="a")
    after = append(waiting, [held(1, "ca")], Acks.ALL, LeaderEpoch(0), 1)
    assert (roles(after), after.epochs) == ("a:ca", ((0, 0),))
    assert roles(reachable_changed(after, stores("a", "c"), 1).after) == "c:c"


def test_a_move_is_not_done_below_min_isr() -> None:
    """b lags and is out of the ISR: with a gone, c alone would be in sync."""
    value = partition({"a": 9, "b": 4}, "a", hw=4, elr="")
    moving = caught_up(moved(value, "cb"), "c", 9)
    assert (roles(moving), moving.replicas) == ("a:ca", stores("c", "b", "a"))
    assert caught_up(moving, "b", 9).replicas == stores("c", "b")


def test_a_smaller_replication_factor_is_done_at_once() -> None:
    after = moved(partition(EQUAL, "abc", hw=9), "ab")
    assert (ends(after), roles(after), after.version) == ("a9 b9", "a:ab", 8)


def test_another_order_is_another_preferred_leader_and_no_more() -> None:
    after = moved(partition({"a": 9, "b": 8, "c": 7}, "abc", hw=7), "cba")
    assert (ends(after), roles(after), after.leader_epoch) == ("c7 b8 a9", "a:cba", 0)


def test_a_move_is_cancelled_by_a_move_back() -> None:
    value = partition(EQUAL, "abc", hw=9)
    moving = caught_up(moved(value, "ade"), "d", 9)
    back = moved(moving, "abc")
    assert (ends(back), roles(back), back.adding, back.removing) == ("a9 b9 c9", "a:abc", (), ())


def test_a_move_replaces_the_one_under_way_and_keeps_what_was_copied() -> None:
    moving = caught_up(moved(partition(EQUAL, "abc", hw=9), "ade"), "d", 6)
    again = moved(moving, "adf")
    assert (ends(again), again.adding, again.removing) == ("a9 d6 f0 b9 c9", stores("d", "f"), stores("b", "c"))


def test_a_move_back_does_not_leave_too_few_in_sync() -> None:
    """b fell out while d came in: without d, a would be alone with records that were acknowledged on two."""
    value = partition({"a": 9, "d": 9, "e": 0, "b": 4}, "ad", hw=9, adding="de", removing="b")
    with pytest.raises(NotEnoughReplicas, match=r"only \['a'\] would stay"):
        moved(value, "ab")


def test_a_move_does_not_drop_the_only_replica_that_may_lead() -> None:
    """d came by the move, and alone has what is committed; nobody leads while it is away."""
    value = partition({"d": 9, "e": 0, "b": 5, "a": 5}, "", leader=None, hw=9, elr="d", adding="de", removing="a")
    with pytest.raises(InvalidReplicaAssignment, match=r"only \['d'\] may lead without a loss"):
        moved(value, "ab")
    assert roles(moved(value, "dab")) == "-:+d"


def test_a_move_may_drop_an_eligible_replica_where_another_lacks_nothing_committed() -> None:
    value = partition({"d": 9, "e": 0, "b": 9, "a": 5}, "", leader=None, hw=9, elr="d", adding="de", removing="a")
    assert roles(moved(value, "ab")) == "-:"
    alone = partition({"d": 9, "e": 0, "b": 5, "a": 5}, "", leader=None, hw=9, adding="de", removing="a")
    with pytest.raises(InvalidReplicaAssignment, match=r"only \['d'\] may lead without a loss"):
        moved(alone, "ab")


def test_a_leader_that_goes_with_a_move_back_leaves_a_successor_or_the_move_back_is_refused() -> None:
    value = partition({"d": 9, "e": 0, "a": 9, "b": 9}, "dab", leader="d", hw=9, adding="de", removing="ab")
    assert roles(moved(value, "ab")) == "a:ab"
    behind = partition({"d": 9, "e": 0, "a": 8, "b": 8}, "dab", leader="d", hw=8, adding="de", removing="ab")
    with pytest.raises(PreferredLeaderNotAvailable, match="the move removes the leader"):
        moved(behind, "ab")


@pytest.mark.parametrize(("target", "usable"), [("", "abcd"), ("aa", "abcd"), ("ad", "abc"), ("az", "abcd")])
def test_a_move_needs_different_stores_that_are_registered_and_not_fenced(target: str, usable: str) -> None:
    with pytest.raises(InvalidReplicaAssignment):
        moved(partition(EQUAL, "abc", hw=9), target, usable=usable)


def test_a_fenced_store_may_stay() -> None:
    assert moved(partition(EQUAL, "ab", hw=9), "acd", usable="abd").adding == stores("d")


def test_an_offline_partition_waits_for_a_leader_with_its_move() -> None:
    value = partition({"a": 9, "b": 9}, "", leader=None, hw=9, elr="ab")
    assert moved(value, "ab").replicas == stores("a", "b")
    silent = partition(EQUAL, "bc", leader=None, hw=9)  # b and c are in sync, and nobody hears of them
    assert moved(silent, "bc").removing == stores("a")
