"""A rewrite whose process is killed after its first upload, before Spark hears of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from sparklog.maintenance.compaction_tasks import Left
from sparklog.maintenance.compaction_tasks import rewrite_stretch as whole

FOLDER = "SPARKLOG_TEST_DEATHS"  # in the environment: where the one that dies leaves a mark


def rewrite_stretch(payload: bytes, left: Left) -> bytes:
    result = whole(payload, left)
    try:
        (Path(os.environ[FOLDER]) / "died").touch(exist_ok=False)
    except FileExistsError:
        return result
    os.kill(os.getpid(), signal.SIGKILL)
    return result
