"""What a forked child inherits and can't use: locks that a thread held, threads, connections of its parent."""

from __future__ import annotations

import os
from collections.abc import Callable


def after_fork_in_child(begin_anew: Callable[[], None]) -> None:
    """Call `begin_anew` first thing in every child that is forked from this process."""
    os.register_at_fork(after_in_child=begin_anew)
