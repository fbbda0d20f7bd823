"""An object and its index from one store to another: whole, checked, and as often as one likes."""

from __future__ import annotations

import uuid

import pytest

from sparklog.core.errors import Damaged, KeyNotFound, OutcomeUnknown
from sparklog.log.object_copy import copy_object
from sparklog.storage.keys import index_key
from sparklog.storage.memory import MemoryStore
from sparklog.storage.object_store import ObjectStore
from tests.log.test_object_writer import numbered
from tests.log.written_log import WrittenLog, empty_store, write


@pytest.fixture
def log() -> WrittenLog:
    return write(empty_store(), [numbered(50)], 1)


@pytest.fixture
def target() -> MemoryStore:
    return MemoryStore(f"memory://{uuid.uuid4().hex}")


def copy(log: WrittenLog, target: ObjectStore, source: ObjectStore | None = None) -> str:
    named = log.objects[0].object
    key = log.key(log.slices[0])
    copy_object(source or log.store, target, key, named)
    return key


class _NoServerSide(MemoryStore):
    def copy_from(self, source: ObjectStore, source_key: str, key: str) -> bool:
        return False


@pytest.mark.parametrize("server_side", [True, False])
def test_a_copy_has_the_same_bytes_and_may_be_made_again(
    log: WrittenLog, target: MemoryStore, server_side: bool
) -> None:
    to = target if server_side else _NoServerSide(target.url)
    for _ in range(2):
        key = copy(log, to)
    assert sorted(each.key for each in target.list_keys("")) == sorted([key, index_key(key)])
    for each in (key, index_key(key)):
        assert target.get(each) == log.store.get(each)


def test_another_object_in_its_place_is_damage(log: WrittenLog, target: MemoryStore) -> None:
    target.put_if_absent(log.key(log.slices[0]), b"something else")
    with pytest.raises(Damaged, match=f"in {target.url}, found 14 bytes"):
        copy(log, target)


def test_a_source_that_is_cut_is_not_copied(log: WrittenLog, target: MemoryStore) -> None:
    cut = MemoryStore(f"memory://{uuid.uuid4().hex}")
    cut.put_if_absent(log.key(log.slices[0]), b"half")
    with pytest.raises(Damaged, match=f"in {cut.url}, found 4 bytes"):
        copy(log, target, cut)
    with pytest.raises(KeyNotFound):
        copy(log, target, MemoryStore(f"memory://{uuid.uuid4().hex}"))
    assert list(target.list_keys("")) == []


def test_a_copy_whose_answer_was_lost_is_there(log: WrittenLog, target: MemoryStore) -> None:
    class Lost(MemoryStore):
        def copy_from(self, source: ObjectStore, source_key: str, key: str) -> bool:
            assert super().copy_from(source, source_key, key)
            raise OutcomeUnknown("no reply")

    copy(log, Lost(target.url))
    assert len(list(target.list_keys(""))) == 2
