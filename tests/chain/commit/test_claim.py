"""The race for one slot, with everything that can go wrong with a put and with the reads after it."""

from __future__ import annotations

import msgspec
import pytest

from sparklog.chain.chain_requests import Get, Now, Request
from sparklog.chain.commit.claim import Claim, Lost, Voided, Won
from sparklog.chain.entry import NO_PREVIOUS, Entry, decode_entry, encode_entry
from sparklog.chain.follow.follower import Follower
from sparklog.core.coordination import Author
from sparklog.core.errors import (
    ChainDamaged,
    InvalidInput,
    KeyNotFound,
    Landed,
    OutcomeUnknown,
    RequestTimedOut,
    StoreFull,
)
from sparklog.core.machine import run
from sparklog.core.types import EntryNumber
from sparklog.storage.keys import entry_key, void_key
from tests.chain.chain_kit import new_store
from tests.kit.faulty_store import Fault, FaultyStore
from tests.kit.hand_clock import HandClock

KEY = entry_key(5)


def entry_of(name: str) -> Entry:
    """Entry 5, by one of several writers."""
    return Entry("c" * 32, EntryNumber(5), Author("client", name), name * 32, NO_PREVIOUS, 1, ())


MINE, OTHER = entry_of("a"), entry_of("b")


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore(new_store())


def claim(
    store: FaultyStore,
    timeout_ms: int = 1_000,
    *,
    entry: Entry = MINE,
    clock: HandClock | None = None,
    instead: dict[str, object] | None = None,
) -> Won | Lost | Voided:
    """Drive a claim to its end. `instead`: replies that reads of a key get in place of what is there."""
    shell = Follower(store, clock or HandClock())
    deadline_ms = shell.clock.monotonic_ms() + timeout_ms
    given = instead or {}

    def perform(request: Request) -> object:
        return given[request.key] if isinstance(request, Get) and request.key in given else shell.perform(request)

    machine = Claim(5, encode_entry(entry), deadline_ms, timeout_ms, store.url)

    def answered(request: Request) -> tuple[object, Now]:
        return perform(request), Now(shell.clock.now_ms(), shell.clock.monotonic_ms(), "")

    return run(machine.steps(), answered)


def test_a_free_slot_is_won(store: FaultyStore) -> None:
    assert claim(store) == Won()
    assert decode_entry(5, store.get(KEY)) == MINE


def test_a_taken_slot_is_lost_and_its_body_is_the_truth(store: FaultyStore) -> None:
    store.inner.put_if_absent(KEY, encode_entry(OTHER))
    assert claim(store) == Lost(encode_entry(OTHER))


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.LOST, Fault.UNAVAILABLE, Fault.OWN_KEY_EXISTS])
def test_a_put_that_went_wrong_is_tried_again_and_read_back(store: FaultyStore, fault: Fault) -> None:
    store.plan(fault, "put_if_absent", KEY)
    assert claim(store) == Won()
    assert [each.key for each in store.list_keys("meta/log/")] == [KEY]


@pytest.mark.parametrize("times", [2, 10_000], ids=["for a while", "for good"])
def test_a_read_back_that_is_refused_does_not_mean_that_nothing_landed(store: FaultyStore, times: int) -> None:
    def refuse() -> None:
        raise InvalidInput("the access keys have expired")

    store.plan(Fault.OWN_KEY_EXISTS, "put_if_absent", KEY)
    store.plan(refuse, "get", KEY, times=times)
    if times == 2:
        assert claim(store) == Won()
        return
    with pytest.raises(OutcomeUnknown) as raised:
        claim(store)
    assert raised.value.landed is Landed.UNKNOWN


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.OWN_KEY_EXISTS])
@pytest.mark.parametrize("times", [1, 10_000], ids=["once", "for good"])
def test_a_body_that_is_read_back_damaged_may_be_ones_own(store: FaultyStore, fault: Fault, times: int) -> None:
    damaged = [times]
    get = store.inner.get

    def damage(key: str) -> memoryview:
        body = get(key)
        if key != KEY or damaged[0] == 0:
            return body
        damaged[0] -= 1
        return body[:-1]

    store.inner.get = damage  # type: ignore[method-assign]
    store.plan(fault, "put_if_absent", KEY)
    if times == 1:
        assert claim(store) == Won()
        return
    with pytest.raises(ChainDamaged) as raised:
        claim(store)
    assert raised.value.landed is Landed.UNKNOWN


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.OWN_KEY_EXISTS])
def test_ones_own_body_read_back_is_success_however_often_reading_fails(store: FaultyStore, fault: Fault) -> None:
    store.plan(fault, "put_if_absent", KEY)
    store.plan(Fault.UNAVAILABLE, "get", KEY, times=2)
    store.plan(Fault.STALE_404, "get", KEY, times=2)
    assert claim(store, timeout_ms=60_000) == Won()


def test_a_put_lost_to_another_is_lost_though_its_own_outcome_was_unknown(store: FaultyStore) -> None:
    store.plan(Fault.LOST, "put_if_absent", KEY)
    store.plan(lambda: store.inner.put_if_absent(KEY, encode_entry(OTHER)), "put_if_absent", KEY)
    assert claim(store) == Lost(encode_entry(OTHER))


def test_without_the_read_back_ones_own_entry_would_be_taken_for_anothers(store: FaultyStore) -> None:
    """A store that repeats a put after losing its reply says KeyExists about the writer's own entry."""
    store.plan(Fault.OWN_KEY_EXISTS, "put_if_absent", KEY)
    assert claim(store, instead={KEY: encode_entry(OTHER)}) == Lost(encode_entry(OTHER))
    assert decode_entry(5, store.inner.get(KEY)) == MINE


def test_without_a_nonce_two_writers_of_equal_entries_would_both_win(store: FaultyStore) -> None:
    alike = msgspec.structs.replace(MINE, nonce="9" * 32)
    store.inner.put_if_absent(KEY, encode_entry(alike))
    assert claim(store) == Lost(encode_entry(alike))
    without = msgspec.structs.replace(MINE, nonce=alike.nonce)
    assert claim(store, entry=without) == Won()


def test_a_slot_that_can_not_be_read_is_an_unknown_outcome(store: FaultyStore) -> None:
    store.plan(Fault.REPLY_LOST, "put_if_absent", KEY)
    store.plan(Fault.UNAVAILABLE, "get", KEY, times=1_000)
    with pytest.raises(OutcomeUnknown, match="could not be read in 1 second") as caught:
        claim(store)
    assert caught.value.landed is Landed.UNKNOWN


def test_a_key_that_exists_but_is_not_seen_may_be_ones_own(store: FaultyStore) -> None:
    store.plan(Fault.OWN_KEY_EXISTS, "put_if_absent", KEY)
    store.plan(Fault.STALE_404, "get", KEY, times=1_000)
    with pytest.raises(OutcomeUnknown) as caught:
        claim(store)
    assert caught.value.landed is Landed.UNKNOWN
    assert decode_entry(5, store.inner.get(KEY)) == MINE


def test_what_was_never_sent_timed_out_and_did_not_land(store: FaultyStore) -> None:
    store.plan(Fault.UNAVAILABLE, "put_if_absent", KEY, times=1_000)
    with pytest.raises(RequestTimedOut, match="could not be written in 1 second") as caught:
        claim(store)
    assert caught.value.landed is Landed.NO
    assert not list(store.inner.list_keys("meta/"))


def test_a_full_store_is_its_own_error_but_after_a_put_in_doubt_the_entry_may_have_landed(store: FaultyStore) -> None:
    def full() -> None:
        raise StoreFull("no space left")

    store.plan(full, "put_if_absent", KEY)
    with pytest.raises(StoreFull) as caught:
        claim(store)
    assert caught.value.landed is Landed.NO
    store.plan(Fault.LOST, "put_if_absent", KEY)
    store.plan(full, "put_if_absent", KEY)  # it is reached by the second put
    with pytest.raises(StoreFull) as caught:  # not OutcomeUnknown, which a caller would retry until its time is over
        claim(store)
    assert caught.value.landed is Landed.UNKNOWN


@pytest.mark.parametrize("fault", [None, Fault.REPLY_LOST, Fault.OWN_KEY_EXISTS])
def test_a_win_in_a_marked_block_is_void(store: FaultyStore, fault: Fault | None) -> None:
    store.put_if_absent(void_key(0), b"")
    if fault is not None:
        store.plan(fault, "put_if_absent", KEY)
    assert claim(store) == Voided()


def test_a_loss_in_a_marked_block_is_void(store: FaultyStore) -> None:
    store.put_if_absent(void_key(0), b"")
    store.put_if_absent(KEY, encode_entry(OTHER))
    assert claim(store) == Voided()


def test_without_the_look_for_a_mark_a_void_win_would_count(store: FaultyStore) -> None:
    store.put_if_absent(void_key(0), b"")
    assert claim(store, instead={void_key(0): KeyNotFound("not looked for")}) == Won()


def test_a_mark_that_can_not_be_read_at_first_is_asked_for_again(store: FaultyStore) -> None:
    store.plan(Fault.UNAVAILABLE, "get", "meta/void/", times=3)
    assert claim(store) == Won()


def test_a_mark_that_can_not_be_read_leaves_the_outcome_unknown(store: FaultyStore) -> None:
    store.plan(Fault.UNAVAILABLE, "get", "meta/void/", times=1_000)
    with pytest.raises(OutcomeUnknown) as caught:
        claim(store)
    assert caught.value.landed is Landed.UNKNOWN


def test_a_damaged_entry_in_the_slot_is_an_error_and_nothing_is_decided_from_it(store: FaultyStore) -> None:
    store.put_if_absent(KEY, encode_entry(OTHER)[:-1])
    with pytest.raises(ChainDamaged, match=r"entry 5, .* wanted \d+ bytes with checksum .*; put this object back"):
        claim(store)


def test_a_claim_ends_with_its_deadline_on_a_clock_that_only_pauses_move(store: FaultyStore) -> None:
    clock = HandClock()
    began_ms = clock.monotonic_ms()
    store.plan(Fault.UNAVAILABLE, "put_if_absent", KEY, times=1_000)
    with pytest.raises(RequestTimedOut):
        claim(store, 30_000, clock=clock)
    assert 30_000 <= clock.monotonic_ms() - began_ms <= 32_000
