"""A hook for forked children. They inherit what they can't use: held locks, threads, connections of the parent."""

from __future__ import annotations

import os
from collections.abc import Callable


def after_fork_in_child(reset: Callable[[], None]) -> None:
    """Call `reset` first in every child forked from this process."""
    os.register_at_fork(after_in_child=reset)
