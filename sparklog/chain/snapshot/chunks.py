"""Chunks of a snapshot: immutable objects, each named by the checksum of its bytes.

A block of a table is an Arrow IPC file; everything else is msgpack. A chunk never changes, so a new snapshot may name
one that was written for an earlier snapshot.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import google_crc32c
import msgspec
import numpy as np

from sparklog.chain.arrow_table import NoArrowTable, read_table
from sparklog.chain.damaged_chain import damaged_chunk
from sparklog.core.describe.readable import counted
from sparklog.core.errors import KeyExists, KeyNotFound, StoreUnavailable
from sparklog.core.tables.column_blocks import Block, ChunkName, Column
from sparklog.storage.keys import chunk_key, snapshot_key
from sparklog.storage.object_store import ObjectStore

T = TypeVar("T")
_log = logging.getLogger("sparklog")


class Chunk(msgspec.Struct, frozen=True):
    """Description of a chunk, an immutable object in the store: its checksums and its size.

    For a chunk of a table, `rows` is its number of rows, and `dead` has the rows that were removed from the table since
    the chunk was written, as ranges [low, high).
    """

    sha256: str
    crc32c: int
    size_bytes: int
    rows: int
    dead: tuple[tuple[int, int], ...] = ()


def table_chunks(blocks: Sequence[Block], prepared: dict[str, bytes], known: dict[str, Chunk]) -> tuple[Chunk, ...]:
    """Return the chunks of a table's blocks. `known` and `prepared` are by SHA-256.

    A block without a chunk in `known` is encoded: its chunk is added to `known`, and its bytes to `prepared`.
    """
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


def replace_dead(chunk: Chunk, dead: tuple[tuple[int, int], ...]) -> Chunk:
    """Return a copy of `chunk` whose dead rows are the ranges `dead`, each [low, high)."""
    return msgspec.structs.replace(chunk, dead=dead)


def _chunk_of(body: bytes, rows: int) -> Chunk:
    return Chunk(hashlib.sha256(body).hexdigest(), google_crc32c.value(body), len(body), rows)


def packed(value: object, prepared: dict[str, bytes], known: Mapping[str, Chunk]) -> Chunk:
    """Encode a value as msgpack, and return its chunk. Add the bytes to `prepared` unless `known` has the chunk."""
    body = msgspec.msgpack.encode(value)
    chunk = _chunk_of(body, 0)
    if chunk.sha256 not in known:
        prepared[chunk.sha256] = body
    return chunk


def put_chunk(store: ObjectStore, key: str, body: bytes) -> None:
    """Put a chunk unless it exists. A damaged chunk is replaced.

    An existing chunk is read and compared, because a manifest must not name a chunk with other bytes.
    """
    try:
        store.put_if_absent(key, body)
    except KeyExists:
        try:
            stored = store.get(key)
        except KeyNotFound as error:
            raise refused_as_taken(store, key) from error
        if bytes(stored) != body:
            _log.warning("%s at %s was damaged: it is written again", key, store.url)
            store.delete(key)
            store.put_if_absent(key, body)


def refused_as_taken(store: ObjectStore, key: str) -> StoreUnavailable:
    """Return the error for a store that refuses a key as taken, but has no object under it."""
    return StoreUnavailable(f"{key} at {store.url} was refused as taken, and is not there")


def unpacked(store: ObjectStore, n: int, chunk: Chunk, kind: Callable[..., T] | type[T]) -> T:
    """Read a chunk that the snapshot of entry `n` names, and decode its value as `kind`. Raises ChainDamaged."""
    body = _body(store, n, chunk)
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.DecodeError as error:
        reason = f"its checksum is right, but it can't be read: {error}"
        raise damaged_chunk(snapshot_key(n), chunk_key(chunk.sha256), reason, store.url) from error


def _body(store: ObjectStore, n: int, chunk: Chunk) -> memoryview:
    """Read a chunk that the snapshot of entry `n` names. Raises ChainDamaged if it is missing or damaged."""
    import pyarrow as pa

    key = chunk_key(chunk.sha256)
    try:
        body = store.get(key)
    except KeyNotFound as error:
        raise damaged_chunk(snapshot_key(n), key, "it is not there", store.url) from error
    crc32c = google_crc32c.value(pa.py_buffer(body))
    if len(body) != chunk.size_bytes or crc32c != chunk.crc32c:
        wanted = f"wanted {chunk.size_bytes} bytes with CRC32C {chunk.crc32c:08x}"
        text = f"{wanted}, found {len(body)} bytes with {crc32c:08x}"
        raise damaged_chunk(snapshot_key(n), key, text, store.url)
    return body


def _encode_columns(columns: Mapping[str, Column]) -> bytes:
    import pyarrow as pa

    batch = pa.RecordBatch.from_arrays([pa.array(np.asarray(column)) for column in columns.values()], list(columns))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def read_block(store: ObjectStore, n: int, chunk: Chunk, dtypes: Mapping[str, str]) -> Block:
    """Read the block in a chunk that the snapshot of entry `n` names. `dtypes` has its columns. Raises ChainDamaged."""
    body = _body(store, n, chunk)
    try:
        batch = read_table(body, {name: np.dtype(kind).name for name, kind in dtypes.items()})
        # A view, like that of `to_numpy`, which would import pandas.
        columns: dict[str, Any] = {name: np.from_dlpack(batch.column(name)) for name in dtypes}
        if batch.num_rows != chunk.rows:
            raise NoArrowTable(f"wanted {counted(chunk.rows, 'row')}, found {batch.num_rows:,}")
    except (NoArrowTable, TypeError) as error:  # TypeError: a column has nulls
        reason = f"its checksum is right, but {error}"
        raise damaged_chunk(snapshot_key(n), chunk_key(chunk.sha256), reason, store.url) from error
    dead = None
    if chunk.dead:
        dead = np.zeros(chunk.rows, dtype=np.bool_)
        for low, high in chunk.dead:
            dead[low:high] = True
    return Block(columns, chunk.rows, dead, _dead_rows(chunk.dead), ChunkName(chunk.sha256))


def _dead_rows(runs: Sequence[tuple[int, int]]) -> int:
    return sum(high - low for low, high in runs)
