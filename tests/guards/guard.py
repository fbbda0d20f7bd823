"""What a guard is, for the lists beside this file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Guard:
    """`text` is in `file` exactly once. Replacing it with `without` removes the guard, and the code still runs.

    `tests` are the pytest names (without parameters) of the cheapest tests that notice; `choose` is their -k.
    """

    name: str
    guards: str
    file: str
    text: str
    without: str
    tests: tuple[str, ...]
    choose: str = ""
