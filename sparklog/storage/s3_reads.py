"""Bulk reads from S3: ranges, put together into few requests and cut into pieces that are read side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sparklog.core.errors import Damaged, KeyNotFound
from sparklog.storage.deadline import Deadline, tries
from sparklog.storage.s3_answers import Failed, not_s3
from sparklog.storage.s3_bucket import HARMLESS_TRIES, Bucket
from sparklog.storage.s3_wire import Answer

_GAP_BYTES: Final = 64 * 1024  # reading so much in vain costs less than a request
_PIECE_BYTES: Final = 32 * 1024 * 1024  # smaller ones cost more than they gain where the link is fast
_FIRST_BYTES: Final = 8 * 1024 * 1024  # of an object whose size is not known
_COPIED_BYTES: Final = 1024 * 1024  # less is copied, so that it does not hold all that memory
_MS_PER_MIB: Final = 1000  # how slow a link may be before a long read is given up
_CONTENT_RANGE: Final = re.compile(r"bytes (?:\d+-\d+|\*)/(\d+)")


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes [start, start + length) of an object, wanted in one request."""

    start: int
    into: memoryview

    @property
    def end(self) -> int:
        return self.start + len(self.into)


def read_whole(bucket: Bucket, key: str, shown_key: str) -> memoryview:
    """The whole object: its first piece tells its size, the others are read side by side. Raises as the port's get."""
    wanted = f"read {shown_key}"
    first = bytearray(_FIRST_BYTES)
    size_bytes = _read(bucket, key, wanted, _Piece(0, memoryview(first)), bucket.deadline(more_ms=_more_ms(len(first))))
    if size_bytes <= _COPIED_BYTES:
        return memoryview(bytes(first[:size_bytes]))
    if size_bytes <= _FIRST_BYTES:
        return memoryview(first)[:size_bytes].toreadonly()
    whole = memoryview(bytearray(size_bytes))
    whole[:_FIRST_BYTES] = first
    _read_all(bucket, key, shown_key, [_Piece(_FIRST_BYTES, whole[_FIRST_BYTES:])])
    return whole.toreadonly()


def read_ranges(bucket: Bucket, key: str, shown_key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
    """The bytes of each range [start, end), at full length. Raises as the port's get_ranges, but checks no key."""
    spans: list[_Piece] = []
    for start, end in _united([each for each in ranges if each[0] < each[1]]):
        spans.append(_Piece(start, memoryview(bytearray(end - start))))
    size_bytes = _read_all(bucket, key, shown_key, spans) if spans else read_size(bucket, key, shown_key)
    for start, end in ranges:
        if end > size_bytes:
            raise Damaged(
                f"wanted bytes [{start}, {end}) of {shown_key} in bucket {bucket.name}, "
                f"found that it ends at byte {size_bytes}"
            )
    found = []
    for start, end in ranges:
        span = next((each for each in spans if each.start <= start and end <= each.end), None)
        found.append(
            memoryview(b"")
            if span is None or start == end
            else span.into[start - span.start : end - span.start].toreadonly()
        )
    return found


def read_size(bucket: Bucket, key: str, shown_key: str) -> int:
    """Length of an object in bytes. Raises KeyNotFound, StoreUnavailable."""
    try:
        answer = bucket.harmless(f"look up {shown_key}", "head_object", absent=True, Key=key)
    except Failed as failed:
        raise _absent(bucket, shown_key) from failed
    return int(answer["ContentLength"])


def _united(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges that cover `ranges`, in order, without those that overlap or lie close together."""
    united: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if united and start <= united[-1][1] + _GAP_BYTES:
            united[-1] = (united[-1][0], max(united[-1][1], end))
        else:
            united.append((start, end))
    return united


def _read_all(bucket: Bucket, key: str, shown_key: str, spans: Sequence[_Piece]) -> int:
    """Fill all spans, cut into pieces, side by side; gives the object's size. Its end may come before theirs."""
    wanted = f"read {shown_key}"
    pieces = [
        _Piece(span.start + at, span.into[at : at + _PIECE_BYTES])
        for span in spans
        for at in range(0, len(span.into), _PIECE_BYTES)
    ]
    total_bytes = sum(len(span.into) for span in spans)
    deadline = bucket.deadline(more_ms=_more_ms(total_bytes))
    if len(pieces) == 1:
        return _read(bucket, key, wanted, pieces[0], deadline)
    client = bucket.client
    reading = [
        client.in_thread(lambda piece=piece: _read(bucket, key, wanted, piece, deadline))  # type: ignore[misc]
        for piece in pieces
    ]
    try:
        return max(each.result() for each in reading)
    finally:
        for each in reading:
            each.cancel()


def _read(bucket: Bucket, key: str, wanted: str, piece: _Piece, deadline: Deadline) -> int:
    """Fill a piece, or as much of it as the object has; gives the object's size."""
    last: Failed | None = None
    for number in tries(deadline):
        try:
            return _read_once(bucket, key, piece, deadline)
        except Failed as failed:
            if failed.absent:
                raise _absent(bucket, wanted.removeprefix("read ")) from failed
            if not failed.may_pass or number >= HARMLESS_TRIES:
                raise bucket.error(failed, wanted, writing=False) from failed
            last = failed
    assert last is not None
    raise bucket.error(last, wanted, writing=False) from last


def _read_once(bucket: Bucket, key: str, piece: _Piece, deadline: Deadline) -> int:
    try:
        answer = bucket.read(key, piece.start, piece.end, deadline)
    except Failed as failed:
        if failed.status == 416:  # it ends before the piece begins, or is empty
            return int(bucket.control("head_object", deadline, Key=key)["ContentLength"])
        raise
    try:
        found = _CONTENT_RANGE.fullmatch(answer.header("Content-Range") or "")
        length = answer.header("Content-Length") or ""
        if not answer.header("ETag") or not (found or length.isdecimal()):
            raise not_s3("an answer without ETag or length", answer.status)
        size_bytes = int(found[1]) if found else int(length)
        if not found:  # the server does not know ranges, and sends all
            _fill(answer, memoryview(bytearray(min(piece.start, size_bytes))), deadline)
        _fill(answer, piece.into[: max(0, size_bytes - piece.start)], deadline)
        return size_bytes
    finally:
        answer.close()


def _fill(answer: Answer, into: memoryview, deadline: Deadline) -> None:
    count = answer.read_into(into, deadline)
    if count < len(into):
        raise Failed(f"an answer cut at byte {count} of {len(into)}")


def _more_ms(wanted_bytes: int) -> int:
    return wanted_bytes * _MS_PER_MIB // (1024 * 1024)


def _absent(bucket: Bucket, shown_key: str) -> KeyNotFound:
    return KeyNotFound(f"wanted {shown_key}, found nothing in bucket {bucket.name}")
