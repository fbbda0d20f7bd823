"""Pause a process of a test for certain."""

from __future__ import annotations

import os
import signal
import subprocess


def pause(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """Send SIGSTOP, and wait until it is obeyed: on a busy machine other threads of the process run on for a while."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
