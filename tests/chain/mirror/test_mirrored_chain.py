"""The mirrors of several stores read as one chain: an object is missing only if no store may have it."""

from __future__ import annotations

import pytest

from sparklog.chain.chain_requests import MirrorEntry
from sparklog.chain.mirror.mirror import Mirror
from sparklog.chain.mirror.mirror_place import MirrorPlace
from sparklog.chain.mirror.mirrored_chain import MirroredChain, last_mirrored
from sparklog.core.errors import KeyNotFound, StoreAccessDenied, StoreUnavailable
from sparklog.core.state import Store
from sparklog.core.types import StoreId
from sparklog.storage.keys import entry_key, void_key
from tests.chain.chain_kit import new_chain, new_store
from tests.kit.faulty_store import ALWAYS, FaultyStore

CHAIN = "c" * 32


@pytest.fixture
def stores() -> list[FaultyStore]:
    return [FaultyStore(new_store()), FaultyStore(new_store())]


@pytest.mark.parametrize("silent", [0, 1])
@pytest.mark.parametrize("error", [StoreUnavailable, StoreAccessDenied])
def test_an_object_on_a_store_that_cannot_be_read_does_not_count_as_missing(
    stores: list[FaultyStore], silent: int, error: type[StoreUnavailable | StoreAccessDenied]
) -> None:
    """Otherwise a restore would end there in silence."""
    chain = MirroredChain(stores, CHAIN, accept_loss=True)
    with pytest.raises(KeyNotFound):
        chain.get(entry_key(1))
    stores[silent].plan(error("no answer"), "get", times=ALWAYS)
    with pytest.raises(error, match="no answer"):
        chain.get(entry_key(1))


@pytest.mark.parametrize("damaged", [0, 1])
def test_what_is_damaged_on_one_store_is_not_given_up_while_another_cannot_be_read(
    stores: list[FaultyStore], damaged: int
) -> None:
    """The other one may have it whole."""
    MirrorPlace(stores[damaged], CHAIN).put_if_absent(entry_key(1), b"damaged")
    chain = MirroredChain(stores, CHAIN, accept_loss=True)
    with pytest.raises(KeyNotFound):
        chain.get(entry_key(1))
    stores[1 - damaged].plan(StoreUnavailable("no answer"), "get", times=ALWAYS)
    with pytest.raises(StoreUnavailable, match="no answer"):
        chain.get(entry_key(1))


@pytest.mark.parametrize("marked", [0, 1])
def test_a_block_counts_as_deleted_only_if_every_store_has_its_void_mark(
    stores: list[FaultyStore], marked: int
) -> None:
    """Elsewhere its entries may all be there."""
    chain = MirroredChain(stores, CHAIN)
    MirrorPlace(stores[marked], CHAIN).put_if_absent(void_key(0), b"gone")
    with pytest.raises(KeyNotFound):
        chain.get(void_key(0))
    MirrorPlace(stores[1 - marked], CHAIN).put_if_absent(void_key(0), b"gone")
    assert bytes(chain.get(void_key(0))) == b"gone"


def test_entries_that_the_source_has_deleted_as_old_are_copied_as_a_snapshot() -> None:
    chain, store = new_chain(), new_store()
    for _ in range(5):
        chain.append()
    head = chain.follower.catch_up()
    body = bytes(chain.store.inner.get(entry_key(head.n)))
    chain.store.inner.delete(entry_key(2))
    mirror = Mirror(chain.store.inner, store, CHAIN, Store(StoreId("b"), 1, "b", "b" * 32, ""))
    mirror.extend(MirrorEntry(head, body))
    assert last_mirrored(MirrorPlace(store, CHAIN)) == head.n


def test_entries_behind_a_hole_do_not_count_as_copied() -> None:
    chain, store = new_chain(), new_store()
    for _ in range(5):
        chain.append()
    head = chain.follower.catch_up()
    bodies = [bytes(chain.store.inner.get(entry_key(n))) for n in range(head.n + 1)]
    for n in (0, 1, 3):
        MirrorPlace(store, CHAIN).put_if_absent(entry_key(n), bodies[n])
    assert last_mirrored(MirrorPlace(store, CHAIN)) == 1
    mirror = Mirror(chain.store.inner, store, CHAIN, Store(StoreId("b"), 1, "b", "b" * 32, ""))
    mirror.extend(MirrorEntry(head, bodies[-1]))
    assert last_mirrored(MirrorPlace(store, CHAIN)) == head.n
