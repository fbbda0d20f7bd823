"""A process may end while calls to HDFS, which nobody waits for any more, are about to return."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOW_END = """
class SlowEnd:
    def __init__(self):
        self.sleep = time.sleep

    def __del__(self):
        self.sleep(1.5)


builtins.slow_end = SlowEnd()
"""

# A name node that takes a connection and ends a little later; a caller who waits for less; a slow end.
LATE = """
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

name_node.stdout.close()
"""


# A thread that calls again and again: no name node is there.
AGAIN = """
import builtins, os, threading, time
from sparklog.storage.hdfs.client import CallFailed, HdfsAddress, HdfsCalls

once = tuple((f"dfs.client.failover.{name}", "1") for name in ("max.attempts", "sleep.base.millis", "sleep.max.millis"))
address = HdfsAddress("127.0.0.1:1", 1000, None, once)
called = threading.Event()


def call_again():
    while True:
        try:
            HdfsCalls(address).call(lambda client: client.get_file_info("/x"), address.deadline())
        except CallFailed:
            called.set()


threading.Thread(target=call_again, daemon=True).start()
called.wait()
"""


@pytest.mark.parametrize("program", [LATE, AGAIN], ids=["late", "again"])
def test_calls_that_nobody_waits_for_do_not_abort_the_end_of_their_process(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program + SLOW_END], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
