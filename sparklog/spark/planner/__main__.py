"""Serve the JVM that started this process, until the JVM closes its end of the pipe."""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import suppress

from sparklog.spark.planner.planner import serve

PIPE_BYTES = 1 << 20  # a pipe has 64 KiB: batches of rows would come in thousands of pieces

if __name__ == "__main__":
    with suppress(AttributeError, OSError):  # only Linux has it, and may refuse it
        fcntl.fcntl(0, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the replies
    serve(sys.stdin.buffer, replies, protocol=sys.argv[1])
