"""What a mutation of terraform/ is, for mutations.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Mutation:
    """`text` is in `file`, below terraform/, exactly once. With `without` in its place the check `fails`.

    `check` is the cheapest one that notices: `rule` of the plan of an example, by its name; `validate` of a module or
    example; `tests` of a module. `example` is the plan that is judged.
    """

    name: str
    breaks: str
    file: str
    text: str
    without: str
    fails: str
    check: Literal["rule", "validate", "tests"] = "rule"
    example: str = "complete"
