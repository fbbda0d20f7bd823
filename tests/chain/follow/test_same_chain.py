"""After a silence, a process learns whether the chain at its address is still the one that it followed."""

from __future__ import annotations

import pytest

from sparklog.chain.chain_requests import Get, LoadSnapshot, Now
from sparklog.chain.entry import NO_PREVIOUS, hash_of
from sparklog.chain.follow.same_chain import IDLE_MS, is_long_silent, same_chain
from sparklog.chain.head import Head
from sparklog.core.errors import InconsistentClusterId, KeyNotFound, StoreUnavailable
from sparklog.core.state import ClusterState
from sparklog.storage.keys import entry_key, void_key
from tests.chain.driven import Driven

BODY = b"the entry that it knows"
OURS = "c" * 32
HEAD = Head(ClusterState(n=7, chain_id=OURS), hash_of(BODY))
GONE = [KeyNotFound(entry_key(7)), b"another entry", memoryview(b"another entry")]


def reading() -> Driven[Head]:
    """A check that reads the newest known entry."""
    check = Driven(same_chain(HEAD, "memory://x"))
    request = check.start()
    assert isinstance(request, Get)
    assert request.key == entry_key(7)
    return check


def looking(reply: object) -> Driven[Head]:
    """A check that has not found that entry, and looks for the mark of its block."""
    check = reading()
    look = check.reply(reply)
    assert isinstance(look, Get)
    assert look.key == void_key(0)
    return check


def loading(reply: object) -> Driven[Head]:
    """A check that has found the mark, and loads the newest snapshot."""
    check = looking(reply)
    assert isinstance(check.reply(b"entries 0 to 4095 are being deleted"), LoadSnapshot)
    return check


@pytest.mark.parametrize("body", [BODY, memoryview(BODY)])
def test_the_same_bytes_in_the_newest_known_slot_are_the_same_chain(body: object) -> None:
    assert reading().reply(body) is HEAD


@pytest.mark.parametrize("reply", GONE)
def test_an_empty_slot_or_other_bytes_are_another_chain_if_no_mark_explains_them(reply: object) -> None:
    error = looking(reply).reply(KeyNotFound(void_key(0)))
    assert isinstance(error, InconsistentClusterId)
    assert OURS in error.message


@pytest.mark.parametrize("reply", GONE)
def test_a_process_whose_newest_entry_was_deleted_as_old_goes_on_from_a_newer_snapshot(reply: object) -> None:
    newest = Head(ClusterState(n=9_000, chain_id=OURS), hash_of(b"newer"))
    assert loading(reply).reply(newest) is newest


@pytest.mark.parametrize(
    "newest",
    [
        None,
        Head(ClusterState(n=6, chain_id=OURS), hash_of(b"older")),
        Head(ClusterState(n=9_000, chain_id="d" * 32), hash_of(b"another cluster")),
    ],
)
def test_a_mark_without_a_newer_snapshot_of_the_chain_is_another_chain(newest: object) -> None:
    assert isinstance(loading(KeyNotFound(entry_key(7))).reply(newest), InconsistentClusterId)


def test_what_can_not_be_read_is_an_error_of_the_store() -> None:
    error = StoreUnavailable("no answer")
    for check in (reading(), looking(KeyNotFound(entry_key(7))), loading(KeyNotFound(entry_key(7)))):
        assert check.reply(error) is error


def test_silence_begins_when_the_chain_was_last_known_and_only_a_chain_with_entries_is_checked() -> None:
    now = Now(0, 50_000, "f" * 32)
    assert is_long_silent(HEAD, 50_000 - IDLE_MS, now)
    assert not is_long_silent(HEAD, 50_001 - IDLE_MS, now)
    assert not is_long_silent(Head(ClusterState(), NO_PREVIOUS), 0, now)
