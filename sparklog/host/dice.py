"""Ids that nobody has drawn before, and pauses that differ between processes."""

from __future__ import annotations

import os
import random


def new_id() -> str:
    """32 hexadecimal digits. A forked child does not draw the same ids as its parent."""
    return os.urandom(16).hex()


def jittered(longest: float) -> float:
    """A random length from half of `longest` to `longest`, so that many waiters do not all act at once."""
    return random.uniform(longest / 2, longest)
