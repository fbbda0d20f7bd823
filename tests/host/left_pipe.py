"""A pipe that nobody reads any more, as a text stream like stdout."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


@contextmanager
def left_pipe(buffering: int = -1) -> Iterator[TextIO]:
    """Buffered as `open` says. It fails when what it holds is handed over, at the latest when it is closed."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", buffering, encoding="utf-8") as stream:
        yield stream
