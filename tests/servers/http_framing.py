"""HTTP/1.1 messages on asyncio streams, byte for byte: heads, and bodies by length, by chunks or to the end.

Nothing is decoded or re-encoded, so a signed request stays signed. RFC 9112, sections 2 to 6.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

HEAD_LIMIT_BYTES = 1 << 20
PIECE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Head:
    """A start line and headers. `lines` are the header lines as they came, without line ends."""

    start: str
    lines: tuple[bytes, ...]

    @property
    def headers(self) -> dict[str, str]:
        """Values by lower-case name; the last one of a repeated name."""
        split = (line.decode("latin-1").partition(":") for line in self.lines)
        return {name.strip().lower(): value.strip() for name, _, value in split}

    @property
    def status(self) -> int:
        """The status of a response's head."""
        return int(self.start.split(" ", 2)[1])

    def without(self, *names: str) -> Head:
        kept = (line for line in self.lines if line.partition(b":")[0].strip().lower().decode("latin-1") not in names)
        return replace(self, lines=tuple(kept))

    def encode(self) -> bytes:
        return b"\r\n".join((self.start.encode("latin-1"), *self.lines, b"", b""))


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next head, or None if the connection ends before it is whole."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    start, *lines = raw[:-4].lstrip(b"\r\n").split(b"\r\n")
    return Head(start.decode("latin-1"), tuple(lines))


def request_length(headers: dict[str, str]) -> int | None:
    """Bytes of a request's body; None if it comes in chunks."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return None
    return int(headers.get("content-length", "0"))


async def pieces(reader: asyncio.StreamReader, length: int | None) -> AsyncIterator[bytes]:
    """A body as it comes: `length` bytes, or chunks (with their framing) if that is None.

    Raises ConnectionError if the connection ends before the body does.
    """
    if length is None:
        async for piece in _chunks(reader):
            yield piece
        return
    while length > 0:
        piece = await reader.read(min(length, PIECE_BYTES))
        if not piece:
            raise ConnectionResetError("the connection ended inside a body")
        length -= len(piece)
        yield piece


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    try:
        while True:
            line = await reader.readuntil(b"\r\n")
            size = int(line.partition(b";")[0], 16)
            if size == 0:
                trailers = line
                while line != b"\r\n":
                    line = await reader.readuntil(b"\r\n")
                    trailers += line
                yield trailers
                return
            yield line + await reader.readexactly(size + 2)
    except asyncio.IncompleteReadError as error:
        raise ConnectionResetError("the connection ended inside a chunked body") from error


async def to_end(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Everything until the other side closes."""
    while piece := await reader.read(PIECE_BYTES):
        yield piece


def response_body(reader: asyncio.StreamReader, head: Head, method: str) -> tuple[AsyncIterator[bytes], bool]:
    """A response's body, and whether the connection can go on after it."""
    headers = head.headers
    if method == "HEAD" or head.status in (204, 304):
        return pieces(reader, 0), True
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return pieces(reader, None), True
    if "content-length" in headers:
        return pieces(reader, int(headers["content-length"])), True
    return to_end(reader), False
