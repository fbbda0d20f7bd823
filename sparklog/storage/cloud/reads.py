"""Reads of objects: ranges are merged into few requests, and large ones are cut into pieces read at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sparklog.core.errors import Damaged, StoreUnavailable
from sparklog.storage.cloud.cloud import ObjectPart
from sparklog.storage.parallel import in_parallel
from sparklog.storage.ranges import new_memory, united

_FIRST_BYTES: Final = 8 * 1024 * 1024  # the first read of an object of unknown size
_PIECE_BYTES: Final = 8 * 1024 * 1024  # eight of them are read at once, and copied into their place

Read = Callable[[int, int], ObjectPart]  # bytes [start, end) of an object, as far as it goes
_Seen = tuple[int, str | None]  # the size and the version of the whole object, from one answer


def read_whole(read: Read, shown: str) -> memoryview:
    """Return the whole object: the first answer gives its size, and the remaining bytes are read in parallel.

    `shown`: the object's address, for error messages. Raises the errors of `read`, StoreUnavailable if another object
    took its place meanwhile, and Damaged if a later answer gives a smaller size than the first.
    """
    first, size_bytes, version = read(0, _FIRST_BYTES)
    if size_bytes <= len(first):
        return memoryview(first)
    whole = new_memory(size_bytes)
    whole[: len(first)] = first
    smallest = _size([(size_bytes, version), *_fill(read, len(first), whole[len(first) :])], shown)
    if smallest != size_bytes:
        raise Damaged(f"wanted {size_bytes} bytes of {shown}, found {smallest}")
    return whole.toreadonly()


def read_ranges(read: Read, shown: str, ranges: Sequence[tuple[int, int]], size: Callable[[], int]) -> list[memoryview]:
    """Return the bytes of each range [start, end).

    `size` returns the object's size in bytes; it is called only if all ranges are empty. `shown`: the object's address,
    for error messages. Raises the errors of `read` and `size`, Damaged if the object ends before a range does, and
    StoreUnavailable if another object took its place meanwhile.
    """
    spans = united([(start, end) for start, end in ranges if start < end])
    bodies: list[memoryview] = [memoryview(b"")] * len(spans)
    seen: list[_Seen] = []

    def read_span(number: int) -> None:
        start, end = spans[number]
        if end - start <= _PIECE_BYTES:
            part = read(start, end)
            bodies[number] = memoryview(part.body)
            seen.append((part.size_bytes, part.version))
        else:
            into = new_memory(end - start)
            seen.extend(_fill(read, start, into))
            bodies[number] = into.toreadonly()

    in_parallel(read_span, range(len(spans)))
    size_bytes = _size(seen, shown) if spans else size()
    for start, end in ranges:
        if end > size_bytes:
            raise Damaged(f"wanted bytes [{start}, {end}) of {shown}, found that it ends at byte {size_bytes}")
    return [_part(spans, bodies, start, end) for start, end in ranges]


def _size(seen: Sequence[_Seen], shown: str) -> int:
    """Return the object's size in bytes: the smallest in `seen`, which has a pair (size, version) from each answer.

    Raises StoreUnavailable if the versions differ: the object was replaced while it was read. An answer has no version
    if the object ended before the requested bytes. Such an answer may give a smaller size than the others, because the
    object was replaced by a shorter one. The smallest size lets the caller notice that.
    """
    if len({version for _, version in seen if version is not None}) > 1:
        raise StoreUnavailable(f"wanted {shown}, found that another object took its place while it was read")
    return min(size_bytes for size_bytes, _ in seen)


def _part(spans: Sequence[tuple[int, int]], bodies: Sequence[memoryview], start: int, end: int) -> memoryview:
    for (first, last), body in zip(spans, bodies, strict=True):
        if start < end and first <= start and end <= last:
            return body[start - first : end - first]
    return memoryview(b"")


def _fill(read: Read, start: int, into: memoryview) -> list[_Seen]:
    """Fill `into` with the object's bytes from `start` on, up to the end of the object.

    Returns the object's size and version from each answer, in any order.
    """
    seen: list[_Seen] = []

    def read_piece(at: int) -> None:
        piece = into[at : at + _PIECE_BYTES]
        part = read(start + at, start + at + len(piece))
        piece[: len(part.body)] = part.body
        seen.append((part.size_bytes, part.version))

    in_parallel(read_piece, range(0, len(into), _PIECE_BYTES))
    return seen
