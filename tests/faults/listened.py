"""A process that a test starts and listens to: it says lines of JSON until its input ends."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_PATIENCE_S = 120  # for its end; a busy machine is slow


@contextmanager
def listened(command: Sequence[str], hear: Callable[[dict[str, Any]], None]) -> Iterator[subprocess.Popen[str]]:
    """Run it inside this block. A thread gives each line to `hear`; after the block it has ended, and all is heard."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines = process.stdout

        def listen() -> None:
            for line in lines:
                hear(json.loads(line))

        listener = threading.Thread(target=listen)
        listener.start()
        try:
            yield process
        finally:
            process.stdin.close()
            try:
                process.wait(_PATIENCE_S)
            finally:
                process.kill()
                listener.join()
