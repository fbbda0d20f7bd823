"""Random ids and tokens that are never drawn twice, and pauses that differ between processes."""

from __future__ import annotations

import os
import random
import secrets
from typing import Protocol


def new_id() -> str:
    """Return 32 random hexadecimal digits. A forked child draws other ids than its parent."""
    return os.urandom(16).hex()


def new_token() -> str:
    """Return a secret of 256 random bits, as text that needs no quotes anywhere."""
    return f"sparklog_{secrets.token_urlsafe(32)}"


def jittered(longest: float) -> float:
    """Return a random duration from half of `longest` to `longest`, so that many waiters do not all act at once."""
    return random.uniform(longest / 2, longest)


class Dice(Protocol):
    """The random ids and numbers of a state machine. A simulation draws them from a seed, to repeat a run."""

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
        """Return a random integer in [0, end)."""
        return random.randrange(end)
