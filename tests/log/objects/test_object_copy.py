"""Copies of objects from store to store: in memory, on disks, on S3, and between stores of different kinds."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import google_crc32c
import msgspec
import pyarrow as pa
import pytest

from sparklog.core.errors import Damaged, KeyNotFound, OutcomeUnknown, StoreFull, StoreUnavailable
from sparklog.core.placement.replica_fetch import ObjectToFetch
from sparklog.core.types import (
    EntryNumber,
    NewObject,
    ObjectKind,
    ObjectNumber,
    PartitionIndex,
    StoreId,
    TopicId,
    TopicPartition,
    UploadId,
)
from sparklog.log.cluster_stores import StoreAddresses, Stores
from sparklog.log.objects import object_copy
from sparklog.log.objects.object_copy import SourceFailed, copy_object, fetch_object
from sparklog.storage.keys import data_key, index_key
from sparklog.storage.local.store import LocalStore
from sparklog.storage.memory import MemoryStore
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import open_store
from sparklog.storage.s3.client import forget_clients
from tests.kit.faulty_store import Fault, FaultyStore
from tests.log.written_log import empty_store, write
from tests.servers.s3_servers import S3Server

BODY, INDEX = os.urandom(300_000), b"index" * 50
UPLOAD = UploadId("ab" * 16)
NAMED = NewObject(
    kind=ObjectKind.APPEND,
    n0=EntryNumber(3),
    upload_id=UPLOAD,
    topic_id=TopicId(1),
    size_bytes=len(BODY),
    crc32c=google_crc32c.value(BODY),
    index_size_bytes=len(INDEX),
    index_crc32c=google_crc32c.value(INDEX),
    holders=(),
)
KEY = data_key(NAMED, "t")
WANTED = ObjectToFetch(
    ObjectNumber(0), TopicPartition(TopicId(1), PartitionIndex(0)), "t", NAMED, (StoreId("a"), StoreId("b"))
)


def memory() -> MemoryStore:
    return MemoryStore(f"memory://{uuid.uuid4().hex}")


def fill(store: ObjectStore, body: bytes = BODY, index: bytes = INDEX) -> ObjectStore:
    store.put_if_absent(KEY, body)
    store.put_if_absent(index_key(KEY), index)
    return store


def holds_all(store: ObjectStore) -> bool:
    return bytes(store.get(KEY)) == BODY and bytes(store.get(index_key(KEY))) == INDEX


@pytest.fixture(params=["memory", "disk", "s3proxy", "memory to disk", "disk to s3proxy", "s3proxy to memory"])
def pair(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[ObjectStore, ObjectStore]]:
    """Source and target."""
    monkeypatch.setattr(object_copy, "READ_BYTES", 100_000)  # so that bodies are streamed

    def opened(kind: str, side: str) -> ObjectStore:
        if kind == "memory":
            return memory()
        if kind == "disk":
            return LocalStore(str(tmp_path / side))
        server: S3Server = request.getfixturevalue(kind)
        return open_store(f"s3://{server.new_bucket()}/store", server.settings)

    source, _, target = request.param.partition(" to ")
    yield opened(source, "source"), opened(target or source, "target")
    forget_clients()


# M: S-08
def test_an_object_is_copied_with_its_index(pair: tuple[ObjectStore, ObjectStore]) -> None:
    source, target = pair
    fill(source)
    copy_object(source, target, KEY, NAMED)
    assert holds_all(target)
    copy_object(source, target, KEY, NAMED)
    assert holds_all(target)


@pytest.mark.parametrize("how", ["cut", "changed", "missing"])
def test_what_the_source_has_otherwise_is_not_copied(pair: tuple[ObjectStore, ObjectStore], how: str) -> None:
    """Where stores copy by themselves only the length is compared: nobody sees the bytes."""
    source, target = pair
    if how != "missing":
        fill(source, BODY[:-1] if how == "cut" else bytes([BODY[0] ^ 1]) + BODY[1:])
    if how == "changed" and type(source) is type(target):
        copy_object(source, target, KEY, NAMED)
        assert not holds_all(target)
        return
    with pytest.raises(SourceFailed) as failed:
        copy_object(source, target, KEY, NAMED)
    assert isinstance(failed.value.__cause__, KeyNotFound if how == "missing" else Damaged)
    assert list(target.list_keys("append/")) == []
    fill(other := memory())
    copy_object(other, target, KEY, NAMED)
    assert holds_all(target)


def test_a_source_that_is_too_long_is_not_copied_by_the_stores(pair: tuple[ObjectStore, ObjectStore]) -> None:
    """Where they do not copy by themselves, nobody reads beyond the length that the chain says."""
    source, target = pair
    fill(source, BODY + b"x")
    if type(source) is type(target):
        with pytest.raises(SourceFailed):
            copy_object(source, target, KEY, NAMED)
        assert list(target.list_keys("append/")) == []
    else:
        copy_object(source, target, KEY, NAMED)
        assert holds_all(target)


def test_a_damaged_index_is_not_copied(pair: tuple[ObjectStore, ObjectStore]) -> None:
    source, target = pair
    fill(source, index=b"x" + INDEX[1:])
    with pytest.raises(SourceFailed):
        copy_object(source, target, KEY, NAMED)
    assert [each.key for each in target.list_keys("append/")] == [KEY]


def test_something_else_under_the_name_is_damage_and_stays(pair: tuple[ObjectStore, ObjectStore]) -> None:
    source, target = pair
    fill(source)
    target.put_if_absent(KEY, b"other")
    with pytest.raises(Damaged, match=f"wanted to copy {KEY} .*found 5 bytes"):
        copy_object(source, target, KEY, NAMED)
    assert bytes(target.get(KEY)) == b"other"


def test_other_bytes_of_the_same_length_are_damage_and_stay(pair: tuple[ObjectStore, ObjectStore]) -> None:
    source, target = pair
    fill(source)
    other = BODY[:-1] + bytes([BODY[-1] ^ 1])
    target.put_if_absent(KEY, other)
    with pytest.raises(Damaged, match=f"wanted to copy {KEY}, found it .* with CRC32C"):
        copy_object(source, target, KEY, NAMED)
    assert bytes(target.get(KEY)) == other


def test_an_object_that_a_repair_deletes_while_it_is_compared_is_copied_again() -> None:
    source, target = fill(memory()), FaultyStore(fill(memory()))
    target.plan(lambda: target.inner.delete(KEY), "get_ranges", KEY)
    copy_object(source, target, KEY, NAMED)
    assert holds_all(target.inner)


def test_the_index_is_put_even_if_the_object_is_there() -> None:
    source, target = fill(memory()), memory()
    target.put_if_absent(KEY, BODY)
    copy_object(source, target, KEY, NAMED)
    assert holds_all(target)


def test_names_that_another_process_left_are_made_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy whose process died before it synced the folder is found by its length: the folder is synced then."""
    source, target = fill(LocalStore(str(tmp_path / "source"))), LocalStore(str(tmp_path / "target"))
    fill(target)
    folder = (tmp_path / "target" / KEY).parent
    synced: list[str] = []
    fsync = os.fsync

    def watched(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", watched)
    copy_object(source, target, KEY, NAMED)
    assert str(folder) in synced


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.LOST])
@pytest.mark.parametrize("key", [KEY, index_key(KEY)])
def test_a_put_whose_outcome_is_unknown_is_put_again(fault: Fault, key: str) -> None:
    source, target = fill(LocalStoreInMemory()), FaultyStore(memory())
    target.plan(fault, "put_if_absent", key)
    copy_object(source, target, KEY, NAMED)
    assert holds_all(target.inner)
    assert target.count("put_if_absent", key) == 2


def test_a_put_that_stays_unknown_is_an_error() -> None:
    source, target = fill(LocalStoreInMemory()), FaultyStore(memory())
    target.plan(Fault.LOST, "put_if_absent", KEY, times=2)
    with pytest.raises(OutcomeUnknown):
        copy_object(source, target, KEY, NAMED)


class LocalStoreInMemory(MemoryStore):
    """Of another kind than the other store, so that bytes pass by."""

    def __init__(self) -> None:
        super().__init__(f"memory://{uuid.uuid4().hex}")


# ---- sources in turn ---------------------------------------------------------------------------------


@pytest.fixture
def stores() -> Stores:
    root = uuid.uuid4().hex
    return Stores(StoreAddresses(f"memory://{root}", {StoreId(each): f"memory://{root}-{each}" for each in "abc"}))


def test_the_next_source_is_asked_if_one_lacks_the_object_or_has_it_damaged(stores: Stores) -> None:
    fill(stores.get(StoreId("a")), BODY[:-1])
    fill(stores.get(StoreId("b")))
    fetched = fetch_object(WANTED, StoreId("c"), stores)
    assert (fetched.source, [(each.source, each.lacks_it) for each in fetched.failures]) == ("b", [("a", True)])
    assert holds_all(stores.get(StoreId("c")))


def test_if_no_source_has_it_each_says_why(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    size = MemoryStore.size

    def unavailable(store: MemoryStore, key: str) -> int:
        if store.url.endswith("-b"):
            raise StoreUnavailable("b is down")
        return size(store, key)

    monkeypatch.setattr(MemoryStore, "size", unavailable)
    fetched = fetch_object(WANTED, StoreId("c"), stores)
    assert fetched.source is None
    assert [(each.source, each.lacks_it) for each in fetched.failures] == [("a", True), ("b", False)]


def test_a_source_that_was_removed_from_the_cluster_is_passed_over(stores: Stores) -> None:
    fill(stores.get(StoreId("b")))
    wanted = msgspec.structs.replace(WANTED, sources=(StoreId("gone"), StoreId("b")))
    fetched = fetch_object(wanted, StoreId("c"), stores)
    assert (fetched.source, [(each.source, each.lacks_it) for each in fetched.failures]) == ("b", [("gone", True)])


def test_an_error_of_the_target_is_no_failure_of_a_source(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(stores.get(StoreId("a")))

    def full(store: MemoryStore, key: str, body: bytes) -> None:
        raise StoreFull("c is full")

    monkeypatch.setattr(MemoryStore, "put_if_absent", full)
    with pytest.raises(StoreFull):
        fetch_object(WANTED, StoreId("c"), stores)


def test_an_object_without_sources_is_only_looked_for(stores: Stores) -> None:
    alone = ObjectToFetch(WANTED.number, WANTED.topic_partition, "t", NAMED, ())
    assert fetch_object(alone, StoreId("c"), stores).source is None
    fill(stores.get(StoreId("c")))
    assert fetch_object(alone, StoreId("c"), stores).source == "c"


# ---- an index that no store has ----------------------------------------------------------------------


@pytest.fixture
def real() -> tuple[ObjectToFetch, str, bytes, bytes]:
    """An object that a writer uploaded: how it is wanted, its key, its bytes and those of its index."""
    log = write(empty_store(), [pa.record_batch({"value": [b"a" * number for number in range(100)]})], 1)
    named = log.objects[0].object
    key = data_key(named, "orders")
    wanted = ObjectToFetch(ObjectNumber(0), WANTED.topic_partition, "orders", named, (StoreId("a"), StoreId("b")))
    return wanted, key, bytes(log.store.get(key)), bytes(log.store.get(index_key(key)))


@pytest.mark.parametrize("left", [None, b"", b"damaged"])
def test_an_index_that_no_source_has_is_rebuilt_from_the_copy(
    stores: Stores, real: tuple[ObjectToFetch, str, bytes, bytes], left: bytes | None
) -> None:
    wanted, key, body, index = real
    for name in "ab":
        stores.get(StoreId(name)).put_if_absent(key, body)
        if left is not None:
            stores.get(StoreId(name)).put_if_absent(index_key(key), left)
    fetched = fetch_object(wanted, StoreId("c"), stores)
    assert (fetched.source, [failure.lacks_it for failure in fetched.failures]) == ("c", [True, True])
    target = stores.get(StoreId("c"))
    assert (bytes(target.get(key)), bytes(target.get(index_key(key)))) == (body, index)


def test_no_index_is_rebuilt_from_a_damaged_copy(stores: Stores, real: tuple[ObjectToFetch, str, bytes, bytes]) -> None:
    """Memory copies server-side, so nobody has seen these bytes before the next source is asked."""
    wanted, key, body, _ = real
    stores.get(StoreId("a")).put_if_absent(key, body[:-1] + b"x")
    with pytest.raises(Damaged, match="'sparklog job recovery' deletes and copies it"):
        fetch_object(wanted, StoreId("c"), stores)
    assert [each.key for each in stores.get(StoreId("c")).list_keys("append/")] == [key]


def test_an_index_that_another_arrow_would_write_otherwise_is_not_put(
    stores: Stores, real: tuple[ObjectToFetch, str, bytes, bytes]
) -> None:
    wanted, key, body, _ = real
    wanted = msgspec.structs.replace(wanted, object=msgspec.structs.replace(wanted.object, index_crc32c=1))
    stores.get(StoreId("a")).put_if_absent(key, body)
    assert fetch_object(wanted, StoreId("c"), stores).source is None
    assert [each.key for each in stores.get(StoreId("c")).list_keys("append/")] == [key]
