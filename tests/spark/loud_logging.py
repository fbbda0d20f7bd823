"""Every logger of a Python process says all it can, into files that no other process writes.

Lines of several processes in one file tear each other: of a line that was cut nobody knows any more whose it is.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

LOUD = ("botocore", "aiobotocore", "s3fs", "fsspec", "urllib3", "asyncio", "sparklog")
BOTOCORE = ("botocore", "aiobotocore")  # their files: `botocore-<pid>`; of all others: `others-<pid>`


class OwnFiles(logging.Handler):
    """Writes each record as one line to a file of this process, which may be a fork of the one that began."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def emit(self, record: logging.LogRecord) -> None:
        """Two threads never meet here: a handler has a lock."""
        kind = "botocore" if record.name.split(".")[0] in BOTOCORE else "others"
        line = f"{record.name} {self.format(record)}".replace("\n", " ")
        with (self._folder / f"{kind}-{os.getpid()}").open("a", errors="backslashreplace") as file:
            file.write(f"{line}\n")


def begin(folder: str) -> None:
    """For this process and its forks."""
    logging.getLogger().addHandler(OwnFiles(Path(folder)))
    for name in LOUD:
        logging.getLogger(name).setLevel(logging.DEBUG)
