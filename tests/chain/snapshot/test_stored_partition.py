"""A partition in a snapshot: every field comes back, and what follows from the rest takes a byte."""

from __future__ import annotations

import msgspec
import pytest

from sparklog.chain.snapshot.stored_partition import StoredPartition, restored, stored
from sparklog.core.replication.partition import Replication
from sparklog.core.state import Partition
from sparklog.core.types import PartitionIndex, TopicId
from tests.core.replication.example_partition import partition, stores

STORES = stores("a", "b", "c")
NUMBERS = {store: number for number, store in enumerate(STORES)}


def of(value: Replication) -> Partition:
    return Partition(TopicId(7), PartitionIndex(3), value, 1234)


def there_and_back(found: Partition) -> Partition:
    body = msgspec.msgpack.encode(stored(found, NUMBERS))
    return restored(msgspec.msgpack.decode(body, type=StoredPartition), STORES)


@pytest.mark.parametrize(
    "value",
    [
        partition({"a": 9, "b": 9, "c": 9}, "abc", hw=9),
        partition({"c": 9, "a": 5, "b": 0}, "ca", leader="c", hw=5, start=0, epochs=((0, 0), (3, 4))),
        partition({"a": 9, "b": 5}, "a", hw=4, elr="b", start=4, lost=((5, 6),), epochs=((2, 4),)),
        partition({"b": 5, "c": 0, "a": 5}, "", leader=None, hw=5, adding="c", removing="a", end=7),
        msgspec.structs.replace(
            partition({"a": 9, "c": 5}, "a", hw=9), arrived=((STORES[2], partition({"a": 9}, "a", hw=9).next_offset),)
        ),
    ],
    ids=["level", "a follower lags", "too few in sync", "moving, without a leader", "arrived"],
)
def test_every_field_comes_back(value: Replication) -> None:
    assert there_and_back(of(value)) == of(value)


def test_a_partition_whose_replicas_are_level_is_small() -> None:
    level = msgspec.msgpack.encode(stored(of(partition({"a": 9, "b": 9, "c": 9}, "abc", hw=9)), NUMBERS))
    assert len(level) <= 26
    assert len(level) < len(msgspec.msgpack.encode(of(partition({"a": 9, "b": 9, "c": 9}, "abc", hw=9)))) / 1.5
