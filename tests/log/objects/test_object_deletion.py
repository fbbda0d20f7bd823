"""Objects are deleted by their exact names, with their index, from every store that held them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from sparklog.core.errors import StoreUnavailable
from sparklog.core.types import ObjectNumber, StoreId
from sparklog.log.cluster_stores import StoreAddresses, Stores
from sparklog.log.objects.object_deletion import ObjectToDelete, delete_objects
from sparklog.storage.memory import MemoryStore
from tests.kit.faulty_store import ALWAYS, Fault, FaultyStore

A, B = StoreId("a"), StoreId("b")


def key(number: int) -> str:
    return f"append/ab/{0:020d}-ab{number:030x}.arrow"


def test_object_and_index_go_from_every_store_and_a_failure_stops_no_other() -> None:  # M: R-03 R-04 R-06
    root = f"memory://{uuid.uuid4().hex}"
    stores = Stores(StoreAddresses(root, {A: "a", B: "b"}))
    for store in (stores.get(A), stores.get(B)):
        for number in range(3):
            store.put_if_absent(key(number), b"x")
            store.put_if_absent(key(number).replace(".arrow", ".index"), b"x")
        store.put_if_absent(f"{key(1)}.other", b"a longer name")

    failing = stores._open[B] = FaultyStore(stores.get(B))
    failing.plan(StoreUnavailable("not now"), "delete", suffix=f"{1:030x}.index", times=ALWAYS)
    orders = [ObjectToDelete(ObjectNumber(each), key(each), (A, B), 2) for each in (0, 1, 7)]
    deleted = delete_objects(orders, stores)
    assert deleted.numbers == (0, 7), "what is not there is gone"
    assert [(each.number, each.error) for each in deleted.failed] == [(1, "KAFKA_STORAGE_ERROR: not now")]
    assert [each.key for each in stores.get(A).list_keys("")] == [
        f"{key(1)}.other",
        key(2),
        key(2).replace(".arrow", ".index"),
    ]


def test_a_store_deletes_many_at_once_objects_before_their_indexes() -> None:
    root = f"memory://{uuid.uuid4().hex}"
    stores = Stores(StoreAddresses(root, {A: "a", B: "b"}))
    asked: list[tuple[str, list[str]]] = []

    class Asked(MemoryStore):
        def delete_many(self, keys: Sequence[str]) -> None:
            asked.append((self.url[-1], list(keys)))

    for store in (A, B):
        stores._open[store] = Asked(stores.get(store).url)
    orders = [ObjectToDelete(ObjectNumber(each), key(each), (A, B) if each else (A,), 2) for each in range(3)]
    assert delete_objects(orders, stores).numbers == (0, 1, 2)
    indexes = [key(each).replace(".arrow", ".index") for each in range(3)]
    objects = [key(each) for each in range(3)]
    assert asked == [("a", objects), ("a", indexes), ("b", objects[1:]), ("b", indexes[1:])]


def test_a_store_that_does_not_answer_keeps_the_object_named_and_stops_no_other_store() -> None:
    stores = Stores(StoreAddresses(f"memory://{uuid.uuid4().hex}", {A: "a", B: "b"}))
    stores.get(B).put_if_absent(key(0), b"x")

    dead = stores._open[A] = FaultyStore(stores.get(A))
    dead.plan(Fault.UNAVAILABLE, "delete", times=ALWAYS)
    deleted = delete_objects([ObjectToDelete(ObjectNumber(0), key(0), (A, B), 2)], stores)
    assert deleted.numbers == ()
    assert [each.number for each in deleted.failed] == [0]
    assert list(stores.get(B).list_keys("")) == []
