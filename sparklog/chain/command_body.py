"""The objects and slices of a large append, in one immutable Arrow object beside the chain.

An entry with many thousand slices would be slow for every reader, so it names this object instead
(`AppendedByReference`). The body has no offsets: they follow from the state before the entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from sparklog.chain.damage import damage
from sparklog.chain.requests import FIRST_PAUSE_MS, Get, Now, Pause, Put, Reply, Request, longer
from sparklog.core.commands import Append, Submission
from sparklog.core.errors import (
    ChainDamaged,
    KeyExists,
    KeyNotFound,
    OutcomeUnknown,
    RequestTimedOut,
    SparklogError,
    StoreUnavailable,
)
from sparklog.core.readable import counted, duration, exact_amount
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


class CommandBody(msgspec.Struct, frozen=True):
    """The stored body of a large append. `number`: see `keys.command_key`."""

    sha256: str
    size_bytes: int
    objects: int
    slices: int
    number: int = 0

    def reference(self, appended: Appended) -> AppendedByReference:
        """The record that replaces `appended` in an entry."""
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


class StoreBody:
    """Puts the body of a large append under its key, as a state machine. A retry recognizes its own object.

    Only the entry names the body, so after an unknown outcome it is safe to try again. If an earlier submission of the
    command left a body that names other holders of the same objects, this one becomes the next. The outcome is the
    body, RequestTimedOut, ChainDamaged (the command's key holds something else), or the store's own error.
    """

    def __init__(self, submission: Submission, deadline_ms: int, timeout_ms: int, url: str) -> None:
        if not isinstance(submission.command, Append):
            raise TypeError("only an append has a body")
        self._command = submission.command
        self._n0, self._command_id = submission.n0, submission.command_id
        self._number = 0
        self._key = command_key(submission.n0, submission.command_id)
        self._body = encode_body(self._command.objects, self._command.slices)
        self._deadline_ms, self._timeout_ms, self._url = deadline_ms, timeout_ms, url
        self._pause_ms = FIRST_PAUSE_MS
        self._asked: Request = Pause(0)

    def start(self) -> Request:
        """The first request."""
        return self._ask(Put(self._key, self._body))

    def reply(self, reply: Reply, now: Now) -> Request | CommandBody | SparklogError:
        """The next request, or the outcome."""
        match self._asked, reply:
            case Pause(), _:
                return self.start()
            case Put(), None:
                return self._of(self._body)
            case Put(), KeyExists():
                return self._ask(Get(self._key))
            case _, (OutcomeUnknown() | StoreUnavailable() | KeyNotFound()) as error:
                return self._again(error, now)
            case _, SparklogError() as error:
                return error
            case _, body:
                return self._existing(bytes(body))  # type: ignore[call-overload]

    def _existing(self, body: bytes) -> Request | CommandBody | SparklogError:
        """What is under the key already: this body, perhaps encoded by another version to other bytes, or another."""
        try:
            objects, slices = decode_body(body)
        except (ValueError, KeyError, msgspec.MsgspecError):  # Arrow's errors are ValueErrors
            return self._taken(body)
        if (objects, slices) == (self._command.objects, self._command.slices):
            return self._of(body)
        if (_without_holders(objects), slices) != (_without_holders(self._command.objects), self._command.slices):
            return self._taken(body)
        self._number += 1
        self._key = command_key(self._n0, self._command_id, self._number)
        return self.start()

    def _taken(self, body: bytes) -> ChainDamaged:
        wanted = f"wanted this command's own {counted(len(self._command.slices), 'slice')}"
        what = f"{wanted}, found {exact_amount(len(body))} of something else"
        return ChainDamaged(f"{self._key}: {what}; nothing names it yet: move it away, then write again")

    def _ask(self, request: Request) -> Request:
        self._asked = request
        return request

    def _of(self, body: bytes) -> CommandBody:
        sha256 = hashlib.sha256(body).hexdigest()
        return CommandBody(sha256, len(body), len(self._command.objects), len(self._command.slices), self._number)

    def _again(self, error: SparklogError, now: Now) -> Request | SparklogError:
        if now.monotonic_ms >= self._deadline_ms:
            waited = duration(self._timeout_ms)
            late = RequestTimedOut(f"{self._key} at {self._url} could not be written in {waited}: {error}")
            late.__cause__ = error
            return late
        pause = Pause(self._pause_ms)
        self._pause_ms = longer(self._pause_ms)
        return self._ask(pause)


def append_of(
    body: bytes, command_id: CommandId, n0: EntryNumber, record: AppendedByReference, n: int, url: str
) -> Append:
    """The append that entry `n` names by `record`, decoded from its body. Raises ChainDamaged."""
    key = command_key(n0, command_id, record.body)
    found = hashlib.sha256(body).hexdigest()
    if found != record.body_sha256:
        wanted = f"entry {n} names {record.body_size_bytes} bytes with SHA-256 {record.body_sha256}"
        raise damage(key, f"{wanted}, found {len(body)} bytes with {found}", url)
    objects, slices = decode_body(body)
    return Append(objects, slices, (), record.application, record.label)


def _without_holders(objects: Sequence[NewObject]) -> list[NewObject]:
    return [msgspec.structs.replace(object_, holders=()) for object_ in objects]


def encode_body(objects: Sequence[NewObject], slices: Sequence[NewSlice]) -> bytes:
    """An Arrow IPC file with a row per slice. The objects are in the schema's metadata, as JSON."""
    import pyarrow as pa

    spans = [slice_.producer for slice_ in slices]
    columns = {name: pa.array([getattr(slice_, name) for slice_ in slices], kind) for name, kind in _COLUMNS}
    for name, kind in _SPAN_COLUMNS:
        columns[name] = pa.array([None if span is None else getattr(span, name) for span in spans], kind)
    table = pa.table(columns).replace_schema_metadata({"sparklog.objects": msgspec.json.encode(objects)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def decode_body(body: bytes | memoryview) -> tuple[tuple[NewObject, ...], tuple[NewSlice, ...]]:
    """The inverse of `encode_body`."""
    import pyarrow as pa

    table = pa.ipc.open_file(pa.py_buffer(body)).read_all()
    objects = msgspec.json.decode(table.schema.metadata[b"sparklog.objects"], type=tuple[NewObject, ...])
    columns = [table[name].to_pylist() for name, _ in (*_COLUMNS, *_SPAN_COLUMNS)]
    plain = len(_COLUMNS)
    return objects, tuple(_slice_of(row[:plain], row[plain:]) for row in zip(*columns, strict=True))


def _slice_of(fields: tuple[int, ...], span: tuple[int | None, ...]) -> NewSlice:
    producer = None if span[0] is None else msgspec.convert(span, ProducerSpan)
    return msgspec.convert((*fields, producer), NewSlice)
