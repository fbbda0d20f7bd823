"""Which test proves which mechanism: collects the `# M: S-04` marks of the tests into docs/mechanisms.md.

python -m tests.mechanisms            writes the page
python -m tests.mechanisms --check    fails if the page is not what the tests say
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "mechanisms.md"

TITLES = {
    "S": ("Segments, indices, zero copy", 10),
    "R": ("Retention", 6),
    "C": ("Compaction", 7),
    "L": ("Log, LEO, HW, leader epoch", 12),
    "P": ("Replication, ISR, acks, election", 11),
    "F": ("Flush, recovery, checkpoints", 9),
    "I": ("Idempotence, transactions, order", 7),
    "N": ("Coordinator, controller, network", 7),
}
_TEST = re.compile(r"^\s*def (test_\w+)", re.MULTILINE)
_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
_MARK = re.compile(r"# M: ([A-Z]-\d{2}(?:, ?[A-Z]-\d{2})*)")


def marks() -> Iterator[tuple[str, str]]:
    """(row id, test) for each mark: it belongs to the test in whose body or signature it stands, or that follows."""
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text()
        tests = [(each.start(), each[1]) for each in _TEST.finditer(text)]
        for mark in _MARK.finditer(text):
            line_start = text.rfind("\n", 0, mark.start()) + 1
            alone = not text[line_start : mark.start()].strip()
            column = mark.start() - line_start
            if alone and column == 0:
                owner = next((name for at, name in tests if at > mark.start()), None)
            else:
                owner = next((name for at, name in reversed(tests) if at < mark.start()), None)
            if owner is not None:
                for row in re.split(r", ?", mark[1]):
                    yield row, f"{path.relative_to(TESTS.parent)}::{owner}"


def page() -> str:
    """The whole page."""
    found: dict[str, list[str]] = {}
    for row, test in marks():
        tests = found.setdefault(row, [])
        if test not in tests:
            tests.append(test)
    lines = [
        "# Mechanisms and the tests that prove them",
        "",
        "Written by `python -m tests.mechanisms` from the `# M:` marks of the tests. A row without one is not claimed.",
        "Rows that need a second store, an election or compaction are proven here only as far as one store goes.",
    ]
    for letter, (title, count) in TITLES.items():
        lines += ["", f"## {letter}. {title}", "", "| row | tests |", "|---|---|"]
        for number in range(1, count + 1):
            row = f"{letter}-{number:02d}"
            tests = "<br>".join(f"`{each}`" for each in found.get(row, [])) or "not yet"
            lines.append(f"| {row} | {tests} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    if "--check" in sys.argv:
        return 0 if PAGE.exists() and PAGE.read_text() == page() else 1
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
