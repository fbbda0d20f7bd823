"""Read an object and its index from a store, and compare every byte with the chain and the index.

    1. the index: existence, length, CRC32C
    2. the object: existence, length, CRC32C of the whole and of each batch
    3. the content of each batch, if wanted: its row of the index describes it
    4. the slices of the object: the index describes them as the chain does

Each difference in the bytes is an `ObjectFinding`. A store that does not answer raises an error instead, because that
says nothing about the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

import google_crc32c
import msgspec
import numpy as np
import pyarrow as pa

from sparklog.core.describe.readable import counted, exact_amount
from sparklog.core.errors import Damaged, KeyNotFound
from sparklog.core.row_offsets import Int64Array, is_dense, offset_after
from sparklog.core.types import NamedObject, Offset, PartitionIndex, Slice, TimestampSource
from sparklog.log.batch import crc32c
from sparklog.log.check.batch_content import BatchContent, content_in_index, content_of
from sparklog.log.index import Index, decode_index
from sparklog.log.read.ranged_reads import RANGED_READ_BYTES, ranged_reads
from sparklog.log.read.read_ahead import bodies
from sparklog.storage.keys import index_key
from sparklog.storage.object_store import ObjectStore

_LOOK_REQUESTS: Final = 1  # the length of the object


class StoredPart(StrEnum):
    """The part of a stored object that a finding is about: the object itself, or its index."""

    OBJECT = "object"
    INDEX = "index"


class Problem(StrEnum):
    """A kind of difference between a stored object or index and the chain.

    MISSING, SHORT, LONG and CRC are about the whole object or index. BATCH: the bytes of one batch of the object are
    wrong. CONTENT: a batch has the right bytes, but can't be decoded, or its row of the index does not describe it; or
    the index has the right bytes, but impossible content. SLICE: the index is intact, but does not describe a slice as
    the chain does. A CONTENT or SLICE difference was already there when the object was written, so every store has it.
    """

    MISSING = "missing"
    SHORT = "short"
    LONG = "long"
    CRC = "crc"
    BATCH = "batch"
    CONTENT = "content"
    SLICE = "slice"


class ObjectFinding(msgspec.Struct, frozen=True, array_like=True):
    """One difference between the store and the chain. `wanted` and `actual` are human-readable.

    For a batch or a slice, `position` is its first byte in the object. For a slice, and for a batch that is in a slice
    of the chain, [start, end) are the offsets of its records in `partition`.
    """

    part: StoredPart
    problem: Problem
    wanted: str
    actual: str
    position: int | None = None
    partition: PartitionIndex | None = None
    start: Offset | None = None
    end: Offset | None = None

    def __str__(self) -> str:
        text = f"{self.part} {self.problem}: wanted {self.wanted}, found {self.actual}"
        if self.position is not None:
            text += f", at byte {self.position}"
        if self.partition is not None:
            text += f", records [{self.start}, {self.end}) of partition {self.partition}"
        return text


class ObjectCheck(msgspec.Struct, frozen=True, array_like=True):
    """The result of checking an object and its index, and the cost of the check. Without findings, both are whole."""

    findings: tuple[ObjectFinding, ...]
    read_bytes: int
    requests: int

    @property
    def is_whole(self) -> bool:
        """True if the object and its index are what the chain names, byte for byte."""
        return not self.findings

    @property
    def object_is_whole(self) -> bool:
        """True if the object itself is whole, so that a damaged index can be rebuilt from it."""
        return all(finding.part is StoredPart.INDEX for finding in self.findings)


def check_object(
    store: ObjectStore,
    key: str,
    named: NamedObject,
    slices: Sequence[Slice] = (),
    another: Index | None = None,
    *,
    content: bool = False,
) -> ObjectCheck:
    """Check every byte of the object under `key` and of its index.

    The object is read once, in ranged reads of about 8 MiB. The index is also compared with `slices`, the chain's
    slices of this object. The index shows which batches are damaged. If it is damaged itself, `another`, the same index
    from another store, is used for that. With `content`, each whole batch is decoded, and its records, partition and
    timestamps are compared with the index.

    Raises StoreUnavailable, StoreAccessDenied, UnsupportedVersion.
    """
    index, findings, index_bytes = _checked_index(store, key, named)
    index = another if index is None else index
    wanted_bytes = named.object.size_bytes
    try:
        size_bytes = store.size(key)
    except KeyNotFound:
        return ObjectCheck((*findings, _missing(wanted_bytes)), index_bytes, 1 + _LOOK_REQUESTS)
    if size_bytes != wanted_bytes:
        findings.append(_other_length(StoredPart.OBJECT, wanted_bytes, size_bytes))
    readable_bytes = min(size_bytes, wanted_bytes)
    ranges = _ranges(index, readable_bytes)
    damaged: list[int] = []
    others: list[tuple[int, BatchContent | None]] = []
    seen = 0
    try:
        for (start, end), body in zip(ranges, bodies(store, key, ranges), strict=True):
            buffer = pa.py_buffer(body)
            for low, high, batch in _pieces(index, start, end):
                piece = buffer.slice(low - start, high - low)
                seen = google_crc32c.extend(seen, piece)
                if index is None or batch is None:
                    continue
                if crc32c(piece) != index.crc32c[batch]:
                    damaged.append(batch)
                elif content and (stored := content_of(piece, index.object_schema)) != content_in_index(index, batch):
                    others.append((batch, stored))
    except KeyNotFound:
        return ObjectCheck((*findings, _missing(wanted_bytes)), index_bytes, 1 + _LOOK_REQUESTS)
    except Damaged as error:  # it was truncated since its length was read
        findings.append(ObjectFinding(StoredPart.OBJECT, Problem.SHORT, exact_amount(wanted_bytes), error.message))
    else:
        if size_bytes == wanted_bytes and seen != named.object.crc32c:
            findings.append(ObjectFinding(StoredPart.OBJECT, Problem.CRC, _hex(named.object.crc32c), _hex(seen)))
    if index is not None:
        cut_off = np.flatnonzero(index.position + index.length > readable_bytes).tolist()
        for batch in (*damaged, *cut_off):
            actual = "it is cut off" if batch in cut_off else "another"
            findings.append(_of_batch(index, batch, slices, Problem.BATCH, _hex(int(index.crc32c[batch])), actual))
        for batch, stored in others:
            actual = "a message that can't be decoded" if stored is None else str(stored)
            findings.append(
                _of_batch(index, batch, slices, Problem.CONTENT, str(content_in_index(index, batch)), actual)
            )
        findings += [finding for slice_ in slices if (finding := _compared(index, slice_)) is not None]
    return ObjectCheck(tuple(findings), index_bytes + readable_bytes, 1 + _LOOK_REQUESTS + len(ranges))


# ---- the index ------------------------------------------------------------------------------------------


def _checked_index(store: ObjectStore, key: str, named: NamedObject) -> tuple[Index | None, list[ObjectFinding], int]:
    """Return the index, the findings about it, and the number of bytes read.

    The index is None if it is not the one that the chain names, byte for byte, or if its content can't be right.
    """
    wanted_bytes = named.object.index_size_bytes
    try:
        body = store.get(index_key(key))
    except KeyNotFound:
        return None, [ObjectFinding(StoredPart.INDEX, Problem.MISSING, exact_amount(wanted_bytes), "none")], 0
    if len(body) != wanted_bytes:
        return None, [_other_length(StoredPart.INDEX, wanted_bytes, len(body))], len(body)
    actual = crc32c(pa.py_buffer(body))
    if actual != named.object.index_crc32c:
        wanted = _hex(named.object.index_crc32c)
        return None, [ObjectFinding(StoredPart.INDEX, Problem.CRC, wanted, _hex(actual))], len(body)
    try:
        return decode_index(index_key(key), body, named.object), [], len(body)
    except Damaged as error:
        wanted = "an index of batches with records, one after the other"
        return None, [ObjectFinding(StoredPart.INDEX, Problem.CONTENT, wanted, error.message)], len(body)


# ---- the bytes ------------------------------------------------------------------------------------------


def _ranges(index: Index | None, size_bytes: int) -> list[tuple[int, int]]:
    """Return ranges [start, end) that cover the first `size_bytes` bytes of an object.

    With an index, no range ends inside a batch, except the last one, if the object was cut off inside a batch.
    """
    if index is None or not len(index):
        steps = range(0, size_bytes, RANGED_READ_BYTES)
        return [(start, min(start + RANGED_READ_BYTES, size_bytes)) for start in steps]
    whole = int(np.searchsorted(index.position + index.length, size_bytes, side="right"))
    reads = [(read.start, read.end) for read in ranged_reads(index, 0, whole)]
    if not reads:
        return [(0, size_bytes)] if size_bytes else []
    reads[0] = (0, reads[0][1])  # include the head of the file
    if size_bytes - reads[-1][1] > RANGED_READ_BYTES:
        return [*reads, (reads[-1][1], size_bytes)]
    reads[-1] = (reads[-1][0], size_bytes)  # and its end
    return reads


def _pieces(index: Index | None, start: int, end: int) -> Iterator[tuple[int, int, int | None]]:
    """Split the bytes [start, end) into pieces [low, high). Yields (low, high, batch number) of each, in order.

    Each batch that lies wholly in the range is a piece. The batch number is None for all other bytes; without an index,
    they are a single piece.
    """
    if index is None:
        yield start, end, None
        return
    at = start
    for batch in range(int(np.searchsorted(index.position, start)), len(index)):
        low, high = int(index.position[batch]), int(index.position[batch] + index.length[batch])
        if high > end:
            break
        if at < low:
            yield at, low, None
        yield low, high, batch
        at = high
    if at < end:
        yield at, end, None


# ---- the findings ---------------------------------------------------------------------------------------


def _missing(wanted_bytes: int) -> ObjectFinding:
    return ObjectFinding(StoredPart.OBJECT, Problem.MISSING, exact_amount(wanted_bytes), "none")


def _other_length(part: StoredPart, wanted_bytes: int, found_bytes: int) -> ObjectFinding:
    problem = Problem.SHORT if found_bytes < wanted_bytes else Problem.LONG
    return ObjectFinding(part, problem, exact_amount(wanted_bytes), exact_amount(found_bytes))


def _hex(checksum: int) -> str:
    return f"CRC32C {checksum:#010x}"


def _of_batch(
    index: Index, batch: int, slices: Sequence[Slice], problem: Problem, wanted: str, actual: str
) -> ObjectFinding:
    finding = ObjectFinding(StoredPart.OBJECT, problem, wanted, actual, int(index.position[batch]))
    for slice_ in slices:
        if slice_.first_batch <= batch < slice_.first_batch + slice_.batches:
            start, end = slice_.start, slice_.end
            if index.base_offset is not None and index.last_offset is not None:
                start = Offset(int(index.base_offset[batch]))
                end = offset_after(int(index.last_offset[batch]), 1)
            elif is_dense(slice_):
                start = offset_after(slice_.start, int(index.records[slice_.first_batch : batch].sum()))
                end = offset_after(start, int(index.records[batch]))
            return msgspec.structs.replace(finding, partition=slice_.partition, start=start, end=end)
    return finding


def _compared(index: Index, slice_: Slice) -> ObjectFinding | None:
    """Compare the rows of the index for the batches of a slice with the chain's description of it. None if equal."""
    rows = index.rows(slice_.first_batch, slice_.first_batch + slice_.batches)
    wanted = _described(
        slice_.batches,
        slice_.records,
        slice_.position,
        slice_.position + slice_.length,
        {(slice_.topic_id, slice_.partition)},
    )
    actual = "no such batches"
    if len(rows):
        begin, end = int(rows.position[0]), int(rows.position[-1] + rows.length[-1])
        places = set(zip(rows.topic_id.tolist(), rows.partition.tolist(), strict=True))
        actual = _described(len(rows), int(rows.records.sum()), begin, end, places)
        if slice_.timestamp_source is not TimestampSource.APPEND_TIME:
            wanted += f", timestamps {slice_.min_timestamp_us} to {slice_.max_timestamp_us}"
            actual += f", timestamps {int(rows.min_timestamp_us.min())} to {int(rows.max_timestamp_us.max())}"
        if rows.base_offset is not None and rows.last_offset is not None:
            wanted += f", offsets from {slice_.start} to below {slice_.end}, ascending"
            actual += f", offsets {_shown_offsets(rows.base_offset, rows.last_offset, slice_)}"
    if wanted == actual:
        return None
    return ObjectFinding(
        StoredPart.INDEX, Problem.SLICE, wanted, actual, slice_.position, slice_.partition, slice_.start, slice_.end
    )


def _shown_offsets(bases: Int64Array, lasts: Int64Array, slice_: Slice) -> str:
    """Describe the offsets of a slice's batches, for the `actual` of a finding.

    `bases` and `lasts`: the first and the last offset of each batch, from the index. If they ascend and lie within
    the slice, the text is the one that `_compared` puts into `wanted`. Otherwise it lists them all.
    """
    fit = slice_.start <= bases[0] and lasts[-1] < slice_.end
    if fit and (bases <= lasts).all() and (lasts[:-1] < bases[1:]).all():
        return f"from {slice_.start} to below {slice_.end}, ascending"
    return ", ".join(f"{base} to {last}" for base, last in zip(bases.tolist(), lasts.tolist(), strict=True))


def _described(batches: int, records: int, begin: int, end: int, places: set[tuple[int, int]]) -> str:
    of = ", ".join(f"partition {partition} of topic id {topic_id}" for topic_id, partition in sorted(places))
    return f"{counted(batches, 'batch')} of {of} with {counted(records, 'record')} in bytes [{begin}, {end})"
