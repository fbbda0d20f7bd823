"""Who leads after an election, and what the log forgets (rules E1 to E4, E7, E8)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import pytest

from sparklog.core.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    IneligibleReplica,
    NotEnoughReplicas,
    PreferredLeaderNotAvailable,
)
from sparklog.core.replication.election import elect, elect_store, led_by, take_over
from sparklog.core.replication.partition import Replication, ReplicationChange
from sparklog.core.replication.replica_append import Acks, append
from sparklog.core.replication.replica_invariants import broken, check, check_step
from sparklog.core.replication.store_changes import fence, lose, reachable_changed
from sparklog.core.types import Offset, StoreId
from tests.core.replication.example_partition import ends, held, offsets, partition, roles, stores

A, B, C, D = stores(*"abcd")


def elected(value: Replication, reachable: str, min_isr: int = 2, *, unclean: bool = False) -> ReplicationChange:
    change = elect(value, stores(*reachable), min_isr, unclean=unclean)
    check_step(value, change.after, min_isr)
    return change


def test_e1_the_first_reachable_in_sync_replica_leads() -> None:
    value = partition({"a": 5, "b": 5, "c": 5, "d": 5}, "acd", hw=5)
    assert roles(elected(value, "bcd").after) == "c:acd"
    assert roles(elected(value, "bd").after) == "d:acd"


def test_e1_then_an_eligible_one() -> None:
    value = partition({"a": 9, "b": 5, "c": 5}, "", leader=None, hw=5, elr="ab")
    assert roles(elected(value, "bc").after) == "b:b+a"


def test_e1_then_any_replica_that_lacks_nothing_committed() -> None:
    """c was away for long and is in neither: the chain knows all the same that it has everything below HW."""
    value = partition({"a": 9, "b": 4, "c": 6}, "", leader=None, hw=5, elr="a")
    change = elected(value, "bc")
    assert (roles(change.after), change.forgotten, change.after.lost) == ("c:c+a", offsets(6, 9), ())


def test_e1_in_sync_and_eligible_replicas_come_before_the_others() -> None:
    assert roles(elected(partition({"c": 9, "a": 9, "b": 9}, "ab", leader="a", hw=9), "bc").after) == "b:ab"
    assert roles(elected(partition({"c": 9, "a": 9, "b": 9}, "", leader=None, hw=9, elr="b"), "bc").after) == "b:b"


def test_e1_a_replica_in_neither_that_lacks_a_committed_record_is_not_elected() -> None:
    value = partition({"a": 9, "b": 5, "c": 4}, "", leader=None, hw=5, elr="ab")
    with pytest.raises(EligibleLeadersNotAvailable, match=r"'b': 5, 'c': 4\}, of them \['c'\] can be reached"):
        elected(value, "c")


@pytest.mark.parametrize(("isr", "elr"), [("ab", ""), ("", "ab")])
def test_e1_no_clean_election_below_hw_whatever_the_isr_and_the_elr_say(isr: str, elr: str) -> None:
    """No such value comes of the transitions: the check stands beside the rules that exclude it."""
    broken = partition({"a": 9, "b": 4}, isr, leader=None, hw=5, elr=elr)
    with pytest.raises(EligibleLeadersNotAvailable):
        elected(broken, "b")


def test_e1_an_unclean_election_takes_the_longest_log_and_is_alone_in_sync() -> None:
    value = partition({"a": 9, "b": 2, "c": 4, "d": 3}, "a", hw=8, elr="", epochs=((0, 0), (1, 1)))
    change = elected(value, "bcd", unclean=True)
    assert (roles(change.after), ends(change.after)) == ("c:c", "a9 b2 c9 d3")
    assert change.forgotten == offsets(4, 9)
    assert change.after.lost == (offsets(4, 8),)
    check(change.after, 2)


def test_e1_an_unclean_election_is_not_made_while_a_clean_one_can_be() -> None:
    value = partition({"a": 9, "b": 5, "c": 9}, "ab", hw=5)
    change = elected(value, "bc", unclean=True)
    assert (roles(change.after), change.after.lost) == ("b:ab", ())


def test_e1_without_anybody_to_elect_the_partition_stays_as_it_is() -> None:
    for unclean in (False, True):
        with pytest.raises(EligibleLeadersNotAvailable):
            elected(partition({"a": 9, "b": 5}, "ab", hw=5), "", unclean=unclean)


def test_no_election_is_needed_while_the_leader_can_be_reached() -> None:
    with pytest.raises(ElectionNotNeeded):
        elected(partition({"a": 9, "b": 5}, "ab", hw=5), "ab", unclean=True)


def test_e3_the_new_leader_opens_its_epoch_at_the_next_offset_even_if_it_has_less() -> None:
    value = partition({"a": 9, "b": 6, "c": 7}, "abc", hw=6, epochs=((0, 0), (2, 3)))
    assert elected(value, "bc").after.epochs == ((0, 0), (2, 3), (3, 9))


def test_e4_what_the_new_leader_lacks_is_forgotten_and_its_offsets_are_never_used_again() -> None:
    value = partition({"a": 9, "b": 6, "c": 7}, "abc", hw=6)
    change = elected(value, "bc")
    assert change.forgotten == offsets(6, 9)
    assert change.after.next_offset == 9
    written = append(change.after, [held(1, "abc")], Acks.ALL, change.after.leader_epoch, 2)
    assert written.next_offset == 10


def test_e4_who_had_as_much_as_the_new_leader_is_as_far_as_it_is() -> None:
    """c had [6, 7), which is forgotten; d lacks [5, 6), which is not."""
    value = partition({"a": 9, "b": 6, "c": 7, "d": 5}, "abcd", hw=5)
    change = elected(value, "bcd")
    assert (ends(change.after), change.after.high_watermark) == ("a9 b9 c9 d5", 5)
    assert change.after.version == value.version + 1


def test_nothing_is_forgotten_where_the_new_leader_lacks_nothing() -> None:
    value = partition({"a": 9, "b": 9, "c": 7}, "abc", hw=7)
    change = elected(value, "bc")
    assert (change.forgotten, change.after.version) == (None, 7)


# M: L-07
def test_e6_epochs_of_which_nothing_is_left_go_from_the_history() -> None:
    value = partition({"a": 9, "b": 6}, "ab", hw=6, epochs=((0, 0), (1, 4), (2, 6), (5, 8)))
    assert elected(value, "b").after.epochs == ((0, 0), (1, 4), (6, 9))


@pytest.mark.parametrize(
    ("before", "log_end", "after"),
    [
        ((), 4, ((4, 8),)),
        (((1, 2),), 4, ((1, 2), (4, 8))),
        (((1, 4),), 4, ((1, 8),)),
        (((1, 6),), 4, ((1, 8),)),
        (((5, 6), (7, 8)), 4, ((4, 8),)),
        (((1, 2),), 8, ((1, 2),)),
    ],
)
def test_e1_lost_ranges_below_hw_are_noted_once(
    before: tuple[tuple[int, int], ...], log_end: int, after: tuple[tuple[int, int], ...]
) -> None:
    value = partition({"a": 9, "b": log_end}, "a", hw=8, lost=before)
    found = led_by(value, B).after.lost
    assert tuple((each.start, each.end) for each in found) == after


def test_h3_the_visible_end_stays_even_where_an_unclean_election_loses_records() -> None:
    value = partition({"a": 9, "b": 2, "c": 1}, "a", hw=8)
    assert elected(value, "b", min_isr=2, unclean=True).after.high_watermark == 8
    assert elected(value, "b", min_isr=1, unclean=True).after.high_watermark == 9


# ---- an operator's wish ---------------------------------------------------------------------------


def chosen(value: Replication, store: StoreId, reachable: str, *, unclean: bool = False) -> ReplicationChange:
    change = elect_store(value, store, stores(*reachable), 2, unclean=unclean)
    check_step(value, change.after, 2)
    return change


def test_e7_a_preferred_leader_that_has_caught_up_leads_again() -> None:
    value = partition({"a": 9, "b": 9, "c": 7}, "abc", hw=7, leader="b")
    change = chosen(value, A, "abc")
    assert (roles(change.after), change.forgotten, change.after.epochs[-1]) == ("a:abc", None, (1, 9))


@pytest.mark.parametrize(("log_end", "isr"), [(8, "abc"), (9, "bc")])
@pytest.mark.parametrize("unclean", [False, True])
def test_e7_while_the_leader_lives_nobody_with_less_follows_it(log_end: int, isr: str, unclean: bool) -> None:
    value = partition({"a": log_end, "b": 9, "c": 7}, isr, hw=7, leader="b")
    with pytest.raises(PreferredLeaderNotAvailable, match="store b leads and can be reached"):
        chosen(value, A, "abc", unclean=unclean)


def test_a_chosen_store_leads_where_the_leader_is_gone() -> None:
    value = partition({"a": 9, "b": 9, "c": 7}, "abc", hw=7)
    change = chosen(value, C, "bc")
    assert (roles(change.after), change.forgotten) == ("c:abc", offsets(7, 9))


def test_a_chosen_store_that_is_not_eligible_leads_only_by_an_unclean_election() -> None:
    value = partition({"a": 9, "b": 9, "c": 5}, "ab", hw=9)
    with pytest.raises(EligibleLeadersNotAvailable, match="ends at offset 5, below the high watermark 9: only an"):
        chosen(value, C, "c")
    change = chosen(value, C, "c", unclean=True)
    assert (roles(change.after), change.after.lost) == ("c:c", (offsets(5, 9),))


@pytest.mark.parametrize(
    ("store", "reachable", "error"),
    [(D, "abcd", IneligibleReplica), (A, "abc", ElectionNotNeeded), (B, "ac", PreferredLeaderNotAvailable)],
)
def test_a_wish_that_can_not_be_met_names_why(store: StoreId, reachable: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        chosen(partition({"a": 9, "b": 9, "c": 9}, "abc", hw=9), store, reachable, unclean=True)


# ---- embedded -------------------------------------------------------------------------------------


def test_e8_a_holder_that_lacks_nothing_takes_over_in_the_entry_of_a_write() -> None:
    value = partition({"a": 9, "b": 7, "c": 9}, "abc", hw=7)
    taken = take_over(value, stores(*"bc"), 1)
    assert (roles(taken), taken.leader_epoch) == ("c:abc", 1)
    written = append(taken, [held(1, "bc")], Acks.ALL, taken.leader_epoch, 1)
    assert (roles(written), ends(written)) == ("c:c", "a9 b7 c10")
    check_step(value, written, 1)


@pytest.mark.parametrize(("isr", "holders"), [("abc", "b"), ("ab", "bc"), ("abc", "d"), ("abc", "a")])
def test_e8_nobody_takes_over_if_something_would_be_forgotten(isr: str, holders: str) -> None:
    with pytest.raises(NotEnoughReplicas, match="only an operator may elect"):
        take_over(partition({"a": 9, "b": 7, "c": 9}, isr, hw=7), stores(*holders), 1)


def subsets(of: str) -> list[str]:
    return ["".join(chosen) for size in range(len(of) + 1) for chosen in combinations(of, size)]


def moves_under_way() -> Iterator[Replication]:
    """Each small partition that moves: c is new, or c and b, and a goes, or b and a."""
    for (adding, removing), log_ends in product((("c", "a"), ("c", "ba"), ("cb", "a")), product((1, 2), repeat=3)):
        for isr, elr, hw, leader in product(subsets("cba"), subsets("cba"), (1, 2), (None, *"cba")):
            ends_of = dict(zip("cba", log_ends, strict=True))
            yield partition(ends_of, isr, leader=leader, hw=hw, elr=elr, adding=adding, removing=removing)


def test_a_change_has_one_election_at_most_also_if_it_ends_a_move() -> None:
    """A replica that goes is elected only where none that stays can follow it in the same entry."""
    ended = went = 0
    for value, min_isr in product(moves_under_way(), (1, 2)):
        if any(broken(value, min_isr)):
            continue
        afters: set[Replication] = set()
        for reachable, unclean in product(subsets("cba"), (False, True)):
            others = stores(*reachable)
            changes = [reachable_changed(value, others, min_isr, unclean=unclean)]
            for store in value.replicas:
                changes.append(fence(value, store, others, min_isr, unclean=unclean))
                changes.append(lose(value, store, Offset(1), others, min_isr, unclean=unclean))
            afters.update(change.after for change in changes)
        for after in afters:  # few, though there are many changes
            check(after, min_isr)
            check_step(value, after, min_isr)
            if after.leader_epoch > value.leader_epoch:
                ended += not after.removing
                went += after.leader in after.removing
    assert ended
    assert went
