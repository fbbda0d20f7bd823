"""What follows from every change of a partition: HW (H1), ELR (E2) and version."""

from __future__ import annotations

import msgspec
import pytest

from sparklog.core.errors import FencedLeaderEpoch, InvalidUpdateVersion, NotLeaderOrFollower, UnknownLeaderEpoch
from sparklog.core.replication.partition import Replication, check_view, created, settled
from sparklog.core.replication.replica_invariants import check
from sparklog.core.types import LeaderEpoch, StoreId
from tests.core.replication.example_partition import partition, roles, stores

THREE = {"a": 9, "b": 5, "c": 7}


def with_isr(value: Replication, isr: str, min_isr: int, ineligible: str = "") -> Replication:
    changed = msgspec.structs.replace(value, isr=stores(*isr))
    return settled(value, changed, min_isr, ineligible=stores(*ineligible))


def test_a_new_partition_is_led_by_its_first_replica_with_all_in_sync() -> None:
    value = created(stores("b", "a", "c"))
    assert roles(value) == "b:bac"
    check(value, 3)


# M: L-02
@pytest.mark.parametrize(("isr", "hw"), [("abc", 5), ("ac", 7), ("a", 9)])
def test_h1_hw_is_the_smallest_leo_in_the_isr(isr: str, hw: int) -> None:
    assert with_isr(partition(THREE, "abc", hw=5), isr, 1).high_watermark == hw


@pytest.mark.parametrize(("min_isr", "hw"), [(1, 9), (2, 5), (3, 5)])
def test_h1_hw_stays_while_the_isr_is_smaller_than_min_isr(min_isr: int, hw: int) -> None:
    assert with_isr(partition(THREE, "abc", hw=5), "a", min_isr).high_watermark == hw


def test_h1_min_isr_is_at_most_the_replication_factor() -> None:
    assert with_isr(partition({"a": 9, "b": 5}, "ab", hw=5), "ab", 3).high_watermark == 5
    assert partition({"a": 9, "b": 5}, "ab", hw=5).required_isr(3) == 2


def test_h1_replicas_that_are_being_added_do_not_raise_min_isr() -> None:
    moving = partition({"b": 0, "c": 0, "a": 9}, "a", hw=9, adding="bc", removing="a")
    assert moving.required_isr(2) == 1


@pytest.mark.parametrize(
    ("isr", "min_isr", "found"),
    [("ab", 2, "a:ab"), ("a", 2, "a:a+bc"), ("", 2, "a:+abc"), ("ab", 3, "a:ab+c"), ("", 1, "a:+abc")],
)
def test_e2_who_leaves_the_isr_below_min_isr_stays_eligible(isr: str, min_isr: int, found: str) -> None:
    assert roles(with_isr(partition(THREE, "abc", hw=5), isr, min_isr)) == found


def test_e2_eligible_replicas_stay_so_until_enough_are_in_sync() -> None:
    value = partition({"a": 9, "b": 5, "c": 5, "d": 9}, "a", hw=5, elr="b")
    assert roles(with_isr(value, "ad", 3)) == "a:ad+b"
    assert roles(with_isr(value, "ad", 2)) == "a:ad"


def test_e2_who_may_have_lost_records_is_not_eligible() -> None:
    assert roles(with_isr(partition(THREE, "abc", hw=5), "a", 2, ineligible="b")) == "a:a+c"


def test_the_version_rises_with_the_isr_and_the_replicas_and_by_nothing_else() -> None:
    value = partition(THREE, "abc", hw=5)
    assert settled(value, msgspec.structs.replace(value, log_ends=value.log_ends), 2).version == 7
    assert with_isr(value, "cab", 2).version == 7  # the same stores
    assert with_isr(value, "ab", 2).version == 8
    assert settled(value, msgspec.structs.replace(value, removing=stores("c")), 2).version == 8
    assert settled(value, value, 2, rewritten=True).version == 8


@pytest.mark.parametrize(
    ("epoch", "version", "error"),
    [(1, 7, FencedLeaderEpoch), (3, 7, UnknownLeaderEpoch), (2, 6, InvalidUpdateVersion), (2, 8, InvalidUpdateVersion)],
)
def test_f1_what_was_planned_on_another_epoch_or_version_is_refused(
    epoch: int, version: int, error: type[Exception]
) -> None:
    value = partition(THREE, "abc", hw=5, epochs=((0, 0), (2, 3)))
    check_view(value, LeaderEpoch(2), 7)
    with pytest.raises(error):
        check_view(value, LeaderEpoch(epoch), version)


def test_a_store_without_a_replica_has_no_leo() -> None:
    with pytest.raises(NotLeaderOrFollower, match="store d has no replica"):
        partition(THREE, "abc", hw=5).log_end(StoreId("d"))
