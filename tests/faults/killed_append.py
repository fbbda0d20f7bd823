"""`sparklog`, whose coordinator kills itself while it appends records over HTTP. KILLED says when:

before-commit   the records are uploaded, and the command is not submitted
after-commit    the command is committed, and the reply is not sent
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from sparklog.cli.main import entry_point
from sparklog.coordinator.http import produce_routes

VARIABLE = "KILLED"
BEFORE_COMMIT, AFTER_COMMIT = "before-commit", "after-commit"
_PATCHED = {BEFORE_COMMIT: "append_command", AFTER_COMMIT: "appended_records"}


def die(*arguments: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


if __name__ == "__main__":
    setattr(produce_routes, _PATCHED[os.environ[VARIABLE]], die)
    entry_point()
