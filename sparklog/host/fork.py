"""Guards objects against use in a forked child process.

The child inherits held locks, threads that do not run there, and the connections and ids of its parent.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from sparklog.core.errors import InvalidInput


def after_fork_in_child(reset: Callable[[], None]) -> None:
    """Call `reset` in every child forked from this process, before the child's own code continues."""
    os.register_at_fork(after_in_child=reset)


class OwnerProcess:
    """Remembers the process that made an object. A forked child has a copy of the object, but may not use it."""

    def __init__(self, what: str) -> None:
        """Make this process the owner. `what` is the noun for the object in errors, such as "consumer"."""
        self._what = what
        self._process = os.getpid()

    @property
    def is_here(self) -> bool:
        """True if this is the process that made the object."""
        return self._process == os.getpid()

    def check(self) -> None:
        """Raise InvalidInput in a forked child."""
        if not self.is_here:
            raise self.refusal()

    def refusal(self) -> InvalidInput:
        """The error for any use of the object in a forked child."""
        return InvalidInput(
            f"this {self._what} belongs to the process that was forked, which continues to use it: connect again in "
            f"the child, and make a {self._what} there"
        )
