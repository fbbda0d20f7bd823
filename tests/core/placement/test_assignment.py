"""Assignment: replicas are spread over zones, and evenly over stores."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.errors import InvalidReplicationFactor
from sparklog.core.placement.assignment import Assignment, Home, assign, moved_off
from sparklog.core.types import StoreId
from tests.core.replication.example_partition import stores

A, B, C, D = stores("a", "b", "c", "d")
PLAIN = [Home(each) for each in (A, B, C)]


def homes_in(*zones: int) -> list[Home]:
    """Zones of so many stores: z0 with s00, s01, …, z1 with s10, …"""
    return [
        Home(StoreId(f"s{zone}{number}"), f"z{zone}") for zone, count in enumerate(zones) for number in range(count)
    ]


SAME_SIZE = st.builds(lambda zones, count: homes_in(*[count] * zones), st.integers(1, 4), st.integers(1, 4))
ANY_SIZE = st.builds(lambda zones: homes_in(*zones), st.lists(st.integers(1, 4), min_size=1, max_size=4))


@st.composite
def wanted(draw: st.DrawFn, zones: st.SearchStrategy[list[Home]]) -> tuple[list[Home], int, int, int]:
    """Stores, partitions, replication factor, first."""
    homes = draw(zones)
    return homes, draw(st.integers(1, 60)), draw(st.integers(1, len(homes))), draw(st.integers(0, 100))


def uses(homes: list[Home], stores_used: list[StoreId]) -> dict[StoreId, int]:
    counts = Counter(stores_used)
    return {home.store: counts[home.store] for home in homes}


def spread(counts: list[int]) -> int:
    return max(counts) - min(counts)


def replicas_of(assignment: Assignment) -> list[StoreId]:
    return [store for replicas in assignment for store in replicas]


@given(wanted(ANY_SIZE))
def test_replicas_are_on_different_stores_and_zones_and_leaders_even(
    asked: tuple[list[Home], int, int, int],
) -> None:
    homes, _, factor, _ = asked
    found = assign(*asked)
    zone_of = {home.store: home.zone for home in homes}
    for replicas in found:
        assert len(set(replicas)) == len(replicas) == factor
        assert len({zone_of[store] for store in replicas}) == min(factor, len(set(zone_of.values())))
    assert spread(list(uses(homes, [replicas[0] for replicas in found]).values())) <= 1
    counts = uses(homes, replicas_of(found))
    for zone in set(zone_of.values()):
        assert spread([count for store, count in counts.items() if zone_of[store] == zone]) <= 2


@given(wanted(SAME_SIZE))
def test_in_zones_of_one_size_each_store_has_about_as_many_replicas(asked: tuple[list[Home], int, int, int]) -> None:
    assert spread(list(uses(asked[0], replicas_of(assign(*asked))).values())) <= 2


@given(wanted(ANY_SIZE), st.data())
def test_partitions_added_later_are_where_they_would_have_been_from_the_start(
    asked: tuple[list[Home], int, int, int], data: st.DataObject
) -> None:
    homes, partitions, factor, first = asked
    before = data.draw(st.integers(0, partitions))
    existing = assign(homes, before, factor, first)
    assert existing + assign(homes, partitions - before, factor, first, existing) == assign(*asked)


@pytest.mark.parametrize("first", [0, 1, 7])
def test_leaders_go_round(first: int) -> None:
    found = assign(PLAIN, 6, 2, first)
    assert sorted(each[0] for each in found) == [A, A, B, B, C, C]
    assert assign(PLAIN, 3, 2, 0) == ((A, B), (B, C), (C, A))


def test_the_next_round_gives_the_followers_of_a_leader_to_other_stores() -> None:
    assert assign(PLAIN, 6, 2, 0)[3:] == ((A, C), (B, A), (C, B))


def test_a_store_that_joined_later_gets_the_new_leaders() -> None:
    existing = assign(PLAIN[:2], 4, 1, 0)
    assert assign(PLAIN, 2, 1, 0, existing) == ((C,), (C,))


def test_a_silent_store_gets_replicas_only_if_the_others_are_too_few() -> None:
    homes = [Home(A, silent=True), Home(B), Home(C)]
    assert A not in replicas_of(assign(homes, 6, 2, 0))
    assert {replicas[2] for replicas in assign(homes, 6, 3, 0)} == {A}


# ---- moves off a store ------------------------------------------------------------------------------


def test_another_store_takes_the_place_of_the_one_that_is_left_and_its_zone() -> None:
    homes = [Home(A, "x"), Home(B, "y"), Home(C, "y"), Home(D, "x")]
    assert moved_off(A, [(A, B), (C, A)], homes, {}) == ((D, B), (C, D))


def test_the_replicas_that_move_off_are_spread_by_load() -> None:
    homes = [Home(each) for each in (A, B, C, D)]
    assert moved_off(A, [(A,), (A,), (A,)], homes, {B: 5, C: 5, D: 4}) == ((D,), (B,), (C,))


def test_no_move_leaves_a_partition_with_fewer_replicas() -> None:
    with pytest.raises(InvalidReplicationFactor, match="a, b, c need 3 stores; without a there are b, c"):
        moved_off(A, [(A, B, C)], PLAIN, {})
