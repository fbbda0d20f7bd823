"""Disk space reserved for commits. Without it, a full disk would refuse even the commit that deletes records.

    <root>/.reserve    4 MiB, allocated; empty once the space was given back

Names with a leading dot are no keys, so no listing shows the file and no job removes it.
"""

from __future__ import annotations

import os
from typing import Final

from sparklog.storage.local.local_errors import ABSENT, read_error, write_error

RESERVE_BYTES: Final = 4 << 20  # a thousand commits: an entry is a file of a few KiB


def _allocate(descriptor: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
    else:  # macOS
        os.pwrite(descriptor, bytes(RESERVE_BYTES), 0)


class Reserve:
    """The file `.reserve` in the directory `root`."""

    def __init__(self, root: str) -> None:
        self.path = os.path.join(root, ".reserve")

    def size_bytes(self) -> int | None:
        """The size of the reserve: 0 after `give_back`, None if there is no such file. Raises the errors of a read."""
        try:
            return os.stat(self.path).st_size
        except ABSENT:
            return None
        except OSError as error:
            raise read_error(f"look at {self.path}", error) from error

    def make(self) -> None:
        """Allocate the reserve if it is missing or was given back. Raises StoreFull and the other errors of a write."""
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                _allocate(descriptor)
            except OSError:
                os.ftruncate(descriptor, 0)  # a partial reserve would look complete
                raise
            finally:
                os.close(descriptor)
        except OSError as error:
            raise write_error(f"reserve {RESERVE_BYTES >> 20} MiB in {self.path}", error) from error

    def give_back(self) -> int:
        """Free the space and return the number of bytes freed. Raises the errors of a write."""
        size_bytes = self.size_bytes() or 0
        if size_bytes:
            try:
                os.truncate(self.path, 0)
            except OSError as error:
                raise write_error(f"truncate {self.path}", error) from error
        return size_bytes
