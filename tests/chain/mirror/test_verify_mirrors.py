"""Verifying the copies of the chain on other stores: damage and holes are named, and what may be gone is not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sparklog.chain.chain_requests import MirrorEntry
from sparklog.chain.commit.command_body import SLICES_INLINE
from sparklog.chain.entry import NO_PREVIOUS, decode_entry, encode_entry
from sparklog.chain.head import Head
from sparklog.chain.mirror.mirror import Mirror
from sparklog.chain.mirror.mirror_place import MirrorPlace
from sparklog.chain.mirror.verify_mirrors import verify_mirror
from sparklog.core.maintenance.differences import DifferenceKind
from sparklog.core.state import Store
from sparklog.core.types import StoreId
from sparklog.storage.keys import COMMANDS, entry_key, mirror_key
from sparklog.storage.memory import MemoryStore
from tests.chain.chain_kit import Member, append, new_chain, new_store
from tests.chain.test_verify_chain import flip, replaced

CHAIN = "c" * 32
Named = list[tuple[DifferenceKind, str | None]]


class Copied:
    """A chain of 12 entries with a snapshot in the middle, and its copy on another store."""

    def __init__(self, *, whole: bool = True) -> None:
        self.chain: Member = new_chain()
        self.store = new_store()
        self.mirror = Mirror(self.chain.store.inner, self.store, CHAIN, Store(StoreId("b"), 1, "b", "b" * 32, ""))
        if whole:
            for n in (0, 1):
                self.bring(n)
        for _ in range(10):
            self.chain.append()
            self.bring(self.chain.follower.catch_up().n)

    def bring(self, n: int) -> None:
        head = self.chain.follower.catch_up()
        body = bytes(self.chain.store.inner.get(entry_key(n)))
        if n < head.n:  # only the number and the entries are used
            state = head.state.fork()
            state.n = n
            head = Head(state, NO_PREVIOUS)
        self.mirror.extend(MirrorEntry(head, body))

    def key(self, n: int) -> str:
        return mirror_key(CHAIN, entry_key(n))

    def differences(self) -> Named:
        verified = verify_mirror(self.chain.store.inner, StoreId("b"), self.store, CHAIN)
        assert {row.store for row in verified.differences} <= {"b"}
        return [(row.kind, row.object) for row in verified.differences]


@pytest.fixture
def copied() -> Copied:
    return Copied()


def test_a_whole_copy_has_no_difference(copied: Copied) -> None:
    verified = verify_mirror(copied.chain.store.inner, StoreId("b"), copied.store, CHAIN)
    assert (verified.entries, verified.differences) == (12, [])


def test_a_store_without_a_copy_has_none(copied: Copied) -> None:
    assert verify_mirror(copied.chain.store.inner, StoreId("b"), new_store(), CHAIN).entries == 0


@pytest.mark.parametrize("n", [0, 5, 11])
def test_a_damaged_entry_is_named(copied: Copied, n: int) -> None:
    replaced(copied.store, copied.key(n), flip)
    assert copied.differences() == [(DifferenceKind.COPY_DAMAGED, copied.key(n))]


def test_another_entry_in_the_place_of_one_is_named(copied: Copied) -> None:
    """Its checksum and its number are right."""

    def other(body: bytes) -> bytes:
        return encode_entry(replace(decode_entry(5, body), nonce="f" * 32))

    replaced(copied.store, copied.key(5), other)
    assert copied.differences() == [(DifferenceKind.COPY_DAMAGED, copied.key(5))]


@pytest.mark.parametrize("n", [0, 5])
def test_a_hole_is_named(copied: Copied, n: int) -> None:
    copied.store.delete(copied.key(n))
    assert copied.differences() == [(DifferenceKind.COPY_MISSING, copied.key(n))]


def test_holes_before_a_copied_snapshot_do_not_count(copied: Copied) -> None:
    copied.chain.committer.snapshots.write()
    copied.mirror.copy_snapshot(copied.chain.follower.state.n)
    copied.store.delete(copied.key(5))
    assert copied.differences() == []
    place = MirrorPlace(copied.store, CHAIN)
    (manifest,) = (stored.key for stored in place.list_keys("meta/snapshot/"))
    replaced(copied.store, mirror_key(CHAIN, manifest), flip)
    assert [kind for kind, _ in copied.differences()] == [DifferenceKind.COPY_DAMAGED, DifferenceKind.COPY_MISSING]


def test_an_original_that_is_gone_leaves_its_copy_right(copied: Copied) -> None:
    copied.chain.store.inner.delete(entry_key(3))
    assert copied.differences() == []
    replaced(copied.store, copied.key(3), flip)
    assert copied.differences() == [(DifferenceKind.COPY_DAMAGED, copied.key(3))]


def test_an_original_that_is_damaged_leaves_its_copy_right(copied: Copied) -> None:
    replaced(copied.chain.store.inner, entry_key(3), flip)
    assert copied.differences() == []


def test_what_an_entry_before_a_copied_snapshot_names_need_not_be_there(copied: Copied) -> None:
    """The body of its command may have been deleted as old. An entry after the snapshot needs its own."""
    chain = copied.chain
    bodies = []
    for _ in range(2):
        slices = [0] * (SLICES_INLINE + 1)
        chain.submit(chain.begin(append(slices=slices, n0=chain.committer.follower.state.n0)))
        copied.bring(chain.follower.catch_up().n)
        bodies += [stored.key for stored in copied.store.list_keys(mirror_key(CHAIN, COMMANDS))][len(bodies) :]
        if len(bodies) == 1:
            chain.committer.snapshots.write()
            copied.mirror.copy_snapshot(chain.follower.state.n)
    for body in bodies:
        copied.store.delete(body)
    assert copied.differences() == [(DifferenceKind.COPY_MISSING, bodies[1])]


def test_a_key_that_is_put_while_the_copy_is_listed_is_no_hole(copied: Copied) -> None:
    class Late:
        """Its listing lacks an entry that is there when it is asked for."""

        def __init__(self, inner: MemoryStore) -> None:
            self.inner, self.url = inner, inner.url

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

        def list_keys(self, prefix: str) -> object:
            return (stored for stored in self.inner.list_keys(prefix) if stored.key != copied.key(5))

    late = Late(copied.store)
    verified = verify_mirror(copied.chain.store.inner, StoreId("b"), late, CHAIN)  # type: ignore[arg-type]
    assert verified.differences == []
