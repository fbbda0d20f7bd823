"""Rewrites and retention move LEOs."""

from __future__ import annotations

import re

import pytest

from sparklog.core.errors import NoReplicaOnline, NotEnoughReplicas, NotLeaderOrFollower
from sparklog.core.replication.partition import Replication
from sparklog.core.replication.replica_invariants import check, check_rewrite, check_step
from sparklog.core.replication.rewrites import move_log_start, swap
from sparklog.core.types import Offset
from tests.core.replication.example_partition import ends, offsets, partition, roles, stores


def swapped(value: Replication, start: int, end: int, holders: str, min_isr: int = 2) -> Replication:
    after = swap(value, offsets(start, end), stores(*holders), min_isr)
    check(after, min_isr)
    check_step(value, after, min_isr)
    check_rewrite(value, after, min_isr)
    return after


def test_a_replica_without_the_new_object_ends_where_it_begins() -> None:
    value = partition({"a": 9, "b": 9, "c": 8, "d": 3}, "ab", hw=9)
    after = swapped(value, 4, 6, "ab")
    assert (ends(after), roles(after), after.version) == ("a9 b9 c4 d3", "a:ab", 8)


def test_a_replica_with_the_new_object_is_at_its_end_at_least() -> None:
    value = partition({"a": 9, "b": 9, "c": 5, "d": 3}, "ab", hw=9)
    assert ends(swapped(value, 4, 6, "abcd")) == "a9 b9 c6 d3"


def test_who_lacks_it_leaves_the_isr_if_min_isr_remain() -> None:
    value = partition({"a": 9, "b": 9, "c": 9}, "abc", hw=9)
    assert (roles(swapped(value, 4, 6, "ac")), ends(swapped(value, 4, 6, "ac"))) == ("a:ac", "a9 b4 c9")
    with pytest.raises(NotEnoughReplicas, match="2 stores in sync"):
        swapped(value, 4, 6, "a")


def test_below_min_isr_an_eligible_replica_without_the_result_stops_a_rewrite() -> None:
    """Else the only store in sync could be lost next, while the eligible one had everything before the rewrite."""
    value = partition({"a": 9, "b": 9, "c": 9}, "a", hw=9, elr="bc")
    with pytest.raises(NotEnoughReplicas, match=re.escape("it is on ['a'] in sync, and not on ['b']")):
        swapped(value, 4, 6, "ac", 3)
    after = swapped(value, 4, 6, "abc", 3)
    assert (roles(after), ends(after)) == ("a:a+bc", "a9 b9 c9")


def test_below_min_isr_one_that_is_away_and_has_everything_stops_a_rewrite_too() -> None:
    """b left the ISR while a and c were enough, and c lost what it had: b is not in the ELR, and may lead (E1)."""
    value = partition({"a": 9, "b": 9, "c": 0}, "a", hw=9)
    with pytest.raises(NotEnoughReplicas, match="3 stores in sync"):
        swapped(value, 4, 6, "a", 3)
    assert ends(swapped(value, 4, 6, "ab", 3)) == "a9 b9 c0"


def test_below_min_isr_one_that_lacks_committed_records_stops_no_rewrite() -> None:
    value = partition({"a": 9, "b": 8, "c": 0}, "a", hw=9)
    assert (roles(swapped(value, 4, 6, "a")), ends(swapped(value, 4, 6, "a"))) == ("a:a", "a9 b4 c0")


def test_with_min_isr_in_sync_nobody_else_is_needed() -> None:
    """A store that is away does not stop maintenance then, though it has everything: it fetches when it is back."""
    value = partition({"a": 9, "b": 9, "c": 9}, "ab", hw=9)
    assert (roles(swapped(value, 4, 6, "ab")), ends(swapped(value, 4, 6, "ab"))) == ("a:ab", "a9 b9 c4")


def test_the_leaders_store_must_hold_it() -> None:
    with pytest.raises(NotLeaderOrFollower):
        swapped(partition({"a": 9, "b": 9, "c": 9}, "abc", hw=9), 4, 6, "bc")
    with pytest.raises(NoReplicaOnline):
        swapped(partition({"a": 9, "b": 9}, "", leader=None, hw=9, elr="ab"), 4, 6, "ab")


def test_e6_retention_trims_the_history_and_nobody_lacks_what_is_gone() -> None:
    value = partition({"a": 9, "b": 9, "c": 2}, "ab", hw=9, epochs=((0, 0), (1, 3), (2, 7)), lost=((2, 4), (5, 8)))
    after = move_log_start(value, Offset(6))
    assert (ends(after), after.epochs, after.log_start) == ("a9 b9 c6", ((1, 6), (2, 7)), 6)
    assert after.lost == (offsets(6, 8),)
    check(after, 2)
    check_step(value, after, 2)


def test_retention_goes_on_below_min_isr_and_leaves_an_eligible_replica_so() -> None:
    value = partition({"a": 9, "b": 9, "c": 2}, "a", hw=9, elr="b")
    after = move_log_start(value, Offset(6))
    assert (roles(after), ends(after)) == ("a:a+b", "a9 b9 c6")
    check(after, 2)


def test_retention_leaves_the_version_so_reports_under_way_still_count() -> None:
    assert move_log_start(partition({"a": 9, "b": 2}, "a", hw=9), Offset(5)).version == 7
