"""The body of a large append: its objects and slices, in an immutable Arrow object of its own.

An entry with many thousand slices would be slow for every reader, so it names this object instead
(`AppendedByReference`). The body has only the offsets that slices of mirror topics name: readers compute all others
from the state before the entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from sparklog.chain.arrow_table import NoArrowTable, read_table
from sparklog.chain.chain_requests import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, ChainMachine, Get, Pause, Put
from sparklog.chain.damaged_chain import damage
from sparklog.core.commands import Append, Submission
from sparklog.core.describe.readable import counted, duration, exact_amount
from sparklog.core.errors import (
    ChainDamaged,
    KeyExists,
    KeyNotFound,
    OutcomeUnknown,
    RequestTimedOut,
    SparklogError,
    StoreUnavailable,
)
from sparklog.core.pauses import longer
from sparklog.core.records import Appended, AppendedByReference
from sparklog.core.types import CommandId, EntryNumber, NewObject, NewSlice, ProducerSpan
from sparklog.storage.keys import command_key

SLICES_INLINE = 1_000  # an append with more slices is stored by reference

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
_NAMED_COLUMNS = (  # of a mirror topic
    ("start", "int64"),
    ("end", "int64"),
    ("timestamp_source", "int8"),
)


class CommandBody(msgspec.Struct, frozen=True):
    """Description of the stored body of a large append.

    A command may have several bodies, which name different holders for the same objects. `number` tells them apart
    (`keys.command_key`). `objects` and `slices` are counts.
    """

    sha256: str
    size_bytes: int
    objects: int
    slices: int
    number: int = 0

    def reference(self, appended: Appended) -> AppendedByReference:
        """Return the record that replaces `appended` in an entry: it names this body."""
        return AppendedByReference(
            self.sha256,
            self.size_bytes,
            self.objects,
            self.slices,
            appended.ranges,
            appended.application,
            appended.label,
            appended.changes,
            self.number,
        )


def stored_body(submission: Submission, deadline_ms: int, timeout_ms: int, url: str) -> ChainMachine[CommandBody]:
    """Put the body of a large append under its key, unless an earlier attempt has put it. Return its description.

    After an unknown outcome the put is repeated, which is safe because no entry names the body yet. If an earlier
    submission of the command has left a body with other holders of the same objects, this body gets the next number.
    Raises RequestTimedOut, ChainDamaged (other bytes are under the command's key), or the store's own error.
    """
    command = submission.command
    if not isinstance(command, Append):
        raise TypeError("only an append has a body")
    body = encode_body(command.objects, command.slices)
    number = 0
    pause_ms = FIRST_PAUSE_MS
    while True:
        key = command_key(submission.n0, submission.command_id, number)
        reply, now = yield Put(key, body)
        if isinstance(reply, KeyExists):
            reply, now = yield Get(key)
        match reply:
            case None:
                return _named(command, body, number)
            case (OutcomeUnknown() | StoreUnavailable() | KeyNotFound()) as error:
                if now.monotonic_ms >= deadline_ms:
                    waited = duration(timeout_ms)
                    raise RequestTimedOut(f"{key} at {url} could not be written in {waited}: {error}") from error
                yield Pause(pause_ms)
                pause_ms = longer(pause_ms, LONGEST_PAUSE_MS)
            case SparklogError() as error:
                raise error
            case stored:
                existing = bytes(stored)  # type: ignore[call-overload]
                if _is_of(command, existing, key):
                    return _named(command, existing, number)
                number += 1


def _is_of(command: Append, existing: bytes, key: str) -> bool:
    """True if `existing` has exactly the slices and objects of `command`, with the same holders of each object.

    False if only the holders differ. Raises ChainDamaged if anything else differs.
    """
    own = command.objects, command.slices
    try:
        objects, slices = decode_body(existing)
        if (objects, slices) == own:
            return True
        if (_without_holders(objects), slices) == (_without_holders(command.objects), command.slices):
            return False
    except NoArrowTable:
        pass
    wanted = f"wanted this command's own {counted(len(command.slices), 'slice')}"
    what = f"{wanted}, found {exact_amount(len(existing))} of something else"
    raise ChainDamaged(f"{key}: {what}; nothing names it yet: move it away, then write again")


def _named(command: Append, body: bytes, number: int) -> CommandBody:
    sha256 = hashlib.sha256(body).hexdigest()
    return CommandBody(sha256, len(body), len(command.objects), len(command.slices), number)


def append_of(
    body: bytes, command_id: CommandId, n0: EntryNumber, record: AppendedByReference, n: int, url: str
) -> Append:
    """Decode the append that `record` in entry `n` names. `body` is the stored body.

    Raises ChainDamaged if the body's SHA-256 is not the one in the record, or if the content is not an append. `url` is
    for that message.
    """
    key = command_key(n0, command_id, record.body)
    actual = hashlib.sha256(body).hexdigest()
    if actual != record.body_sha256:
        wanted = f"entry {n} names {record.body_size_bytes} bytes with SHA-256 {record.body_sha256}"
        raise damage(key, f"{wanted}, found {len(body)} bytes with {actual}", url)
    try:
        objects, slices = decode_body(body)
    except NoArrowTable as error:
        raise damage(key, f"its checksum is right, but {error}", url) from error
    return Append(objects, slices, (), record.application, record.label)


def _without_holders(objects: Sequence[NewObject]) -> list[NewObject]:
    return [msgspec.structs.replace(object_, holders=()) for object_ in objects]


def encode_body(objects: Sequence[NewObject], slices: Sequence[NewSlice]) -> bytes:
    """Encode the slices as an Arrow IPC file with a row for each. The schema's metadata has the objects as JSON."""
    import pyarrow as pa

    spans = [slice_.producer for slice_ in slices]
    columns = {name: pa.array([getattr(slice_, name) for slice_ in slices], kind) for name, kind in _COLUMNS}
    for name, kind in _SPAN_COLUMNS:
        columns[name] = pa.array([None if span is None else getattr(span, name) for span in spans], kind)
    ranges = [slice_.offsets for slice_ in slices]
    named = (
        [None if range_ is None else range_.start for range_ in ranges],
        [None if range_ is None else range_.end for range_ in ranges],
        [slice_.timestamp_source for slice_ in slices],
    )
    for (name, kind), column in zip(_NAMED_COLUMNS, named, strict=True):
        columns[name] = pa.array(column, kind)
    table = pa.table(columns).replace_schema_metadata({"sparklog.objects": msgspec.json.encode(objects)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def decode_body(body: bytes | memoryview) -> tuple[tuple[NewObject, ...], tuple[NewSlice, ...]]:
    """Decode the objects and slices of a body, as `encode_body` wrote them. Raises NoArrowTable if they can't be."""
    every = (*_COLUMNS, *_SPAN_COLUMNS, *_NAMED_COLUMNS)
    table = read_table(body, dict(every))
    columns = [table.column(name).to_pylist() for name, _ in every]
    plain, with_span = len(_COLUMNS), len(_COLUMNS) + len(_SPAN_COLUMNS)
    described = (table.schema.metadata or {}).get(b"sparklog.objects", b"")
    try:
        objects = msgspec.json.decode(described, type=tuple[NewObject, ...])
        rows = zip(*columns, strict=True)
        return objects, tuple(_slice_of(row[:plain], row[plain:with_span], row[with_span:]) for row in rows)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NoArrowTable(f"it has no objects and slices: {error}") from error


def _slice_of(fields: tuple[int, ...], span: tuple[int | None, ...], named: tuple[int | None, ...]) -> NewSlice:
    producer = None if span[0] is None else msgspec.convert(span, ProducerSpan)
    start, end, source = named
    return msgspec.convert((*fields, producer, None if start is None else (start, end), source), NewSlice)
