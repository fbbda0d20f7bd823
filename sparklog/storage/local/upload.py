"""A put-if-absent on a disk as a stream: a temporary file that gets its name at the end."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from sparklog.core.errors import InvalidInput
from sparklog.storage.local.errors import write_error
from sparklog.storage.local.names import DurableNames
from sparklog.storage.object_store import Bytes

_CAN_NOT_COPY = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}


class LocalUpload:
    """A put-if-absent as a stream: a temporary that `publish` links to its path. One thread at a time."""

    def __init__(self, names: DurableNames, path: str) -> None:
        self._names = names
        self._path = path
        self._fd: int | None = None
        self._temporary: str | None = None
        self._ended = False

    def write(self, body: Bytes) -> None:
        """Add bytes to the end. Raises StoreFull, StoreReadOnly, StoreUnavailable; then only `abort` is legal."""
        rest = memoryview(body).cast("B")
        try:
            fd = self._open()
            while rest:
                rest = rest[os.write(fd, rest) :]
        except OSError as error:
            self.abort()
            raise write_error(f"write {self._path}", error) from error

    def copy(self, fd: int, size_bytes: int) -> bool:
        """Add the file's bytes to the end, from one file to the other in the kernel; False if these two can't."""
        try:
            to = self._open()
            at = 0
            while at < size_bytes:
                count = os.copy_file_range(fd, to, size_bytes - at, at)
                if count == 0:
                    raise OSError(errno.EIO, f"the source ended at byte {at} of {size_bytes}")
                at += count
        except OSError as error:
            self.abort()
            if error.errno in _CAN_NOT_COPY:
                return False
            raise write_error(f"write {self._path}", error) from error
        return True

    def publish(self) -> None:
        """Make the whole object durable and visible under its key, if the key is absent. Errors: see the port."""
        try:
            try:
                fd = self._open()
                os.fsync(fd)
                self._fd = None
                os.close(fd)
            except OSError as error:
                raise write_error(f"write {self._path}", error) from error
            assert self._temporary is not None
            self._names.link(self._temporary, self._path)
        finally:
            self.abort()

    def abort(self) -> None:
        """Drop what was written. Legal at any time, also twice; after `publish` it does nothing."""
        self._ended = True
        fd, self._fd = self._fd, None
        temporary, self._temporary = self._temporary, None
        # What can't be removed now is what `remove_abandoned` is for.
        with suppress(OSError):
            if fd is not None:
                os.close(fd)
        with suppress(OSError):
            if temporary is not None:
                os.unlink(temporary)

    def __enter__(self) -> LocalUpload:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()

    def _open(self) -> int:
        if self._ended:
            raise InvalidInput(f"the upload of {self._path} has ended or failed: begin another one")
        if self._fd is None:
            self._fd, self._temporary = self._names.open_temporary()
        return self._fd
