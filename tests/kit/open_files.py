"""The open files of this process in a folder: all others come and go with what earlier tests have left."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import psutil


def open_below(folder: Path) -> list[str]:
    """The files and folders at or below `folder` that this process has open, one for each descriptor, sorted."""
    descriptors = Path("/proc/self/fd")
    if not descriptors.is_dir():
        paths = [file.path for file in psutil.Process().open_files()]
    else:
        paths = []
        for name in os.listdir(descriptors):
            with suppress(FileNotFoundError):  # it was closed meanwhile
                paths.append(os.readlink(descriptors / name))
    return sorted(path for path in paths if path.startswith(str(folder.resolve())))
