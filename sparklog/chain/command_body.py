"""The objects and slices of a large append, in one immutable Arrow object beside the chain.

An entry of many thousand slices would be slow to read for everybody; it names this object instead
(`AppendedByReference`). The body has no offsets: they follow from the state in front of the entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from sparklog.chain.clock import Deadline, pauses
from sparklog.chain.damage import damage
from sparklog.core.commands import Append
from sparklog.core.errors import (
    ChainDamaged,
    KeyExists,
    KeyNotFound,
    OutcomeUnknown,
    RequestTimedOut,
    StoreUnavailable,
)
from sparklog.core.readable import counted, duration, exact_amount
from sparklog.core.records import Appended, AppendedByReference
from sparklog.core.types import CommandId, EntryNumber, NewObject, NewSlice, ProducerSpan
from sparklog.storage.keys import command_key
from sparklog.storage.object_store import ObjectStore

SLICES_INLINE = 1_000  # an append of more slices goes by reference

_COLUMNS = (
    ("object_index", "int32"),
    ("topic_id", "int32"),
    ("partition", "int32"),
    ("records", "int64"),
    ("position", "int64"),
    ("length", "int64"),
    ("first_batch", "int32"),
    ("batches", "int32"),
    ("min_timestamp_us", "int64"),
    ("max_timestamp_us", "int64"),
)
_SPAN_COLUMNS = (
    ("producer_id", "int64"),
    ("producer_epoch", "int32"),
    ("first_sequence", "int32"),
    ("last_sequence", "int32"),
)


def write_body(
    store: ObjectStore,
    command_id: CommandId,
    n0: EntryNumber,
    command: Append,
    appended: Appended,
    deadline: Deadline,
) -> AppendedByReference:
    """Put the body of `command`, and give the record that stands for `appended`. A repeat finds its own object.

    Nothing names the body before its entry does, so an unknown outcome is no doubt: it is tried again. Raises
    RequestTimedOut, ChainDamaged (something else lies under the command's key), or the store's own error.
    """
    body = encode_body(command.objects, command.slices)
    key = command_key(n0, command_id)
    for pause_ms in pauses():
        try:
            try:
                store.put_if_absent(key, body)
            except KeyExists:
                body = _own(key, bytes(store.get(key)), command)
            return AppendedByReference(
                hashlib.sha256(body).hexdigest(),
                len(body),
                len(command.objects),
                len(command.slices),
                appended.ranges,
                appended.application,
                appended.label,
            )
        except (OutcomeUnknown, StoreUnavailable, KeyNotFound) as error:
            if deadline.passed():
                raise RequestTimedOut(
                    f"{key} at {store.url} could not be written in {duration(deadline.timeout_ms)}: {error}"
                ) from error
        deadline.clock.pause(pause_ms)
    raise AssertionError("pauses never end")


def read_body(
    store: ObjectStore, command_id: CommandId, n0: EntryNumber, record: AppendedByReference, n: int
) -> Append:
    """The append that entry `n` names by `record`. Raises ChainDamaged, StoreUnavailable."""
    key = command_key(n0, command_id)
    try:
        body = store.get(key)
    except KeyNotFound as error:
        raise damage(key, f"entry {n} names it, it is not there", store.url) from error
    found = hashlib.sha256(body).hexdigest()
    if found != record.body_sha256:
        wanted = f"entry {n} names {record.body_size_bytes} bytes with SHA-256 {record.body_sha256}"
        raise damage(key, f"{wanted}, found {len(body)} bytes with {found}", store.url)
    objects, slices = decode_body(body)
    return Append(objects, slices, (), record.application, record.label)


def _own(key: str, found: bytes, command: Append) -> bytes:
    """`found`, if it says what `command` says: another version may have written other bytes for the same."""
    try:
        same = decode_body(found) == (command.objects, command.slices)
    except (ValueError, KeyError, msgspec.MsgspecError):  # Arrow's errors are ValueErrors
        same = False
    if not same:
        wanted = f"wanted this command's own {counted(len(command.slices), 'slice')}"
        what = f"{wanted}, found {exact_amount(len(found))} of something else"
        raise ChainDamaged(f"{key}: {what}; nothing names it yet: move it away, then write again")
    return found


def encode_body(objects: Sequence[NewObject], slices: Sequence[NewSlice]) -> bytes:
    """An Arrow IPC file: a row per slice; the objects stand in the schema's metadata as JSON."""
    import pyarrow as pa

    spans = [each.producer for each in slices]
    columns = {name: pa.array([getattr(each, name) for each in slices], kind) for name, kind in _COLUMNS}
    for name, kind in _SPAN_COLUMNS:
        columns[name] = pa.array([None if span is None else getattr(span, name) for span in spans], kind)
    table = pa.table(columns).replace_schema_metadata({"sparklog.objects": msgspec.json.encode(objects)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def decode_body(body: bytes | memoryview) -> tuple[tuple[NewObject, ...], tuple[NewSlice, ...]]:
    """Inverse of `encode_body`."""
    import pyarrow as pa

    table = pa.ipc.open_file(pa.py_buffer(body)).read_all()
    objects = msgspec.json.decode(table.schema.metadata[b"sparklog.objects"], type=tuple[NewObject, ...])
    columns = [table[name].to_pylist() for name, _ in (*_COLUMNS, *_SPAN_COLUMNS)]
    plain = len(_COLUMNS)
    return objects, tuple(_slice_of(row[:plain], row[plain:]) for row in zip(*columns, strict=True))


def _slice_of(fields: tuple[int, ...], span: tuple[int | None, ...]) -> NewSlice:
    producer = None if span[0] is None else msgspec.convert(span, ProducerSpan)
    return msgspec.convert((*fields, producer), NewSlice)
