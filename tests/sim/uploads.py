"""Real data objects of a few records, made on paper and put onto the stores by calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from sparklog.core.errors import KeyExists, SparklogError
from sparklog.core.state import ClusterState, Topic
from sparklog.core.types import (
    Holder,
    NewObject,
    NewSlice,
    ObjectKind,
    PartitionIndex,
    StoreId,
    TopicPartition,
    UploadId,
)
from sparklog.log.stored_schema import TIMESTAMP
from sparklog.log.write.open_object import OpenObject, slices_of
from sparklog.storage.keys import INCARNATION
from tests.sim.history import Uploaded
from tests.sim.process import Process, Steps
from tests.sim.stores import PAPER, Call, Paper


@dataclass(frozen=True)
class Encoded:
    """Objects, each with its index, by key, in the order in which they are put. `named` are held by nobody yet."""

    named: tuple[NewObject, ...]
    slices: tuple[NewSlice, ...]
    objects: Mapping[str, bytes]

    @property
    def upload_ids(self) -> set[UploadId]:
        return {each.upload_id for each in self.named}


Parts = Mapping[PartitionIndex, Sequence[bytes]]


def encode(process: Process, topic: Topic, objects: Sequence[Parts]) -> Encoded:
    """Append objects with these values."""
    made = [_encode(process, topic, index, parts) for index, parts in enumerate(objects)]
    return Encoded(
        tuple(named for named, _, _ in made),
        tuple(slice_ for _, slices, _ in made for slice_ in slices),
        {key: body for _, _, bodies in made for key, body in bodies.items()},
    )


def _encode(
    process: Process, topic: Topic, object_index: int, parts: Parts
) -> tuple[NewObject, list[NewSlice], dict[str, bytes]]:
    """One append object, as `OpenObject` makes it."""
    named = NewObject(
        kind=ObjectKind.APPEND,
        n0=process.position,
        upload_id=UploadId(process.new_id()),
        topic_id=topic.topic_id,
        size_bytes=0,
        crc32c=0,
        index_size_bytes=0,
        index_crc32c=0,
        holders=(PAPER,),
    )
    paper, encoder = Paper(), process.world.encoder
    made = OpenObject(paper.lanes(), named, topic.name, here=True)
    for partition, values in sorted(parts.items()):
        made.append(encoder.encode(TopicPartition(topic.topic_id, partition), _rows(process, values)))
    made.close()
    whole, index = made.published()
    encoder.rewind()
    of = {TopicPartition(topic.topic_id, partition): tuple(values) for partition, values in parts.items()}
    process.world.history.uploads[named.upload_id] = Uploaded(named.n0, of)
    return msgspec.structs.replace(whole, holders=()), slices_of(object_index, whole, index), paper.objects


def _rows(process: Process, values: Sequence[bytes]) -> Any:
    count = len(values)
    times = pa.array([max(process.now_ms(), 0) * 1000] * count, pa.int64()).cast(TIMESTAMP)
    keys = [key_of(value) for value in values] if process.world.is_compacted else [None] * count
    columns = [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), times]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value", "timestamp"])


def key_of(value: bytes) -> bytes:
    """The key of a record in a compacted topic: one of four, whoever wrote it."""
    return b"%d" % (int(value.rpartition(b"/")[2]) % 4)


def put_on(objects: Mapping[str, bytes], stores: Iterable[StoreId]) -> Steps:
    """Put objects onto stores, all at once, each object before its index. Returns the stores that have taken them."""
    left = list(stores)
    for key, body in objects.items():
        replies = yield [Call(store, "put", key, body) for store in left]
        left = [store for store, reply in zip(left, replies, strict=True) if reply is None or _is_there(reply)]
    return left


def _is_there(reply: object) -> bool:
    """A key that is taken has this upload's own object: nobody else draws its name."""
    return isinstance(reply, KeyExists)


def holders_among(state: ClusterState, stores: Sequence[StoreId]) -> Steps:
    """Those of the stores that are still in the life that `state` knows: read after the uploads."""
    replies = yield [Call(store, "get", INCARNATION) for store in stores]
    return [
        Holder(store, state.stores[store].registration)
        for store, reply in zip(stores, replies, strict=True)
        if incarnation_in(reply) == state.stores[store].incarnation and not state.stores[store].fenced
    ]


def incarnation_in(reply: object) -> str | None:
    """The incarnation in an INCARNATION; None if there is no answer or none is there."""
    if isinstance(reply, SparklogError):
        return None
    return str(msgspec.json.decode(reply)["incarnation"])  # type: ignore[call-overload]
