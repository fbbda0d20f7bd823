"""`writer`, which waits a minute for a reply: a leader that was paused finds its commands when it wakes, not closed
connections, however slow the machine is.
"""

from __future__ import annotations

import sys

from sparklog.client import group_submit
from tests.soak.writer import main

if __name__ == "__main__":
    group_submit.GRACE_MS = 60_000
    main(*sys.argv[1:])
