"""Readers of the chain: opening, catching up, and what they refuse to take for the truth."""

from __future__ import annotations

import itertools
import random

import msgspec
import pytest

from sparklog.chain.entry import Entry, decode_entry, encode_entry, hash_of
from sparklog.chain.follow import catch_up
from sparklog.chain.head import Draft, Head
from sparklog.core.coordination import Author
from sparklog.core.errors import ChainDamaged, ClusterNotFound, SparklogError, StoreUnavailable
from sparklog.storage.keys import entry_key, void_key
from tests.chain.chain_kit import SMALL_BLOCK, Member, member, new_chain, new_store, small_blocks
from tests.core.state_contents import contents
from tests.kit.faulty_store import Fault, FaultyStore

LOG = "meta/log/"


@pytest.fixture
def chain() -> Member:
    return new_chain()


def replace(chain: Member, n: int, body: bytes) -> None:
    chain.store.inner.delete(entry_key(n))
    chain.store.inner.put_if_absent(entry_key(n), body)


def test_no_chain_is_no_cluster() -> None:
    with pytest.raises(ClusterNotFound, match="run 'sparklog cluster init'"):
        Member(FaultyStore(new_store())).follower.open()


@pytest.mark.parametrize("count", [0, 1, 2, 5, 40])
def test_a_reader_has_the_state_of_the_writer(chain: Member, count: int) -> None:
    late = member(chain.store.inner)
    for at in range(count):
        chain.append(partition=at % 2)
    late.follower.catch_up()
    assert contents(late.follower.state) == contents(chain.follower.state)
    assert contents(member(chain.store.inner).follower.state) == contents(chain.follower.state)


def test_reading_on_at_the_end_costs_two_requests(chain: Member) -> None:
    chain.follower.catch_up()
    assert [method for method, _ in chain.store.calls] == ["get", "get"]


def test_opening_lists_nothing_but_looks_for_two_keys(chain: Member) -> None:
    for _ in range(10):
        chain.append()
    chain.store.calls.clear()
    Member(chain.store).follower.open()
    assert chain.store.count("list_keys") == 0
    assert chain.store.count("first_key_after") == 2  # of a snapshot, and of the entry after the last one


def test_opening_behind_a_snapshot_reads_no_older_entry(chain: Member) -> None:
    for _ in range(10):
        chain.append()
    chain.committer.snapshots.write()
    chain.append()
    chain.store.calls.clear()
    late = Member(chain.store)
    late.follower.open()
    assert chain.store.count("get", LOG) <= 3 + catch_up.READ_WIDTH
    assert ("get", entry_key(10)) not in chain.store.calls
    assert contents(late.follower.state) == contents(chain.follower.state)


def test_a_missing_entry_in_the_middle_is_damage_and_nothing_is_written(chain: Member) -> None:
    for _ in range(3):
        chain.append()
    chain.store.inner.delete(entry_key(3))
    late = Member(FaultyStore(chain.store.inner))
    with pytest.raises(
        ChainDamaged,
        match=r"entry 3, .*/0{19}3 at memory://.*: it is missing, but entry 4 is there; put",
    ):
        late.follower.open()
    assert late.store.count("put_if_absent") == 0


def test_a_missing_entry_at_the_end_of_a_block_is_damage_too(monkeypatch: pytest.MonkeyPatch) -> None:
    small_blocks(monkeypatch)
    chain = new_chain()
    while chain.follower.state.n < 2 * SMALL_BLOCK:
        chain.append()
    chain.store.inner.delete(entry_key(2 * SMALL_BLOCK - 1))
    with pytest.raises(ChainDamaged, match=f"it is missing, but entry {2 * SMALL_BLOCK} is there"):
        Member(FaultyStore(chain.store.inner)).follower.open()


def test_without_the_look_behind_the_end_a_gap_would_be_taken_for_it(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        chain.append()
    chain.store.inner.delete(entry_key(3))
    late = Member(FaultyStore(chain.store.inner))
    monkeypatch.setattr(late.follower, "_check_end", lambda: None)
    late.follower.open()
    assert late.append().n == 3  # acknowledged amid another history


def test_an_entry_that_is_seen_late_is_no_damage(chain: Member) -> None:
    chain.append()
    chain.append()
    late = Member(FaultyStore(chain.store.inner))
    late.store.plan(Fault.STALE_404, "get", entry_key(2))
    late.follower.open()
    assert late.follower.state.n == 3


def test_the_end_of_a_block_is_an_end_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    small_blocks(monkeypatch)
    chain = new_chain()
    while chain.follower.state.n < 2 * SMALL_BLOCK + 1:
        chain.append()
        assert member(chain.store.inner).uploads() == chain.uploads()


def test_a_block_that_is_going_behind_the_last_entry_is_not_taken_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    small_blocks(monkeypatch)
    chain = new_chain()
    late = member(chain.store.inner)
    while chain.follower.state.n < 2 * SMALL_BLOCK - 1:
        chain.append()
    chain.store.put_if_absent(void_key(2), b"")
    with pytest.raises(ChainDamaged, match="is marked as deleted, but no snapshot covers it"):
        late.follower.catch_up()


def test_an_entry_that_does_not_follow_the_one_before_is_damage(chain: Member) -> None:
    late = member(chain.store.inner)
    chain.append()
    found = decode_entry(2, chain.store.get(entry_key(2)))
    for changed in ({"previous": "e" * 64}, {"chain_id": "d" * 32}):
        replace(chain, 2, encode_entry(msgspec.structs.replace(found, **changed)))
        with pytest.raises(ChainDamaged, match=r"0{19}2 at memory://.*: wanted chain c+ after hash .*, found chain"):
            late.follower.catch_up()
        assert late.follower.state.n == 1


def test_without_the_hash_link_another_history_would_be_followed(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry is replaced by another legal one: those who read the first have a different log from later readers."""
    late = member(chain.store.inner)
    chain.append()
    chain.append()
    other = Entry("c" * 32, 2, Author("client", "x"), "f" * 32, late.follower.entry_hash, 1, ())  # type: ignore[arg-type]
    replace(chain, 2, encode_entry(other))
    with pytest.raises(ChainDamaged):
        late.follower.catch_up()

    unlinked = member(new_store_with(chain, upto=2))
    third = decode_entry(3, chain.store.get(entry_key(3)))
    monkeypatch.setattr(Draft, "follows", lambda draft, entry: True)
    unlinked.store.put_if_absent(entry_key(3), encode_entry(third))
    unlinked.follower.catch_up()
    assert unlinked.follower.state.partition(1, 0).next_offset == 2  # type: ignore[union-attr]
    assert len(unlinked.uploads()) == 1  # one of the two records has no slice


def new_store_with(chain: Member, upto: int) -> FaultyStore:
    """A copy of the chain's first entries."""
    store = FaultyStore(new_store())
    for n in range(upto + 1):
        store.inner.put_if_absent(entry_key(n), chain.store.inner.get(entry_key(n)))
    return store


def test_any_flipped_bit_or_cut_of_an_entry_is_a_named_error(chain: Member) -> None:
    chain.append()
    chain.append()
    dice = random.Random(20261121)
    for _ in range(300):
        n = dice.randrange(4)
        whole = bytes(chain.store.inner.get(entry_key(n)))
        broken = bytearray(whole)
        broken[dice.randrange(len(whole))] ^= 1 << dice.randrange(8)
        if dice.random() < 0.3:
            broken = bytearray(whole[: dice.randrange(len(whole))])
        replace(chain, n, bytes(broken))
        with pytest.raises(SparklogError, match=entry_key(n)):
            member(chain.store.inner)
        replace(chain, n, whole)
    member(chain.store.inner)


def test_a_store_that_fails_in_the_middle_of_opening_can_be_opened_again(chain: Member) -> None:
    for _ in range(5):
        chain.append()
    late = Member(FaultyStore(chain.store.inner))
    late.store.plan(Fault.UNAVAILABLE, "get", entry_key(4))
    with pytest.raises(StoreUnavailable):
        late.follower.open()
    late.follower.open()
    assert contents(late.follower.state) == contents(chain.follower.state)


def test_the_same_chain_is_known_by_its_last_entry(chain: Member) -> None:
    chain.append()
    assert chain.follower.is_same_chain()
    forgotten = member(chain.store.inner)
    forgotten.follower.head = Head()
    assert not forgotten.follower.is_same_chain()
    whole = bytes(chain.store.inner.get(entry_key(2)))
    replace(chain, 2, whole[:-1] + b" ")
    assert not chain.follower.is_same_chain()
    chain.store.inner.delete(entry_key(2))
    assert not chain.follower.is_same_chain()


@pytest.mark.parametrize("opened", [True, False])
def test_a_reader_beside_a_writer_who_never_rests_comes_to_an_end(chain: Member, opened: bool) -> None:
    """Reading until nothing is new would never end: writing an entry takes two requests, a round of reading three."""
    late = member(chain.store.inner) if opened else Member(FaultyStore(chain.store.inner))
    asked = itertools.count(1)

    def write() -> None:
        if next(asked) % 2 == 0:
            chain.append()

    late.store.plan(write, "get", times=1_000)
    before = chain.follower.state.n
    if opened:
        late.follower.catch_up()
    else:
        late.follower.open()
    assert late.follower.state.n >= before
    assert next(asked) < 1_000, "it came to an end because the writer rested"


def test_a_chain_whose_last_entry_was_deleted_as_old_is_known_by_its_snapshot(chain: Member) -> None:
    chain.append()
    chain.committer.snapshots.write()
    chain.store.inner.put_if_absent(void_key(0), b"")
    chain.store.inner.delete(entry_key(2))
    assert chain.follower.is_same_chain()


def test_the_hash_is_that_of_the_bytes_in_the_slot(chain: Member) -> None:
    chain.append()
    assert chain.follower.entry_hash == hash_of(chain.store.get(entry_key(2)))
