"""What a run begins beside its tests ends with it."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest

from tests.servers import ahead

# Its child is deaf to SIGTERM, as a JVM is that writes an archive, and holds a pipe open as long as it lives.
WITH_A_DEAF_CHILD = """
import os, signal, sys, tempfile
pipe = open(sys.argv[1], "w")
tempfile.mkdtemp()
if os.fork() == 0:
    signal.alarm(60)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("begun", file=pipe, flush=True)
pipe.flush()
signal.pause()
"""
LONG_S = 20


def test_neither_processes_nor_files_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr(ahead, "PROGRAM", ("-c", WITH_A_DEAF_CHILD, str(pipe)))
    running = ahead.begin()
    with pipe.open() as alive:
        assert alive.readline() == "begun\n"
        assert len(os.listdir(running.folder.name)) == 1
        ahead.end(running)
        assert select.select([alive], [], [], LONG_S)[0]
        assert alive.read() == ""
    assert not os.path.exists(running.folder.name)
    ahead.end(running)
