"""A put-if-absent on a disk with a streamed body: a temporary file, which `publish` links to the path of its key."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from sparklog.core.errors import InvalidInput
from sparklog.storage.local.local_errors import write_error
from sparklog.storage.local.names import DurableNames
from sparklog.storage.object_store import Bytes

_CAN_NOT_COPY = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}


class LocalUpload:
    """A put-if-absent with a streamed body: `publish` links a temporary file to its path. One thread at a time."""

    def __init__(self, names: DurableNames, path: str) -> None:
        self._names = names
        self._path = path
        self._fd: int | None = None
        self._temporary: str | None = None
        self._ended = False

    def write(self, body: Bytes) -> None:
        """Append bytes. Raises StoreFull, StoreReadOnly, StoreUnavailable; after an error only `abort` is legal."""
        rest = memoryview(body).cast("B")
        try:
            fd = self._open()
            while rest:
                rest = rest[os.write(fd, rest) :]
        except OSError as error:
            self.abort()
            raise write_error(f"write {self._path}", error) from error

    def copy(self, fd: int, size_bytes: int) -> bool:
        """Append the first `size_bytes` bytes of the open file `fd`, copied in the kernel.

        If the kernel can't copy between these two files, abort the upload and return False. Raises the errors of
        `write`.
        """
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
        """Make the whole object durable and visible under its key, if the key is free. Errors: see ObjectStore."""
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
        """Discard the written bytes. Legal at any time and more than once; does nothing after `publish`."""
        self._ended = True
        fd, self._fd = self._fd, None
        temporary, self._temporary = self._temporary, None
        # `remove_abandoned` removes later what can't be removed now.
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
