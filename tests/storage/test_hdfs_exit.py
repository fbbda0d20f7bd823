"""A process may end while a call to HDFS, which nobody waits for any more, is about to return."""

from __future__ import annotations

import subprocess
import sys

# A name node that takes a connection and ends a little later; a caller who waits for less; a slow end.
PROGRAM = """
import builtins, os, socket, subprocess, sys, time
from sparklog.storage.hdfs.client import CallFailed, HdfsAddress, HdfsCalls, HdfsFailure

name_node = subprocess.Popen(
    [sys.executable, "-c", '''
import socket, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
taken, _ = server.accept()
time.sleep(0.3)
'''],
    stdout=subprocess.PIPE,
    text=True,
)
port = int(name_node.stdout.readline())
once = tuple((f"dfs.client.failover.{name}", "1") for name in ("max.attempts", "sleep.base.millis", "sleep.max.millis"))
address = HdfsAddress(f"127.0.0.1:{port}", 100, None, once)
try:
    HdfsCalls(address).call(lambda client: client.get_file_info("/x"), address.deadline())
except CallFailed as failed:
    assert failed.kind is HdfsFailure.TIMEOUT, failed


class SlowEnd:
    def __init__(self):
        self.sleep = time.sleep

    def __del__(self):
        self.sleep(1.5)


builtins.slow_end = SlowEnd()
name_node.stdout.close()
"""


def test_a_call_that_returns_late_does_not_abort_the_end_of_its_process() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
