"""Snapshots: the whole state after entry n, as a manifest that names immutable chunks by checksum.

    meta/snapshot/<10^20-1-n>   manifest: one framed JSON document
    meta/chunks/<sha256>        the tables of slices, objects and commands as Arrow IPC files, the rest as msgpack

A chunk that has not changed since the last snapshot is named again, not written again; rows of a table that
died since are listed in the manifest. So a snapshot costs what changed.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import google_crc32c
import msgspec
import numpy as np

from sparklog.chain.damage import damage, damaged_chunk
from sparklog.chain.framing import frame, unframe
from sparklog.chain.stored_partition import StoredPartition, restored, stored
from sparklog.core import object_table, result_table, retired_table, slice_table
from sparklog.core.column_blocks import Block, ChunkName, Column
from sparklog.core.copy_on_write import CopyOnWriteMap
from sparklog.core.errors import ChainDamaged, KeyExists, KeyNotFound, StoreUnavailable
from sparklog.core.object_table import ObjectTable
from sparklog.core.records import CommandResult, JobRan
from sparklog.core.result_table import AppliedBy, ResultTable, label_hash
from sparklog.core.retired_table import Retired, RetiredTable
from sparklog.core.slice_table import SliceTable
from sparklog.core.state import (
    ApplicationState,
    ClusterState,
    Partition,
    Producer,
    SequencedBatch,
    Store,
    Topic,
)
from sparklog.core.types import (
    CommandId,
    EntryNumber,
    Holder,
    ObjectNumber,
    ProducerId,
    StoreId,
    TopicId,
    TopicPartition,
)
from sparklog.storage.keys import SNAPSHOTS, chunk_key, entry_key, parse_snapshot_key, snapshot_key
from sparklog.storage.object_store import ObjectStore

T = TypeVar("T")
_log = logging.getLogger("sparklog")
PARALLEL_CHUNKS = 8


class ChunksGone(StoreUnavailable):
    """A snapshot could not be written because chunks that were known to be there are gone: know none, and try again."""


class TableChunk(msgspec.Struct, frozen=True):
    """A chunk of a table: its checksums, size and rows, and runs [low, high) of rows that died since."""

    sha256: str
    crc32c: int
    size_bytes: int
    rows: int
    dead: tuple[tuple[int, int], ...] = ()


class StoredProducer(msgspec.Struct, frozen=True, array_like=True):
    """`Producer` without a map whose keys are structs."""

    producer_id: ProducerId
    producer_epoch: int
    last_used_ms: int
    batches: tuple[tuple[TopicPartition, tuple[SequencedBatch, ...]], ...]


class SmallState(msgspec.Struct, frozen=True):
    """What changes with nearly every entry and is small."""

    stores: tuple[Store, ...]
    producers: tuple[StoredProducer, ...]
    applications: dict[str, ApplicationState]
    jobs: tuple[JobRan, ...]
    released: dict[ObjectNumber, int]
    retired: tuple[Retired, ...] = ()  # as older versions wrote them


class Manifest(msgspec.Struct, frozen=True):
    """One snapshot: everything but the chunks' bytes. `entry_hash` is the hash of entry n.

    `results` are chunks of the table of commands. Older versions wrote one chunk with all results in full. Partitions
    name a store by its position in `stores`.
    """

    chain_id: str
    n: EntryNumber
    time_ms: int
    entry_hash: str
    floor: EntryNumber
    config: dict[str, str]
    counters: dict[str, int]
    holder_sets: tuple[tuple[Holder, ...], ...]
    slices: tuple[TableChunk, ...]
    objects: tuple[TableChunk, ...]
    topics: TableChunk
    partitions: TableChunk
    results: tuple[TableChunk, ...] | TableChunk
    small: TableChunk
    retired: tuple[TableChunk, ...] = ()
    retired_topics: tuple[str, ...] = ()
    stores: tuple[StoreId, ...] = ()
    retired_stores: tuple[tuple[StoreId, ...], ...] = ()


_COUNTERS = ("next_topic_id", "next_object_number", "next_producer_id", "next_registration")


@dataclass(slots=True)
class Prepared:
    """A snapshot that was taken from the state, not yet written. Chunks of None are in the store already."""

    manifest: Manifest
    bodies: dict[str, bytes] = field(default_factory=dict)


def prepare(state: ClusterState, entry_hash: str, known: dict[str, TableChunk]) -> Prepared:
    """Take a snapshot of `state`. `known`: chunks already in the store; those that this snapshot adds are noted there.

    The state does not change; its blocks remember which chunks hold them, so that the next snapshot need not encode
    them again.
    """
    prepared: dict[str, bytes] = {}
    stored_objects = state.objects.in_blocks()
    slices = _table_chunks(state.slices.in_blocks().blocks, prepared, known)
    objects = _table_chunks(stored_objects.blocks, prepared, known)
    producers = tuple(
        StoredProducer(each.producer_id, each.producer_epoch, each.last_used_ms, tuple(each.batches.items()))
        for each in state.producers.values()
    )
    small = SmallState(
        tuple(state.stores.values()),
        producers,
        dict(state.applications.items()),
        tuple(state.jobs.values()),
        dict(state.released.items()),
    )
    stores = tuple(sorted(state.stores))
    numbers = {store: number for number, store in enumerate(stores)}
    partitions = tuple(stored(each, numbers) for each in _in_order(state.partitions))
    stored_retired = state.retired.in_blocks()
    manifest = Manifest(
        state.chain_id,
        EntryNumber(state.n),
        state.time_ms,
        entry_hash,
        state.floor,
        state.config,
        {name: getattr(state, name) for name in _COUNTERS},
        stored_objects.holder_sets,
        slices,
        objects,
        _packed(_in_order(state.topics), prepared, known),
        _packed(partitions, prepared, known),
        _table_chunks(state.results.in_blocks().blocks, prepared, known),
        _packed(small, prepared, known),
        _table_chunks(stored_retired.blocks, prepared, known),
        stored_retired.topics,
        stores,
        stored_retired.store_sets,
    )
    return Prepared(manifest, prepared)


def write(store: ObjectStore, prepared: Prepared) -> Manifest:
    """Put the new chunks, then the manifest. Returns the one that is there: another's of the same entry is as good.

    The chunks of the other's may be others than one's own. Raises ChunksGone, with nothing written, if a chunk that the
    manifest names was deleted meanwhile because no snapshot had named it, or only old ones.
    """
    *chunks, (key, manifest) = objects_of(prepared)
    for chunk, body in chunks:
        _put_chunk(store, chunk, body)
    try:
        store.put_if_absent(key, manifest)
    except KeyExists:
        try:
            return read_manifest(store, key)
        except KeyNotFound as error:
            raise _not_there(store, key) from error
    gone = missing_chunks(store, prepared.manifest)
    if gone:
        store.delete(key)
        raise ChunksGone(f"{gone[0]} at {store.url} was deleted as old while a snapshot that names it was written")
    return prepared.manifest


def missing_chunks(store: ObjectStore, manifest: Manifest) -> list[str]:
    """The keys of chunks that a snapshot names and that are not there."""
    keys = [chunk_key(sha256) for sha256 in known_chunks(manifest)]
    with ThreadPoolExecutor(PARALLEL_CHUNKS) as pool:
        return [key for key, there in zip(keys, pool.map(lambda key: _has(store, key), keys), strict=True) if not there]


def objects_of(prepared: Prepared) -> Iterator[tuple[str, bytes]]:
    """Keys and bodies in the order in which they are written: the new chunks, then the manifest that names them."""
    for sha256, body in prepared.bodies.items():
        yield chunk_key(sha256), body
    yield snapshot_key(prepared.manifest.n), frame("snapshot", msgspec.json.encode(prepared.manifest))


def _put_chunk(store: ObjectStore, key: str, body: bytes) -> None:
    """Put a chunk unless it is there; one that is damaged is put anew, since its name says which bytes it has.

    A chunk that is there is read: a manifest must not name what a lost try left out.
    """
    try:
        store.put_if_absent(key, body)
    except KeyExists:
        try:
            found = store.get(key)
        except KeyNotFound as error:
            raise _not_there(store, key) from error
        if bytes(found) != body:
            _log.warning("%s at %s was damaged: it is written anew", key, store.url)
            store.delete(key)
            store.put_if_absent(key, body)


def _not_there(store: ObjectStore, key: str) -> StoreUnavailable:
    return StoreUnavailable(f"{key} at {store.url} was refused as taken, and is not there")


def load_newest(store: ObjectStore) -> tuple[Manifest, ClusterState] | None:
    """The newest snapshot that can be read; None if the state is to be built from the entries.

    A damaged one is passed over with a warning, because older snapshots and the entries say the same; the next
    snapshot takes its place. Raises ChainDamaged if none can be read and the first entries are gone.
    """
    first: ChainDamaged | None = None
    for key in _newest_first(store):
        try:
            manifest = read_manifest(store, key)
            return manifest, load(store, manifest)
        except ChainDamaged as damaged:
            if _has(store, key):  # else it was deleted as old while it was read
                first = first or damaged
                _log.warning("another snapshot is read, or the entries: %s", damaged)
        except KeyNotFound:  # it was deleted as old since it was found
            pass
    if first is not None and not _has(store, entry_key(0)):
        raise first
    return None


def _newest_first(store: ObjectStore) -> Iterator[str]:
    """Keys of manifests. If a newer one appears meanwhile, it comes next: the older ones may be about to go."""
    tried: set[str] = set()
    key = store.first_key_after(SNAPSHOTS, SNAPSHOTS)
    while key is not None:
        if key not in tried:
            tried.add(key)
            yield key
        newest_key = store.first_key_after(SNAPSHOTS, SNAPSHOTS)
        key = store.first_key_after(SNAPSHOTS, key) if newest_key in tried else newest_key


def _has(store: ObjectStore, key: str) -> bool:
    try:
        store.size(key)
    except KeyNotFound:
        return False
    return True


def newest(store: ObjectStore) -> Manifest | None:
    """The manifest of the newest snapshot, or None before the first. Raises ChainDamaged."""
    for key in _newest_first(store):
        try:
            return read_manifest(store, key)
        except KeyNotFound:  # it was deleted as old since it was found
            pass
    return None


def read_manifest(store: ObjectStore, key: str) -> Manifest:
    """The manifest under `key`. Raises KeyNotFound, ChainDamaged, UnsupportedVersion."""
    payload = unframe("snapshot", store.get(key), key, store.url)
    try:
        manifest = msgspec.json.decode(payload, type=Manifest)
    except msgspec.DecodeError as error:
        raise damage(key, f"its checksum is right, but it can't be read: {error}", store.url) from error
    if manifest.n != parse_snapshot_key(key):
        raise damage(key, f"wanted the snapshot of entry {parse_snapshot_key(key)}, found {manifest.n}", store.url)
    return manifest


def load(store: ObjectStore, manifest: Manifest) -> ClusterState:
    """The state that the snapshot holds. Raises ChainDamaged if a chunk is missing, cut or altered."""
    with ThreadPoolExecutor(PARALLEL_CHUNKS) as pool:
        slices = pool.map(lambda chunk: _block(store, manifest.n, chunk, slice_table.DTYPES), manifest.slices)
        objects = pool.map(lambda chunk: _block(store, manifest.n, chunk, object_table.DTYPES), manifest.objects)
        topics = _unpacked(store, manifest.n, manifest.topics, tuple[Topic, ...])
        partitions = [
            restored(each, manifest.stores)
            for each in _unpacked(store, manifest.n, manifest.partitions, tuple[StoredPartition, ...])
        ]
        topics = _with_stores(topics, partitions)
        results = _results(pool, store, manifest)
        small = _unpacked(store, manifest.n, manifest.small, SmallState)
        return ClusterState(
            n=manifest.n,
            time_ms=manifest.time_ms,
            chain_id=manifest.chain_id,
            floor=manifest.floor,
            config=manifest.config,
            stores=CopyOnWriteMap({each.store: each for each in small.stores}),
            topics=CopyOnWriteMap({each.topic_id: each for each in topics}),
            topic_ids=CopyOnWriteMap({each.name: each.topic_id for each in topics}),
            partitions=CopyOnWriteMap({TopicPartition(each.topic_id, each.partition): each for each in partitions}),
            slices=SliceTable(slices),
            objects=ObjectTable(objects, manifest.holder_sets),
            released=CopyOnWriteMap(small.released),
            retired=_retired(pool, store, manifest, small),
            producers=CopyOnWriteMap(
                (
                    each.producer_id,
                    Producer(each.producer_id, each.producer_epoch, each.last_used_ms, dict(each.batches)),
                )
                for each in small.producers
            ),
            applications=CopyOnWriteMap(small.applications),
            results=results,
            jobs=CopyOnWriteMap({each.job: each for each in small.jobs}),
            **manifest.counters,
        )


def _with_stores(topics: Iterable[Topic], partitions: Iterable[Partition]) -> tuple[Topic, ...]:
    """The topics with the stores of their replicas, which format 1 did not name: there, no replica ever moved."""
    stores: dict[TopicId, set[StoreId]] = {}
    for each in partitions:
        stores.setdefault(each.topic_id, set()).update(each.replication.replicas)
    return tuple(each if each.stores else each.on(stores.get(each.topic_id, ())) for each in topics)


def _results(pool: ThreadPoolExecutor, store: ObjectStore, manifest: Manifest) -> ResultTable:
    chunks = manifest.results
    if isinstance(chunks, tuple):
        blocks = pool.map(lambda chunk: _block(store, manifest.n, chunk, result_table.DTYPES), chunks)
        return ResultTable(blocks, manifest.floor)
    table = ResultTable((), manifest.floor)
    for command_id, result in _unpacked(store, manifest.n, chunks, dict[CommandId, CommandResult]).items():
        table.add(AppliedBy(command_id, result.n, result.n0, label_hash(result.label)))
    return table


def _retired(pool: ThreadPoolExecutor, store: ObjectStore, manifest: Manifest, small: SmallState) -> RetiredTable:
    blocks = pool.map(lambda chunk: _block(store, manifest.n, chunk, retired_table.DTYPES), manifest.retired)
    table = RetiredTable(blocks, manifest.retired_topics, manifest.retired_stores)
    for each in small.retired:
        table.add_all(np.array([each.number], dtype=np.int64), each.delete_after_ms, each.topic, each.stores)
    return table


def known_chunks(manifest: Manifest) -> dict[str, TableChunk]:
    """The chunks that a snapshot names: they need not be written again."""
    results = (manifest.results,) if isinstance(manifest.results, TableChunk) else manifest.results
    small = (manifest.topics, manifest.partitions, manifest.small)
    tables = (*manifest.slices, *manifest.objects, *results, *manifest.retired)
    return {chunk.sha256: chunk for chunk in (*tables, *small)}


def _in_order(values: Mapping[Any, T]) -> tuple[T, ...]:
    """The values by key: the same map leads to the same bytes in every process."""
    return tuple(values[key] for key in sorted(values))


def _table_chunks(
    blocks: Sequence[Block], prepared: dict[str, bytes], known: dict[str, TableChunk]
) -> tuple[TableChunk, ...]:
    chunks = []
    for block in blocks:
        chunk = known.get(block.chunk.sha256) if block.chunk.sha256 else None
        if chunk is None:
            body = _encode_columns(block.columns)
            chunk = replace_dead(_chunk_of(body, block.rows), ())
            prepared[chunk.sha256] = body
            known[chunk.sha256] = chunk
            block.chunk.sha256 = chunk.sha256
        chunks.append(replace_dead(chunk, tuple(block.dead_runs())))
    return tuple(chunks)


def replace_dead(chunk: TableChunk, dead: tuple[tuple[int, int], ...]) -> TableChunk:
    """The same chunk with other dead rows."""
    return msgspec.structs.replace(chunk, dead=dead)


def _chunk_of(body: bytes, rows: int) -> TableChunk:
    return TableChunk(hashlib.sha256(body).hexdigest(), google_crc32c.value(body), len(body), rows)


def _packed(value: object, prepared: dict[str, bytes], known: Mapping[str, TableChunk]) -> TableChunk:
    body = msgspec.msgpack.encode(value)
    chunk = _chunk_of(body, 0)
    if chunk.sha256 not in known:
        prepared[chunk.sha256] = body
    return chunk


def _unpacked(store: ObjectStore, n: int, chunk: TableChunk, kind: Callable[..., T] | type[T]) -> T:
    body = _body(store, n, chunk)
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.DecodeError as error:
        found = f"its checksum is right, but it can't be read: {error}"
        raise damaged_chunk(snapshot_key(n), chunk_key(chunk.sha256), found, store.url) from error


def _body(store: ObjectStore, n: int, chunk: TableChunk) -> memoryview:
    """The bytes of a chunk that the snapshot of entry `n` names. Raises ChainDamaged."""
    import pyarrow as pa

    key = chunk_key(chunk.sha256)
    try:
        body = store.get(key)
    except KeyNotFound as error:
        raise damaged_chunk(snapshot_key(n), key, "it is not there", store.url) from error
    found = google_crc32c.value(pa.py_buffer(body))
    if len(body) != chunk.size_bytes or found != chunk.crc32c:
        wanted = f"wanted {chunk.size_bytes} bytes with CRC32C {chunk.crc32c:08x}"
        text = f"{wanted}, found {len(body)} bytes with {found:08x}"
        raise damaged_chunk(snapshot_key(n), key, text, store.url)
    return body


def _encode_columns(columns: Mapping[str, Column]) -> bytes:
    import pyarrow as pa

    batch = pa.RecordBatch.from_arrays([pa.array(np.asarray(each)) for each in columns.values()], list(columns))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _block(store: ObjectStore, n: int, chunk: TableChunk, dtypes: Mapping[str, str]) -> Block:
    import pyarrow as pa

    batch: Any = pa.ipc.open_file(pa.py_buffer(_body(store, n, chunk))).get_batch(0)
    there = set(batch.schema.names)
    columns = {
        name: batch.column(name).to_numpy(zero_copy_only=True) if name in there else np.full(chunk.rows, -1, dtype)
        for name, dtype in dtypes.items()  # -1: the chunk is older than the column
    }
    dead = None
    if chunk.dead:
        dead = np.zeros(chunk.rows, dtype=np.bool_)
        for low, high in chunk.dead:
            dead[low:high] = True
    return Block(columns, chunk.rows, dead, _dead_rows(chunk.dead), ChunkName(chunk.sha256))


def _dead_rows(runs: Sequence[tuple[int, int]]) -> int:
    return sum(high - low for low, high in runs)
