"""Bulk reads from S3: ranges are merged into few requests, and large ones are cut into pieces read in parallel."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from sparklog.core.errors import Damaged, KeyNotFound
from sparklog.host.deadline import Deadline
from sparklog.storage.conditional_write import repeated
from sparklog.storage.ranges import new_memory, united
from sparklog.storage.s3.answers import S3RequestFailed, not_s3
from sparklog.storage.s3.bucket import Bucket

if TYPE_CHECKING:
    from sparklog.storage.s3.bulk import BulkAnswer

_PIECE_BYTES: Final = 32 * 1024 * 1024  # on a fast link, smaller pieces cost more than they gain
_FIRST_BYTES: Final = 8 * 1024 * 1024  # the first read of an object of unknown size
_MS_PER_MIB: Final = 1000  # on a slower link, a long read misses its deadline
_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-\d+/(\d+)")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes [start, end) of an object, to be read into `into` by one request."""

    start: int
    into: memoryview

    @property
    def end(self) -> int:
        return self.start + len(self.into)


def read_whole(bucket: Bucket, key: str, shown_key: str) -> memoryview:
    """Return the whole object: the first answer gives its size, and the remaining bytes are read in parallel.

    `key` is the full key in the bucket. The errors are those of `ObjectStore.get`, and name `shown_key` instead.
    """
    wanted = f"read {shown_key}"
    deadline = bucket.deadline(more_ms=_more_ms(_FIRST_BYTES))
    whole: memoryview | None = None
    rest: list[Future[int]] = []

    def read_first() -> None:
        nonlocal whole
        with _opened(bucket, key, 0, _FIRST_BYTES, deadline) as opened:
            if whole is None:
                whole = new_memory(opened.size_bytes)
                deadline.extend(_more_ms(len(whole[_FIRST_BYTES:])))  # this read shares the link with the rest
                following = _cut([_Piece(_FIRST_BYTES, whole[_FIRST_BYTES:])])
                rest.extend(_begin(bucket, key, wanted, following))
            check_size(opened.size_bytes)
            opened.fill(whole[:_FIRST_BYTES], deadline)

    def check_size(size_bytes: int) -> None:
        if whole is not None and size_bytes != len(whole):
            raise Damaged(f"wanted {len(whole)} bytes of {shown_key} in bucket {bucket.name}, found {size_bytes}")

    try:
        _retried(bucket, wanted, deadline, read_first)
        for read in rest:
            check_size(read.result())
    finally:
        _cancel(rest)
    assert whole is not None
    return whole.toreadonly()


def read_ranges(bucket: Bucket, key: str, shown_key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
    """Return the bytes of each range [start, end).

    `key` is the full key in the bucket. The errors are those of `ObjectStore.get_ranges`, and name `shown_key` instead.
    """
    spans: list[_Piece] = []
    for start, end in united([(start, end) for start, end in ranges if start < end]):
        spans.append(_Piece(start, new_memory(end - start)))
    size_bytes = _read_all(bucket, key, shown_key, spans) if spans else read_size(bucket, key, shown_key)
    for start, end in ranges:
        if end > size_bytes:
            raise Damaged(
                f"wanted bytes [{start}, {end}) of {shown_key} in bucket {bucket.name}, "
                f"found that it ends at byte {size_bytes}"
            )
    bodies = []
    for start, end in ranges:
        span = next((span for span in spans if span.start <= start and end <= span.end), None)
        bodies.append(
            memoryview(b"")
            if span is None or start == end
            else span.into[start - span.start : end - span.start].toreadonly()
        )
    return bodies


def read_size(bucket: Bucket, key: str, shown_key: str) -> int:
    """Length of an object in bytes. Raises the errors of `ObjectStore.size`.

    Reads the first byte instead of using HEAD: the answer to a refused HEAD has no body that gives the reason.
    """
    first = _Piece(0, memoryview(bytearray(1)))
    return _read(bucket, key, f"read the size of {shown_key}", first, bucket.deadline())


def _read_all(bucket: Bucket, key: str, shown_key: str, spans: Sequence[_Piece]) -> int:
    """Fill all spans up to the end of the object, with parallel reads. Return the object's size in bytes."""
    wanted = f"read {shown_key}"
    pieces = _cut(spans)
    if len(pieces) == 1:
        return _read(bucket, key, wanted, pieces[0], bucket.deadline(more_ms=_more_ms(len(pieces[0].into))))
    reading = _begin(bucket, key, wanted, pieces)
    try:
        return max(read.result() for read in reading)
    finally:
        _cancel(reading)


def _cut(spans: Sequence[_Piece]) -> list[_Piece]:
    return [
        _Piece(span.start + at, span.into[at : at + _PIECE_BYTES])
        for span in spans
        for at in range(0, len(span.into), _PIECE_BYTES)
    ]


def _begin(bucket: Bucket, key: str, wanted: str, pieces: Sequence[_Piece]) -> list[Future[int]]:
    deadline = bucket.deadline(more_ms=_more_ms(sum(len(piece.into) for piece in pieces)))
    return [
        bucket.client.in_thread(lambda piece=piece: _read(bucket, key, wanted, piece, deadline))  # type: ignore[misc]
        for piece in pieces
    ]


def _cancel(reading: Sequence[Future[int]]) -> None:
    for read in reading:
        read.cancel()


def _read(bucket: Bucket, key: str, wanted: str, piece: _Piece, deadline: Deadline) -> int:
    """Fill a piece up to the end of the object. Return the object's size in bytes."""

    def read() -> int:
        with _opened(bucket, key, piece.start, piece.end, deadline) as opened:
            opened.fill(piece.into, deadline)
            return opened.size_bytes

    return _retried(bucket, wanted, deadline, read)


def _retried(bucket: Bucket, wanted: str, deadline: Deadline, read: Callable[[], T]) -> T:
    """Call `read` until it succeeds, as `conditional_write.repeated` does, and return its result.

    Raises KeyNotFound, and the other errors for the caller of the store. `wanted`: the request in words.
    """
    try:
        return repeated(read, deadline)
    except S3RequestFailed as failed:
        if failed.absent:
            raise _absent(bucket, wanted.removeprefix("read ")) from failed
        raise bucket.error(failed, wanted, writing=False) from failed


@dataclass(frozen=True, slots=True)
class _Opened:
    """An answer whose body is an object's bytes from `start` on.

    `answer` is None if the object ends at `start` or before. `size_bytes` is the size of the whole object.
    """

    answer: BulkAnswer | None
    start: int
    size_bytes: int

    def fill(self, into: memoryview, deadline: Deadline) -> None:
        """Fill `into` up to the end of the object. Raises S3RequestFailed if the answer ends earlier."""
        into = into[: max(0, self.size_bytes - self.start)]
        count = self.answer.read_into(into, deadline) if self.answer is not None else 0
        if count < len(into):
            raise S3RequestFailed(f"an answer cut at byte {count} of {len(into)}")


@contextmanager
def _opened(bucket: Bucket, key: str, start: int, end: int, deadline: Deadline) -> Iterator[_Opened]:
    """Request bytes [start, end), and yield the answer. It is closed after the `with` block. Raises S3RequestFailed."""
    try:
        answer = bucket.read(key, start, end, deadline)
    except S3RequestFailed as failed:
        if failed.status != 416:
            raise
        # The object ends before the range begins, or is empty.
        yield _Opened(None, start, int(bucket.send_small("head_object", deadline, Key=key)["ContentLength"]))
        return
    try:
        content_range = _CONTENT_RANGE.fullmatch(answer.header("Content-Range") or "")
        length = answer.header("Content-Length") or ""
        if not answer.header("ETag") or not (content_range or (length.isdecimal() and answer.status == 200)):
            raise not_s3("an answer without ETag or length", answer.status)
        if content_range and int(content_range[1]) != start:
            raise not_s3(f"bytes from {content_range[1]} on instead of {start}", answer.status)
        size_bytes = int(content_range[2]) if content_range else int(length)
        if not content_range:  # the server does not support ranges and sends the whole object
            _Opened(answer, 0, size_bytes).fill(memoryview(bytearray(start)), deadline)
        yield _Opened(answer, start, size_bytes)
    finally:
        answer.close()


def _more_ms(wanted_bytes: int) -> int:
    return wanted_bytes * _MS_PER_MIB // (1024 * 1024)


def _absent(bucket: Bucket, shown_key: str) -> KeyNotFound:
    return KeyNotFound(f"wanted {shown_key}, found nothing in bucket {bucket.name}")
