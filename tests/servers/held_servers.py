"""Tests that start servers, say so, and then hold them until somebody ends the run: test_leftovers.py does.

Their ids go to a file in the folder that a variable names. Pytest collects this file only if it is asked to.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.servers.hadoop import Hadoop
from tests.servers.s3_servers import S3Server

FOLDER = "FOLDER_OF_HELD_SERVERS"
STARTED = "started"


def test_one(moto: S3Server) -> None:
    hold(moto.process.pid)


def test_all(moto: S3Server, s3proxy: S3Server, hadoop: Hadoop) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a call that does not return in the time pytest-xdist gives it
    hold(moto.process.pid, s3proxy.process.pid, *(each.pid for each in hadoop._processes.values()))


def hold(*servers: int) -> None:
    folder = Path(os.environ[FOLDER])
    (folder / "written").write_text(" ".join(map(str, servers)))
    (folder / "written").rename(folder / STARTED)
    while True:
        signal.pause()
