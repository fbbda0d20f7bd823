"""Who holds a slice: by LEO, else by name, and only under a registration that is still valid."""

from __future__ import annotations

from sparklog.core.replication.isr import LogEndReport, report
from sparklog.core.replication.partition import Replication
from sparklog.core.replication.reassignment import move
from sparklog.core.replication.slice_holders import stores_holding
from sparklog.core.types import Holder, LeaderEpoch, Offset, StoreId
from tests.core.replication.example_partition import REGISTRATIONS, partition, stores

VALUE = partition({"a": 9, "b": 5, "c": 9, "d": 7}, "cd", leader="c", hw=7)


def holding(end: int, named: str = "", value: Replication = VALUE, **preferences: str) -> str:
    holders = [Holder(store, REGISTRATIONS[store]) for store in stores(*named)]
    chosen = {name: stores(*value) for name, value in preferences.items()}
    return "".join(stores_holding(Offset(end), holders, value, REGISTRATIONS, **chosen))


def test_a_replica_holds_what_lies_below_its_leo_whoever_put_it_there() -> None:
    assert [holding(end) for end in (5, 6, 7, 8, 9)] == ["cdab", "cda", "cda", "ca", "ca"]


def test_above_its_leo_it_holds_what_names_it() -> None:
    assert holding(9, "bd") == "cdab"


def test_a_name_under_another_registration_counts_for_nothing() -> None:
    named = [Holder(StoreId("b"), REGISTRATIONS[StoreId("b")] + 1)]
    assert "b" not in stores_holding(Offset(9), named, VALUE, REGISTRATIONS)


def test_a_store_that_is_not_registered_holds_nothing() -> None:
    registrations = {store: number for store, number in REGISTRATIONS.items() if store != "a"}
    assert stores_holding(Offset(5), [], VALUE, registrations) == stores(*"cdb")


def test_a_store_whose_replica_moved_away_holds_nothing() -> None:
    assert holding(9, "abce") == "cab"


def test_what_named_a_store_before_its_replica_arrived_counts_for_nothing() -> None:
    """d had a replica before, and was named by slices up to 8; that one was deleted with all it had."""
    moving = move(partition({"a": 8, "b": 8}, "ab", hw=8), stores(*"abd"), stores(*"abd"), 1, Offset(0))
    assert [holding(8, "d", value=moving), holding(9, "d", value=moving)] == ["ab", "d"]
    caught_up = LogEndReport(StoreId("d"), REGISTRATIONS[StoreId("d")], LeaderEpoch(0), moving.version, Offset(8))
    assert holding(8, value=report(moving, caught_up, REGISTRATIONS, 1).after) == "abd"


def test_the_leader_comes_first_then_the_isr_and_dead_ones_last() -> None:
    assert holding(5) == "cdab"
    assert holding(5, unreachable="dc") == "abcd"
    assert holding(10) == ""
    other = partition({"a": 9, "b": 5, "c": 9, "d": 9}, "cd", leader="d", hw=9)
    assert holding(5, value=other) == "dcab"
