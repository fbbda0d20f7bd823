"""What a guard is, for the lists beside this file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Guard:
    """`text` is in `file` exactly once; with `without` in its place the guard is gone, and the code still runs.

    `tests` are pytest's names, without parameters, the cheapest that notice; `choose` is pytest's -k among them.
    """

    name: str
    guards: str
    file: str
    text: str
    without: str
    tests: tuple[str, ...]
    choose: str = ""
