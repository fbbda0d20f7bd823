"""The body of an object to be written: held in memory, or in a temporary file until it is complete."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from sparklog.core.errors import InvalidInput, StoreUnavailable
from sparklog.host.clock import now_ms
from sparklog.storage.object_store import Bytes

PIECE_BYTES: Final = 8 * 1024 * 1024  # the most of a body that is in memory


@dataclass(frozen=True, slots=True)
class Body:
    """A body that can be sent more than once: `read(start, end)` gives its bytes [start, end). Thread-safe."""

    size_bytes: int
    read: Callable[[int, int], bytes]

    @classmethod
    def of(cls, body: Bytes) -> Body:
        """Return a body with the bytes of `body`, which must not change while they are used."""
        view = memoryview(body).cast("B")
        return cls(len(view), lambda start, end: bytes(view[start:end]))

    def pieces(self, piece_bytes: int) -> Iterator[bytes]:
        """Yield the whole body in order, at most `piece_bytes` at a time."""
        for start in range(0, self.size_bytes, piece_bytes):
            yield self.read(start, min(start + piece_bytes, self.size_bytes))


class BufferedUpload:
    """A put-if-absent with a streamed body: nothing is sent before `publish`. One thread at a time.

    Up to 8 MiB the body is held in memory, beyond that in a temporary file. So a write whose answer was lost can be
    sent again in full, and an abandoned upload leaves nothing in the cloud.
    """

    def __init__(self, key: str, put: Callable[[str, Body], None]) -> None:
        self.began_ms = now_ms()
        self._key = key
        self._put = put
        self._reading = threading.Lock()
        self._file = tempfile.SpooledTemporaryFile(PIECE_BYTES, prefix="sparklog-")  # noqa: SIM115
        self._size_bytes = 0
        self._removed = False

    def write(self, body: Bytes) -> None:
        """Append bytes. Raises StoreUnavailable if the temporary file can't take them; then only `abort` is legal."""
        self._check_open()
        view = memoryview(body).cast("B")
        try:
            self._file.write(view)
            self._file.flush()  # a forked process would also write out the buffer, over the bytes that follow
        except OSError as error:
            self.abort()
            raise StoreUnavailable(
                f"wanted to keep the bytes of {self._key} in a temporary file until they are sent, found: "
                f"{error.strerror} in {tempfile.gettempdir()}"
            ) from error
        self._size_bytes += len(view)

    def publish(self) -> None:
        """Make the whole object durable and visible under its key, if the key is free. Errors: see ObjectStore."""
        self._check_open()
        try:
            if self._removed:
                raise StoreUnavailable(f"wanted to publish {self._key}, found that it was removed as abandoned")
            self._put(self._key, Body(self._size_bytes, self._read))
        finally:
            self.abort()

    def abort(self) -> None:
        """Discard the written bytes. Legal at any time and more than once; does nothing after `publish`."""
        self._file.close()

    def remove(self, before_ms: int) -> bool:
        """Mark the upload as abandoned if it is still open and began before `before_ms` (ms since the epoch).

        Its `publish` then raises StoreUnavailable. Return True if this call marked the upload.
        """
        if self._file.closed or self._removed or self.began_ms >= before_ms:
            return False
        self._removed = True
        return True

    def __enter__(self) -> BufferedUpload:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()

    def _read(self, start: int, end: int) -> bytes:
        with self._reading:
            self._file.seek(start)
            return self._file.read(end - start)

    def _check_open(self) -> None:
        if self._file.closed:
            raise InvalidInput(f"the upload of {self._key} has ended or failed: begin another one")
