"""Ids that were never drawn before, and pauses that differ between processes."""

from __future__ import annotations

import os
import random
import secrets
from typing import Protocol


def new_id() -> str:
    """32 hexadecimal digits. A forked child does not draw the same ids as its parent."""
    return os.urandom(16).hex()


def new_token() -> str:
    """A secret of 256 bits, in characters that need no quotes anywhere."""
    return f"sparklog_{secrets.token_urlsafe(32)}"


def jittered(longest: float) -> float:
    """A random length from half of `longest` to `longest`, so that many waiters do not all act at once."""
    return random.uniform(longest / 2, longest)


class Dice(Protocol):
    """Everything random that a state machine needs. A simulation rolls these dice from its seed."""

    def new_id(self) -> str: ...

    def jittered(self, longest: float) -> float: ...

    def below(self, end: int) -> int: ...


class SystemDice:
    """Ids and random numbers from the operating system and Python's generator."""

    def new_id(self) -> str:
        return new_id()

    def jittered(self, longest: float) -> float:
        return jittered(longest)

    def below(self, end: int) -> int:
        """A random number of [0, end)."""
        return random.randrange(end)
