"""Reports raise LEOs (F1, F2); replicas join the ISR (I1) and leave it (I2)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sparklog.core.errors import (
    FencedLeaderEpoch,
    InvalidUpdateVersion,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    StaleBrokerEpoch,
    UnknownLeaderEpoch,
)
from sparklog.core.replication.isr import LogEndReport, drop_lagging, may_join, report
from sparklog.core.replication.partition import Replication
from sparklog.core.replication.replica_append import Acks, append
from sparklog.core.replication.replica_invariants import check_step
from sparklog.core.types import LeaderEpoch, Offset, StoreId
from tests.core.replication.example_partition import REGISTRATIONS, ends, held, partition, roles, stores

OF_C = LogEndReport(StoreId("c"), REGISTRATIONS[StoreId("c")], LeaderEpoch(0), 7, Offset(6))


def reported(value: Replication, min_isr: int = 2, silent: str = "", **changes: Any) -> Replication:
    said = msgspec.structs.replace(OF_C, **changes)
    after = report(value, said, REGISTRATIONS, min_isr, silent=stores(*silent)).after
    check_step(value, after, min_isr)
    return after


def test_f2_a_report_raises_the_leo_and_never_lowers_it() -> None:
    value = partition({"a": 9, "b": 8, "c": 5}, "ab", hw=8)
    once = reported(value)
    assert ends(once) == "a9 b8 c6"
    assert reported(once) == once  # the same one again
    assert reported(once, log_end=Offset(3)) == once  # one that is late


def test_hw_follows_the_report_of_an_in_sync_replica() -> None:
    assert reported(partition({"a": 9, "b": 8, "c": 5}, "abc", hw=5)).high_watermark == 6


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"leader_epoch": LeaderEpoch(0)}, FencedLeaderEpoch),
        ({"leader_epoch": LeaderEpoch(2)}, UnknownLeaderEpoch),
        ({"version": 6}, InvalidUpdateVersion),
        ({"registration": 1}, StaleBrokerEpoch),
        ({"log_end": Offset(10)}, OffsetOutOfRange),
        ({"store": StoreId("d"), "registration": 3}, NotLeaderOrFollower),
    ],
)
def test_f1_a_report_that_does_not_fit_is_refused(changes: dict[str, Any], error: type[Exception]) -> None:
    value = partition({"a": 9, "b": 8, "c": 5}, "ab", hw=8, epochs=((0, 0), (1, 4)))
    current: dict[str, Any] = {"leader_epoch": LeaderEpoch(1)}
    assert ends(reported(value, **current)) == "a9 b8 c6"
    with pytest.raises(error):
        reported(value, **(current | changes))


def test_f1_a_fenced_store_reports_in_vain() -> None:
    live = {store: number for store, number in REGISTRATIONS.items() if store != "c"}
    with pytest.raises(StaleBrokerEpoch):
        report(partition({"a": 9, "b": 8, "c": 5}, "ab", hw=8), OF_C, live, 2)


@pytest.mark.parametrize(("log_end", "found"), [(7, "a:ab"), (8, "a:abc"), (9, "a:abc")])
def test_i1_a_replica_joins_the_isr_once_it_has_what_is_committed(log_end: int, found: str) -> None:
    after = reported(partition({"a": 9, "b": 8, "c": 5}, "ab", hw=8), log_end=Offset(log_end))
    assert roles(after) == found
    assert after.version == (8 if "c" in found else 7)


def test_i1_it_also_needs_all_that_was_written_before_this_leader() -> None:
    """HW stayed at 5 below min ISR, and the leader opened its epoch at 8: [5, 8) is its own, not yet committed."""
    value = partition({"a": 9, "c": 5}, "a", hw=5, epochs=((0, 0), (1, 8)))
    assert roles(reported(value, leader_epoch=LeaderEpoch(1), log_end=Offset(7))) == "a:a"
    assert roles(reported(value, leader_epoch=LeaderEpoch(1), log_end=Offset(8))) == "a:ac"


def test_i1_a_replica_that_is_being_removed_joins_again_until_it_is_gone() -> None:
    """c was away for a moment during a long move: without it, acks=all would wait until d has caught up."""
    value = partition({"d": 0, "a": 9, "c": 8}, "a", hw=8, elr="c", adding="d", removing="ac")
    after = reported(value, log_end=Offset(9))
    assert (roles(after), after.high_watermark, after.removing) == ("a:ac", 9, stores(*"ac"))
    assert append(after, [held(1, "ac")], Acks.ALL, after.leader_epoch, 2).high_watermark == 10


def test_nobody_joins_while_nobody_leads() -> None:
    value = partition({"a": 9, "b": 8, "c": 5}, "", leader=None, hw=8, elr="ab")
    assert not may_join(value, StoreId("b"))
    after = reported(value, silent="ab", log_end=Offset(7))
    assert (ends(after), roles(after)) == ("a9 b8 c7", "-:+ab")


def test_e1_a_report_for_a_partition_without_a_leader_looks_for_one() -> None:
    """Whoever may lead: of those in sync and eligible the first, and if they can't be reached the one that reports."""
    value = partition({"a": 9, "b": 8, "c": 5}, "", leader=None, hw=8, elr="ab")
    assert roles(reported(value, silent="ab", log_end=Offset(8))) == "c:c+ab"
    assert roles(reported(value, silent="a", log_end=Offset(6))) == "b:b+a"
    assert roles(reported(value, silent="abc", log_end=Offset(9))) == "-:+ab"
    assert ends(reported(value, silent="abc", log_end=Offset(9))) == "a9 b8 c9"


def test_e1_a_report_makes_no_election_while_a_silent_leader_is_in_sync() -> None:
    value = partition({"a": 9, "b": 8, "c": 5}, "a", hw=8)
    assert roles(reported(value, silent="a", log_end=Offset(9))) == "a:ac"


def test_hw_moves_again_once_enough_are_in_sync() -> None:
    after = reported(partition({"a": 9, "b": 5, "c": 5}, "a", hw=5, elr="b"), log_end=Offset(7))
    assert (roles(after), after.high_watermark) == ("a:ac", 7)


def dropped(value: Replication, lagging: str, min_isr: int = 1, epoch: int = 0, version: int = 7) -> Replication:
    return drop_lagging(value, stores(*lagging), LeaderEpoch(epoch), version, min_isr)


def test_i2_a_replica_that_lags_leaves_the_isr_and_hw_goes_on_without_it() -> None:
    after = dropped(partition({"a": 9, "b": 5, "c": 7}, "abc", hw=5), "b")
    assert (roles(after), after.high_watermark, after.version) == ("a:ac", 7, 8)


def test_i2_a_replica_that_has_all_the_leader_has_is_never_dropped() -> None:
    value = partition({"a": 9, "b": 9, "c": 7}, "abc", hw=7)
    assert roles(dropped(value, "bc")) == "a:ab"
    assert dropped(value, "b") == value


def test_i2_the_leader_is_never_dropped() -> None:
    behind = partition({"a": 5, "b": 5}, "ab", hw=5, end=6)  # no leader lacks anything: built by hand
    assert roles(dropped(behind, "ab")) == "a:a"


def test_i2_what_was_planned_on_another_version_is_refused() -> None:
    value = partition({"a": 9, "b": 5, "c": 7}, "abc", hw=5)
    with pytest.raises(InvalidUpdateVersion):
        dropped(value, "b", version=6)
    with pytest.raises(UnknownLeaderEpoch):
        dropped(value, "b", epoch=1)


def test_e2_who_lags_below_min_isr_stays_eligible_and_hw_stays() -> None:
    after = dropped(partition({"a": 9, "b": 5, "c": 7}, "abc", hw=5), "bc", min_isr=2)
    assert (roles(after), after.high_watermark) == ("a:a+bc", 5)
