"""Catching up from a head with the next entry already found: what that entry is worth after a snapshot was loaded."""

from __future__ import annotations

from sparklog.chain.chain_requests import GetMany, LoadSnapshot
from sparklog.chain.follow.catch_up import caught_up
from sparklog.chain.head import Head
from sparklog.core.errors import InconsistentClusterId
from sparklog.core.state import ClusterState
from sparklog.storage.keys import entry_key
from tests.chain.driven import Driven


def test_an_entry_that_was_found_does_not_count_behind_a_snapshot() -> None:
    """A process that had read nothing lost slot 0, and there is a snapshot by now: entry 0 is not the one behind it."""
    machine = Driven(caught_up(Head(), "memory://x", next_body=b"entry 0"))
    assert isinstance(machine.start(), LoadSnapshot)
    request = machine.reply(Head(ClusterState(n=5, chain_id="c" * 32), "f" * 64))
    assert isinstance(request, GetMany)
    assert list(request.keys) == [entry_key(6)]


def test_the_snapshot_of_another_cluster_at_the_same_place_is_no_state_of_this_one() -> None:
    known = Head(ClusterState(n=3, chain_id="c" * 32), "e" * 64)
    machine = Driven(caught_up(known, "memory://x", reload=True))
    assert isinstance(machine.start(), LoadSnapshot)
    error = machine.reply(Head(ClusterState(n=9, chain_id="d" * 32), "f" * 64))
    assert isinstance(error, InconsistentClusterId)
    assert error.message.startswith(f"cluster {'c' * 32} is no longer at memory://x, found cluster {'d' * 32}: ")
