"""Verifying the chain: each kind of damage is named by its object, and a chain that is whole has no difference."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest

from sparklog.chain import verify_chain
from sparklog.chain.commit.command_body import SLICES_INLINE
from sparklog.chain.entry import decode_entry, encode_entry
from sparklog.chain.snapshot import old_snapshots, snapshot
from sparklog.chain.snapshot.old_snapshots import decide_old, delete_old
from sparklog.core.commands import RaiseFloor, Submission
from sparklog.core.maintenance.differences import DifferenceKind
from sparklog.core.types import EntryNumber
from sparklog.storage.keys import CHUNKS, COMMANDS, SNAPSHOTS, entry_key, snapshot_key, void_key
from sparklog.storage.memory import MemoryStore
from sparklog.storage.object_store import ObjectStore
from tests.chain.chain_kit import Member, append, let_block_go, member, new_chain, small_blocks

Kinds = list[tuple[DifferenceKind, str | None]]


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> Member:
    """20 entries, two snapshots, and the body of a large command between them."""
    small_blocks(monkeypatch)
    chain = new_chain()
    for at in range(6):
        chain.append(2, partition=at % 2)
    chain.committer.snapshots.write()
    chain.submit(chain.begin(append(slices=[0, 1, 1] * (SLICES_INLINE // 3 + 1), n0=chain.committer.follower.state.n0)))
    for _ in range(6):
        chain.append()
    chain.committer.snapshots.write()
    for _ in range(5):
        chain.append()
    return chain


def differences(chain: Member, store: ObjectStore | None = None) -> Kinds:
    verified = verify_chain.verify_chain(store or chain.store.inner, chain.follower.catch_up())
    return [(difference.kind, difference.object) for difference in verified.differences]


def replaced(store: ObjectStore, key: str, change: Callable[[bytes], bytes]) -> None:
    body = bytes(store.get(key))
    store.delete(key)
    store.put_if_absent(key, change(body))


def flip(body: bytes) -> bytes:
    at = random.Random(len(body)).randrange(len(body))
    return body[:at] + bytes([body[at] ^ 4]) + body[at + 1 :]


def keys(chain: Member, prefix: str) -> list[str]:
    return [stored.key for stored in chain.store.inner.list_keys(prefix)]


def test_a_whole_chain_has_no_difference_and_is_only_read(chain: Member) -> None:
    chain.follower.catch_up()
    chain.store.calls.clear()
    verified = verify_chain.verify_chain(chain.store, chain.follower.head)
    assert verified.differences == []
    assert (verified.entries, verified.snapshots, verified.bodies) == (chain.follower.state.n + 1, 2, 1)
    assert {call.partition(" ")[0] if isinstance(call, str) else call[0] for call in chain.store.calls} <= {
        "get",
        "size",
        "list_keys",
        "first_key_after",
    }


@pytest.mark.parametrize("n", [0, 3, 10, 19])
def test_a_flipped_entry_is_named_and_no_other_one(chain: Member, n: int) -> None:
    replaced(chain.store.inner, entry_key(n), flip)
    assert differences(chain) == [(DifferenceKind.ENTRY_DAMAGED, entry_key(n))]


@pytest.mark.parametrize("n", [0, 8, 19])
def test_a_lost_entry_is_named(chain: Member, n: int) -> None:
    chain.follower.catch_up()
    chain.store.inner.delete(entry_key(n))
    verified = verify_chain.verify_chain(chain.store.inner, chain.follower.head)
    assert [(row.kind, row.object) for row in verified.differences] == [
        (DifferenceKind.ENTRY_MISSING, entry_key(n)),
    ]


@pytest.mark.parametrize("n", [4, 19])
def test_an_entry_that_was_written_again_breaks_the_link(chain: Member, n: int) -> None:
    """Its checksum is right. The last one is known by its hash to whoever read it before."""
    chain.follower.catch_up()

    def other(body: bytes) -> bytes:
        return encode_entry(msgspec.structs.replace(decode_entry(n, body), nonce="f" * 32))

    replaced(chain.store.inner, entry_key(n), other)
    verified = verify_chain.verify_chain(chain.store.inner, chain.follower.head)
    assert (DifferenceKind.ENTRY_LINK, entry_key(n)) in [(row.kind, row.object) for row in verified.differences]


def test_a_damaged_or_lost_body_of_a_large_command_is_named(chain: Member) -> None:
    (key,) = keys(chain, COMMANDS)
    body = bytes(chain.store.inner.get(key))
    replaced(chain.store.inner, key, flip)
    assert differences(chain) == [(DifferenceKind.COMMAND_DAMAGED, key)]
    chain.store.inner.delete(key)
    assert differences(chain) == [(DifferenceKind.COMMAND_MISSING, key)]
    chain.store.inner.put_if_absent(key, body)
    assert differences(chain) == []


def test_each_chunk_and_each_manifest_that_is_damaged_is_named(chain: Member) -> None:
    for key in [*keys(chain, CHUNKS), *keys(chain, SNAPSHOTS)]:
        body = bytes(chain.store.inner.get(key))
        replaced(chain.store.inner, key, flip)
        assert differences(chain) == [(DifferenceKind.SNAPSHOT_DAMAGED, key)]
        chain.store.inner.delete(key)
        lost = [(DifferenceKind.SNAPSHOT_DAMAGED, key)] if key.startswith(CHUNKS) else []
        assert differences(chain) == lost, "a snapshot that is gone may have been deleted as old"
        chain.store.inner.put_if_absent(key, body)


@pytest.mark.parametrize("part", ["next_object_number", "floor", "slices", "objects", "partitions"])
def test_a_snapshot_of_another_state_is_named(chain: Member, part: str) -> None:
    """It can be read, and is not what the entries lead to."""
    state = chain.follower.catch_up().state.fork()
    other = new_chain()
    other.append(5)
    value = {"next_object_number": 77, "floor": EntryNumber(3)}.get(
        part, getattr(other.follower.catch_up().state, part)
    )
    setattr(state, part, value)
    prepared = snapshot.prepare(state, chain.follower.entry_hash, {})
    snapshot.write(chain.store.inner, prepared)
    verified = verify_chain.verify_chain(chain.store.inner, chain.follower.head)
    (row,) = verified.differences
    assert (row.kind, row.object) == (DifferenceKind.SNAPSHOT_STATE, snapshot_key(prepared.manifest.n))
    assert part in row.found


def test_a_broken_state_is_named(chain: Member) -> None:
    head = chain.follower.catch_up()
    state = head.state.fork()
    state.next_object_number = 0
    verified = verify_chain.verify_chain(chain.store.inner, msgspec.structs.replace(head, state=state))
    assert {row.kind for row in verified.differences} == {DifferenceKind.INVARIANT}


# ---- old entries --------------------------------------------------------------------------------------


def test_blocks_that_were_deleted_as_old_are_no_difference(chain: Member) -> None:
    let_block_go(chain, 0)
    assert differences(chain) == []
    let_block_go(chain, 1)
    assert differences(member(chain.store.inner)) == []


def test_a_block_that_is_deleted_meanwhile_is_no_difference(chain: Member) -> None:
    class Deleting:
        """Deletes a block once some of its entries were read."""

        def __init__(self, inner: MemoryStore) -> None:
            self.inner, self.url, self.done = inner, inner.url, False

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

        def get(self, key: str) -> memoryview:
            if key == entry_key(5) and not self.done:
                self.done = True
                let_block_go(chain, 0)
            return self.inner.get(key)

    head = chain.follower.catch_up()
    verified = verify_chain.verify_chain(Deleting(chain.store.inner), head)  # type: ignore[arg-type]
    assert verified.differences == []
    assert verified.entries < head.n + 1


def test_a_mark_without_a_snapshot_or_out_of_order_is_named(chain: Member) -> None:
    head = chain.follower.catch_up()
    chain.store.inner.put_if_absent(void_key(1), b"")
    rows = verify_chain.verify_chain(chain.store.inner, head).differences
    assert [(row.kind, row.object) for row in rows] == [(DifferenceKind.VOID_MARK, void_key(1))]
    chain.store.inner.put_if_absent(void_key(0), b"")
    chain.store.inner.put_if_absent(void_key(2), b"")
    rows = verify_chain.verify_chain(chain.store.inner, head).differences
    assert (DifferenceKind.VOID_MARK, void_key(2)) in [(row.kind, row.object) for row in rows]


def test_snapshots_and_bodies_that_vacuum_deletes_are_no_difference(chain: Member) -> None:
    for _ in range(4):
        floor = RaiseFloor(EntryNumber(chain.follower.catch_up().n))
        begun = chain.committer.begin(floor)
        chain.submit(Submission(begun.command_id, begun.n0, floor))
        chain.committer.snapshots.write()
    store = chain.store.inner
    found = old_snapshots.find(store)
    deleted = delete_old(store, found, decide_old(found))
    assert deleted.objects > 0
    assert keys(chain, COMMANDS) == []
    assert differences(chain) == []
