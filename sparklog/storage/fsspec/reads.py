"""Reads of objects: ranges are merged into few requests, and large ones are cut into pieces read at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sparklog.core.errors import Damaged
from sparklog.storage.parallel import in_parallel
from sparklog.storage.ranges import new_memory, united

_FIRST_BYTES: Final = 8 * 1024 * 1024  # the first read of an object of unknown size
_PIECE_BYTES: Final = 8 * 1024 * 1024  # eight of them are read at once, and copied into their place

Read = Callable[[int, int], tuple[bytes, int]]  # bytes [start, end) of one object as far as it goes, and its size


def read_whole(read: Read, shown: str) -> memoryview:
    """The whole object: the first answer gives its size, and the rest is read in parallel. `shown`: for errors."""
    first, size_bytes = read(0, _FIRST_BYTES)
    if size_bytes <= len(first):
        return memoryview(first)
    whole = new_memory(size_bytes)
    whole[: len(first)] = first
    found = _fill(read, len(first), whole[len(first) :])
    if found != size_bytes:
        raise Damaged(f"wanted {size_bytes} bytes of {shown}, found {found}")
    return whole.toreadonly()


def read_ranges(read: Read, shown: str, ranges: Sequence[tuple[int, int]], size: Callable[[], int]) -> list[memoryview]:
    """The bytes of each range [start, end), at full length. `size` is asked if none of them has a byte."""
    spans = united([(start, end) for start, end in ranges if start < end])
    bodies: list[memoryview] = [memoryview(b"")] * len(spans)
    sizes: list[int] = []

    def read_span(number: int) -> None:
        start, end = spans[number]
        if end - start <= _PIECE_BYTES:
            body, size_bytes = read(start, end)
            bodies[number] = memoryview(body)
        else:
            into = new_memory(end - start)
            size_bytes = _fill(read, start, into)
            bodies[number] = into.toreadonly()
        sizes.append(size_bytes)

    in_parallel(read_span, range(len(spans)))
    size_bytes = min(sizes) if spans else size()
    for start, end in ranges:
        if end > size_bytes:
            raise Damaged(f"wanted bytes [{start}, {end}) of {shown}, found that it ends at byte {size_bytes}")
    return [_part(spans, bodies, start, end) for start, end in ranges]


def _part(spans: Sequence[tuple[int, int]], bodies: Sequence[memoryview], start: int, end: int) -> memoryview:
    for (first, last), body in zip(spans, bodies, strict=True):
        if start < end and first <= start and end <= last:
            return body[start - first : end - first]
    return memoryview(b"")


def _fill(read: Read, start: int, into: memoryview) -> int:
    """Fill memory with bytes from `start` on, as far as the object goes. Returns the object's size."""
    sizes: list[int] = []

    def read_piece(at: int) -> None:
        piece = into[at : at + _PIECE_BYTES]
        body, size_bytes = read(start + at, start + at + len(piece))
        piece[: len(body)] = body
        sizes.append(size_bytes)

    in_parallel(read_piece, range(0, len(into), _PIECE_BYTES))
    return min(sizes)
