"""After a silence, a process learns whether the chain at its address is still the one that it followed."""

from __future__ import annotations

import pytest

from sparklog.chain.entry import NO_PREVIOUS, hash_of
from sparklog.chain.head import Head
from sparklog.chain.requests import Get, Now
from sparklog.chain.same_chain import IDLE_MS, changed, is_long_silent, read_newest
from sparklog.core.errors import InconsistentClusterId, KeyNotFound, StoreUnavailable
from sparklog.core.state import ClusterState
from sparklog.storage.keys import entry_key

BODY = b"the entry that it knows"
HEAD = Head(ClusterState(n=7, chain_id="c" * 32), hash_of(BODY))


@pytest.mark.parametrize("body", [BODY, memoryview(BODY)])
def test_the_same_bytes_in_the_newest_known_slot_are_the_same_chain(body: object) -> None:
    request = read_newest(HEAD)
    assert isinstance(request, Get)
    assert request.key == entry_key(7)
    assert changed(HEAD, body, "memory://x") is None


@pytest.mark.parametrize("reply", [KeyNotFound(entry_key(7)), b"another entry", memoryview(b"another entry")])
def test_an_empty_slot_or_other_bytes_are_another_chain(reply: object) -> None:
    error = changed(HEAD, reply, "memory://x")
    assert isinstance(error, InconsistentClusterId)
    assert HEAD.state.chain_id in error.message


def test_a_slot_that_can_not_be_read_is_an_error_of_the_store() -> None:
    error = StoreUnavailable("no answer")
    assert changed(HEAD, error, "memory://x") is error


def test_silence_begins_when_the_chain_was_last_known_and_only_a_chain_with_entries_is_checked() -> None:
    now = Now(0, 50_000, "f" * 32)
    assert is_long_silent(HEAD, 50_000 - IDLE_MS, now)
    assert not is_long_silent(HEAD, 50_001 - IDLE_MS, now)
    assert not is_long_silent(Head(ClusterState(), NO_PREVIOUS), 0, now)
