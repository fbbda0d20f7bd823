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
