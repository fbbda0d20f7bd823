"""What a mutation of terraform/ is, for mutations.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Mutation:
    """`text` is in `file`, below terraform/, exactly once. With `without` in its place the check `fails`.

    `check` is the cheapest one that notices, and `fails` what it says: `validate` of an example and its `plan` refuse
    it with this text; of the `tests` of the module this one fails; the completed plan of an example breaks this `rule`.
    """

    name: str
    breaks: str
    file: str
    text: str
    without: str
    fails: str
    check: Literal["validate", "plan", "tests", "rule"] = "rule"
    example: str = "complete"
