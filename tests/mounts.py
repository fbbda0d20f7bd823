"""Disks of a test's own: what is mounted here no other program sees, and it is gone with this process."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

_CLONE_NEWNS = 0x20000  # of unshare(2)
_own = False


def begin_own_mounts() -> bool:
    """Give this thread, and what it starts, mounts of its own from now on; False if the machine does not allow it."""
    global _own
    if not _own and sys.platform == "linux" and os.getuid() == 0 and shutil.which("mount"):
        unshared = ctypes.CDLL(None).unshare(_CLONE_NEWNS) == 0
        # Until they are private, other programs would see what is mounted.
        _own = unshared and subprocess.run(["mount", "--make-rprivate", "/"], check=False).returncode == 0
    return _own


def mount(*arguments: str | Path) -> None:
    """`mount` with these arguments."""
    subprocess.run(["mount", *map(str, arguments)], check=True)


def mount_disk(at: Path, size: str) -> bool:
    """Mount an empty disk of this size (such as "2m") at a folder; False if the machine does not allow it."""
    if not begin_own_mounts():
        return False
    try:
        mount("-t", "tmpfs", "-o", f"size={size}", "none", at)
    except subprocess.CalledProcessError:
        return False
    return True


def unmount(at: Path) -> None:
    """At once, whoever has files open there."""
    subprocess.run(["umount", "--lazy", str(at)], check=True)


class Disk:
    """A disk at the folder `at`, with what is there already. Unmounted, the folder below it is seen, empty at first.

    If not `real`, folders change names instead, which takes no rights.
    """

    def __init__(self, at: Path, *, real: bool) -> None:
        self.at = at
        self.is_mounted = True
        self._real = real
        self._disk, self._below = (at.with_name(f"{at.name}-{name}") for name in ("disk", "below"))
        if real:
            at.rename(self._disk)
            at.mkdir()
            mount("--bind", self._disk, at)
        else:
            self._below.mkdir()

    def unmount(self) -> None:
        assert self.is_mounted
        self.is_mounted = False
        if self._real:
            unmount(self.at)
        else:
            self.at.rename(self._disk)
            self._below.rename(self.at)

    def mount(self) -> None:
        assert not self.is_mounted
        self.is_mounted = True
        if self._real:
            mount("--bind", self._disk, self.at)
        else:
            self.at.rename(self._below)
            self._disk.rename(self.at)
