"""Serve the JVM that started this process, until the JVM closes its end of the pipe."""

from __future__ import annotations

import os
import sys

from sparklog.spark.planner.planner import serve

if __name__ == "__main__":
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the replies
    serve(sys.stdin.buffer, replies, protocol=sys.argv[1])
