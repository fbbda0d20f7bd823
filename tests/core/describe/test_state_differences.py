"""Two states say the same, or the parts are named in which they differ: compared with a slow twin."""

from __future__ import annotations

from typing import Any

import pytest

from sparklog.core.describe.state_differences import differing_parts
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber
from tests.chain.chain_kit import Member, member, new_chain
from tests.core.state_contents import contents


@pytest.fixture(scope="module")
def states() -> list[ClusterState]:
    """After each of some entries."""
    chain = new_chain()
    found = [chain.follower.catch_up().state]
    for at in range(4):
        chain.append(1 + at, partition=at % 2)
        found.append(chain.follower.catch_up().state)
    return found


def differing_by_contents(one: ClusterState, other: ClusterState) -> set[str]:
    first, second = contents(one), contents(other)
    return {name for name in first if first[name] != second[name]}


def test_states_of_other_entries_differ_where_their_contents_do(states: list[ClusterState]) -> None:
    for one in states:
        for other in states:
            assert set(differing_parts(one, other)) == differing_by_contents(one, other)


def test_how_tables_are_cut_into_blocks_does_not_count(states: list[ClusterState]) -> None:
    state = states[-1]
    sealed = state.fork()
    for table in (sealed.slices, sealed.objects, sealed.results, sealed.retired):
        table.seal()
    assert differing_parts(state, sealed) == []
    assert differing_parts(sealed, state) == []


def test_a_snapshot_holds_the_state_that_it_was_taken_of() -> None:
    chain = new_chain()
    for at in range(20):
        chain.append(partition=at % 2)
    before = chain.follower.catch_up().state
    chain.committer.snapshots.write()
    again: Member = member(chain.store.inner)
    assert differing_parts(before, again.follower.state) == []


@pytest.mark.parametrize(
    ("part", "value"), [("next_topic_id", 99), ("chain_id", "d" * 32), ("config", {"a": "b"}), ("time_ms", 1)]
)
def test_one_changed_field_is_named(states: list[ClusterState], part: str, value: Any) -> None:
    other = states[-1].fork()
    setattr(other, part, value)
    assert differing_parts(states[-1], other) == [part]


def test_commands_below_floor_do_not_count(states: list[ClusterState]) -> None:
    one, other = states[-1].fork(), states[-1].fork()
    one.results.seal()
    for state in (one, other):
        state.results.drop_below(EntryNumber(3))
    assert len(one.results) == len(other.results)
    assert differing_parts(one, other) == []
