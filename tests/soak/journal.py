"""The journals of writers and readers: a line of JSON for each thing that happened, there also after a SIGKILL.

`at` in each line is the time in nanoseconds by the clock that all processes of a machine share.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class Journal:
    """A journal to write to. A line that a SIGKILL cut in two is ended by the next process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        if path.stat().st_size:
            os.write(self._file, b"\n")

    def note(self, **line: object) -> None:
        """Write a line. Once this returns, it is there whatever happens to the process."""
        os.write(self._file, json.dumps({**line, "at": time.monotonic_ns()}).encode() + b"\n")


def lines_of(path: Path) -> Iterator[Line]:
    """All whole lines, in the order in which they were written."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                yield json.loads(line)
            except json.JSONDecodeError:  # cut in two
                continue
