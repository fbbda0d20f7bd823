"""Which test proves which mechanism: the `# M:` marks of the tests, as docs/mechanisms.md.

python -m tests.mechanisms    writes the page
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from tests.mechanism_marks import BadMarks, Claim, claims
from tests.mechanism_rows import ROWS, SECTIONS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "mechanisms.md"


def page() -> str:
    """The whole page. Raises BadMarks."""
    by_row = booked()
    lines = [
        "# Mechanisms and the tests that prove them",
        "",
        "Written by `make docs` from the `# M:` marks of the tests; `tests/mechanism_marks.py` says how they are read.",
        "A row is a mechanism that sparklog is meant to have. A row without a test is not claimed; where only a part",
        "of a row is proven, the missing part is named. Tests marked *kills* kill a process; tests marked *loses* lose",
        "or hold up a request, an answer or an attempt.",
        "",
        summary(by_row),
    ]
    for letter, title in SECTIONS.items():
        lines += ["", f"## {letter}. {title}", "", "| row | what | tests |", "|---|---|---|"]
        lines += [_line(row, by_row.get(row, [])) for row in ROWS if row.startswith(letter)]
    return "\n".join(lines) + "\n"


@cache
def booked() -> dict[str, list[Claim]]:
    """The tests of each row that has any."""
    by_row: dict[str, list[Claim]] = {}
    for claim in claims(ROOT, ROWS):
        by_row.setdefault(claim.row, []).append(claim)
    return by_row


def summary(by_row: dict[str, list[Claim]]) -> str:
    """How much is proven, in a sentence."""
    whole = [row for row in by_row if not ROWS[row].missing]
    hard = [row for row, found in by_row.items() if any(claim.how for claim in found)]
    left = len(ROWS) - len(by_row)
    others = {0: "", 1: "; the other one is still to come"}.get(left, f"; the other {left} are still to come")
    return (
        f"Of the {len(ROWS)} mechanisms that such a log needs, tests prove {len(whole)} whole and "
        f"{len(by_row) - len(whole)} in part{others}. "
        f"For {len(hard)} of them a test kills a process or loses a request, an answer or an attempt."
    )


def _line(row: str, found: list[Claim]) -> str:
    what = ROWS[row].subject
    if found and ROWS[row].missing:
        what += f".<br>Not proven: {ROWS[row].missing}"
    return f"| {row} | {what} | {'<br>'.join(map(_shown, found)) or 'not yet'} |"


def _shown(claim: Claim) -> str:
    heirs = f" (in {', '.join(f'`{each}`' for each in claim.heirs)})" if claim.heirs else ""
    return f"`{claim.node}`{heirs}{f' *{claim.how}*' if claim.how else ''}"


def main() -> int:
    try:
        wanted = page()
    except BadMarks as error:
        print(error, file=sys.stderr)
        return 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
