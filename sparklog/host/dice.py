"""Ids that nobody drew before, and pauses that are not the same for everybody."""

from __future__ import annotations

import os
import random


def new_id() -> str:
    """32 hexadecimal digits. A forked child draws others than its parent."""
    return os.urandom(16).hex()


def jittered(longest: float) -> float:
    """Something between half of `longest` and `longest`, so that many who wait do not act at once."""
    return random.uniform(longest / 2, longest)
