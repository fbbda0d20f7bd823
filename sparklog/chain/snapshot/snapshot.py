"""Snapshots: the whole state after entry n, as a manifest that names immutable chunks by checksum.

    meta/snapshot/<10^20-1-n>   manifest: one framed JSON document
    meta/chunks/<sha256>        the chunks (`chunks.py`): blocks of the tables, and the other parts of the state

A chunk that has not changed since the last snapshot is not written again. The new manifest names it, with the rows that
were removed from its table since. So the cost of a snapshot depends only on what changed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from sparklog.chain.damaged_chain import damage
from sparklog.chain.framing import frame, unframe
from sparklog.chain.snapshot.chunks import (
    Chunk,
    packed,
    put_chunk,
    read_block,
    refused_as_taken,
    table_chunks,
    unpacked,
)
from sparklog.chain.snapshot.stored_partition import StoredPartition, restored, stored
from sparklog.core.coordination import NO_COORDINATOR, Coordinator
from sparklog.core.errors import ChainDamaged, KeyExists, KeyNotFound, StoreUnavailable
from sparklog.core.groups.membership import ConsumerGroup
from sparklog.core.maintenance.cleaner import Cleaner
from sparklog.core.records import JobRan, LostRecords
from sparklog.core.state import (
    ApplicationState,
    ClusterState,
    CopiesLowered,
    ProducerState,
    SequencedBatch,
    Store,
    Topic,
)
from sparklog.core.tables.block_table import BlockTable
from sparklog.core.tables.column_blocks import Block
from sparklog.core.tables.copy_on_write import CopyOnWriteMap
from sparklog.core.tables.object_table import ObjectTable
from sparklog.core.tables.offset_table import OffsetKey, OffsetTable
from sparklog.core.tables.result_table import ResultTable
from sparklog.core.tables.retired_table import RetiredTable
from sparklog.core.tables.slice_table import SliceTable
from sparklog.core.types import (
    EntryNumber,
    Holder,
    ObjectNumber,
    ProducerId,
    StoreId,
    TopicPartition,
)
from sparklog.storage.keys import SNAPSHOTS, chunk_key, entry_key, parse_snapshot_key, snapshot_key
from sparklog.storage.object_store import ObjectStore, exists

T = TypeVar("T")
_log = logging.getLogger("sparklog")
PARALLEL_CHUNKS = 8


class ChunksGone(StoreUnavailable):
    """A snapshot could not be written because known chunks are gone. Forget all known chunks, and try again."""


class StoredProducer(msgspec.Struct, frozen=True, array_like=True):
    """`ProducerState` with its map as pairs, because a stored map can't have structs as keys."""

    producer_id: ProducerId
    producer_epoch: int
    last_used_ms: int
    batches: tuple[tuple[TopicPartition, tuple[SequencedBatch, ...]], ...]
    lost: tuple[LostRecords, ...] = ()


class SmallState(msgspec.Struct, frozen=True):
    """The small parts of the state. They are in one chunk, which nearly every snapshot writes again."""

    stores: tuple[Store, ...]
    producers: tuple[StoredProducer, ...]
    applications: dict[str, ApplicationState]
    jobs: tuple[JobRan, ...]
    released: dict[ObjectNumber, int]
    cleaners: tuple[tuple[TopicPartition, Cleaner], ...] = ()


class StoredGroups(msgspec.Struct, frozen=True):
    """The consumer groups, and the metadata texts that clients committed with their offsets.

    Each element of `metadata` is the number of a group, the number of a partition (`slice_table.partition_key`), and
    the text.
    """

    groups: tuple[ConsumerGroup, ...] = ()
    metadata: tuple[tuple[int, int, str], ...] = ()


class Manifest(msgspec.Struct, frozen=True):
    """One snapshot without the bytes of its chunks. `entry_hash` is the hash of entry `n`.

    `results` are the chunks of the table of applied commands. The chunk `partitions` names a store by its position in
    `stores`.
    """

    chain_id: str
    n: EntryNumber
    time_ms: int
    entry_hash: str
    floor: EntryNumber
    config: dict[str, str]
    counters: dict[str, int]
    holder_sets: tuple[tuple[Holder, ...], ...]
    slices: tuple[Chunk, ...]
    objects: tuple[Chunk, ...]
    topics: Chunk
    partitions: Chunk
    results: tuple[Chunk, ...]
    small: Chunk
    retired: tuple[Chunk, ...] = ()
    retired_topics: tuple[str, ...] = ()
    stores: tuple[StoreId, ...] = ()
    retired_stores: tuple[tuple[StoreId, ...], ...] = ()
    coordinator: Coordinator = NO_COORDINATOR
    ancestors: tuple[str, ...] = ()
    groups: Chunk | None = None
    offsets: tuple[Chunk, ...] = ()
    copies_lowered: CopiesLowered | None = None


_COUNTERS = ("next_topic_id", "next_object_number", "next_producer_id", "next_registration", "next_group_number")


@dataclass(slots=True)
class Prepared:
    """A snapshot that was taken from the state, but not written yet.

    `bodies` has the bytes of the new chunks, by SHA-256. The other chunks are already in the store.
    """

    manifest: Manifest
    bodies: dict[str, bytes] = field(default_factory=dict)


def prepare(state: ClusterState, entry_hash: str, known: dict[str, Chunk]) -> Prepared:
    """Encode a snapshot of `state` without writing it.

    `known`: the chunks in the store, by SHA-256; the new chunks of tables are added. The state does not change,
    except that each block remembers its chunk, so that the next snapshot need not encode it again.
    """
    prepared: dict[str, bytes] = {}

    def chunks(table: BlockTable) -> tuple[Chunk, ...]:
        return table_chunks(table.blocks, prepared, known)

    objects, retired = state.objects.in_blocks(), state.retired.in_blocks()
    producers = tuple(
        StoredProducer(
            producer.producer_id,
            producer.producer_epoch,
            producer.last_used_ms,
            tuple(producer.batches.items()),
            producer.lost,
        )
        for producer in state.producers.values()
    )
    small = SmallState(
        tuple(state.stores.values()),
        producers,
        dict(state.applications.items()),
        tuple(state.jobs.values()),
        dict(state.released.items()),
        cleaners=tuple((key, state.cleaners[key]) for key in sorted(state.cleaners)),
    )
    stores = tuple(sorted(state.stores))
    numbers = {store: number for number, store in enumerate(stores)}
    partitions = tuple(stored(partition, numbers) for partition in _in_order(state.partitions))
    texts = tuple((*key, state.offsets.metadata[key]) for key in sorted(state.offsets.metadata))
    groups = StoredGroups(_in_order(state.groups), texts)
    manifest = Manifest(
        state.chain_id,
        EntryNumber(state.n),
        state.time_ms,
        entry_hash,
        state.floor,
        state.config,
        {name: getattr(state, name) for name in _COUNTERS},
        objects.holder_sets,
        chunks(state.slices.in_blocks()),
        chunks(objects),
        packed(_in_order(state.topics), prepared, known),
        packed(partitions, prepared, known),
        chunks(state.results.in_blocks()),
        packed(small, prepared, known),
        chunks(retired),
        retired.topics,
        stores,
        retired.store_sets,
        state.coordinator,
        state.ancestors,
        packed(groups, prepared, known) if groups.groups else None,
        chunks(state.offsets.in_blocks()),
        state.copies_lowered,
    )
    return Prepared(manifest, prepared)


def write(store: ObjectStore, prepared: Prepared) -> Manifest:
    """Put the new chunks, then the manifest. Return the manifest that is in the store.

    It may be another process's snapshot of the same entry, which is as good but may name other chunks. Raises
    ChunksGone, and leaves no manifest, if a chunk that the manifest names was deleted as old meanwhile.
    """
    *chunks, (key, manifest) = objects_of(prepared)
    for chunk, body in chunks:
        put_chunk(store, chunk, body)
    try:
        store.put_if_absent(key, manifest)
    except KeyExists:
        try:
            existing = read_manifest(store, key)
        except KeyNotFound as error:
            raise refused_as_taken(store, key) from error
        if existing != prepared.manifest:  # it is ours if the reply to an earlier attempt at this put was lost
            return existing
    gone = missing_chunks(store, prepared.manifest)
    if gone:
        store.delete(key)
        raise ChunksGone(f"{gone[0]} at {store.url} was deleted as old while a snapshot that names it was written")
    return prepared.manifest


def missing_chunks(store: ObjectStore, manifest: Manifest) -> list[str]:
    """Return the keys of the chunks that a snapshot names and the store does not have."""
    keys = [chunk_key(sha256) for sha256 in known_chunks(manifest)]
    with ThreadPoolExecutor(PARALLEL_CHUNKS) as pool:
        return [
            key for key, there in zip(keys, pool.map(lambda key: exists(store, key), keys), strict=True) if not there
        ]


def objects_of(prepared: Prepared) -> Iterator[tuple[str, bytes]]:
    """Yield the keys and bodies to put, in this order: the new chunks, then the manifest that names them."""
    for sha256, body in prepared.bodies.items():
        yield chunk_key(sha256), body
    yield snapshot_key(prepared.manifest.n), frame("snapshot", msgspec.json.encode(prepared.manifest))


def load_newest(store: ObjectStore) -> tuple[Manifest, ClusterState] | None:
    """Load the newest snapshot that can be read. None if the state must be built from the entries alone.

    A damaged snapshot is skipped with a warning, because older snapshots and the entries lead to the same state. Raises
    ChainDamaged if all snapshots are damaged and entry 0 is gone, UnsupportedVersion, and the store's errors.
    """
    first: ChainDamaged | None = None
    for key in _newest_first(store):
        try:
            manifest = read_manifest(store, key)
            return manifest, load(store, manifest)
        except ChainDamaged as damaged:
            if exists(store, key):  # otherwise it was deleted as old while it was read
                first = first or damaged
                _log.warning("another snapshot or the entries are read instead: %s", damaged)
        except KeyNotFound:  # it was deleted as old since it was found
            pass
    if first is not None and not exists(store, entry_key(0)):
        raise first
    return None


def _newest_first(store: ObjectStore) -> Iterator[str]:
    """Yield the keys of manifests, newest first.

    A new manifest that appears meanwhile comes next, because vacuum may delete older ones soon.
    """
    tried: set[str] = set()
    key = store.first_key_after(SNAPSHOTS, SNAPSHOTS)
    while key is not None:
        if key not in tried:
            tried.add(key)
            yield key
        newest_key = store.first_key_after(SNAPSHOTS, SNAPSHOTS)
        key = store.first_key_after(SNAPSHOTS, key) if newest_key in tried else newest_key


def newest(store: ObjectStore) -> Manifest | None:
    """Return the manifest of the newest snapshot; None if there is none. Raises ChainDamaged, UnsupportedVersion."""
    for key in _newest_first(store):
        try:
            return read_manifest(store, key)
        except KeyNotFound:  # it was deleted as old since it was found
            pass
    return None


def read_manifest(store: ObjectStore, key: str) -> Manifest:
    """Read the manifest under `key`. Raises KeyNotFound, ChainDamaged, UnsupportedVersion."""
    return decoded_manifest(store.get(key), key, store.url)


def decoded_manifest(body: bytes | memoryview, key: str, url: str) -> Manifest:
    """Decode the manifest that was read from `key` at `url`. Raises ChainDamaged, UnsupportedVersion."""
    payload = unframe("snapshot", body, key, url)
    try:
        manifest = msgspec.json.decode(payload, type=Manifest)
    except msgspec.DecodeError as error:
        raise damage(key, f"its checksum is right, but it can't be read: {error}", url) from error
    if manifest.n != parse_snapshot_key(key):
        raise damage(key, f"wanted the snapshot of entry {parse_snapshot_key(key)}, found {manifest.n}", url)
    return manifest


def load(store: ObjectStore, manifest: Manifest) -> ClusterState:
    """Load the state that the snapshot holds. Raises ChainDamaged if a chunk is missing, truncated or altered."""
    with ThreadPoolExecutor(PARALLEL_CHUNKS) as pool:

        def blocks(table: type[BlockTable], chunks: tuple[Chunk, ...]) -> Iterator[Block]:
            return pool.map(lambda chunk: read_block(store, manifest.n, chunk, table.DTYPES), chunks)

        slices, objects = blocks(SliceTable, manifest.slices), blocks(ObjectTable, manifest.objects)
        results, retired = blocks(ResultTable, manifest.results), blocks(RetiredTable, manifest.retired)
        offsets = blocks(OffsetTable, manifest.offsets)
        topics = unpacked(store, manifest.n, manifest.topics, tuple[Topic, ...])
        partitions = [
            restored(partition, manifest.stores)
            for partition in unpacked(store, manifest.n, manifest.partitions, tuple[StoredPartition, ...])
        ]
        groups = (
            StoredGroups() if manifest.groups is None else unpacked(store, manifest.n, manifest.groups, StoredGroups)
        )
        small = unpacked(store, manifest.n, manifest.small, SmallState)
        return ClusterState(
            n=manifest.n,
            time_ms=manifest.time_ms,
            chain_id=manifest.chain_id,
            ancestors=manifest.ancestors,
            floor=manifest.floor,
            config=manifest.config,
            copies_lowered=manifest.copies_lowered,
            stores=CopyOnWriteMap({known_store.store: known_store for known_store in small.stores}),
            topics=CopyOnWriteMap({topic.topic_id: topic for topic in topics}),
            topic_ids=CopyOnWriteMap({topic.name: topic.topic_id for topic in topics}),
            partitions=CopyOnWriteMap(
                {TopicPartition(partition.topic_id, partition.partition): partition for partition in partitions}
            ),
            cleaners=CopyOnWriteMap(small.cleaners),
            slices=SliceTable(slices),
            objects=ObjectTable(objects, manifest.holder_sets),
            released=CopyOnWriteMap(small.released),
            retired=RetiredTable(retired, manifest.retired_topics, manifest.retired_stores),
            producers=CopyOnWriteMap(
                (
                    producer.producer_id,
                    ProducerState(
                        producer.producer_id,
                        producer.producer_epoch,
                        producer.last_used_ms,
                        dict(producer.batches),
                        producer.lost,
                    ),
                )
                for producer in small.producers
            ),
            applications=CopyOnWriteMap(small.applications),
            results=ResultTable(results, manifest.floor),
            jobs=CopyOnWriteMap({job.job: job for job in small.jobs}),
            groups=CopyOnWriteMap({group.name: group for group in groups.groups}),
            offsets=OffsetTable(offsets, ((OffsetKey(number, key), text) for number, key, text in groups.metadata)),
            coordinator=manifest.coordinator,
            **manifest.counters,
        )


def known_chunks(manifest: Manifest) -> dict[str, Chunk]:
    """Return the chunks that a snapshot names, by SHA-256. Later snapshots need not write them again."""
    groups = () if manifest.groups is None else (manifest.groups,)
    small = (manifest.topics, manifest.partitions, manifest.small, *groups)
    tables = (*manifest.slices, *manifest.objects, *manifest.results, *manifest.retired, *manifest.offsets)
    return {chunk.sha256: chunk for chunk in (*tables, *small)}


def _in_order(values: Mapping[Any, T]) -> tuple[T, ...]:
    """Return the values in the order of their keys, so that equal maps give equal bytes in every process."""
    return tuple(values[key] for key in sorted(values))
