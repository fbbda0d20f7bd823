"""What differs from Spark's Kafka connector: collects the docstrings of the tests that prove it into docs/compat.md.

python -m tests.differences    writes the table

The docstring of such a test is its row: "what | the connector | sparklog".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PROVEN = Path(__file__).parent / "spark" / "test_kafka_differences.py"
PAGE = Path(__file__).parents[1] / "docs" / "compat.md"
_START = "<!-- Written by `python -m tests.differences` from the tests that prove it. -->"
_END = "<!-- Here the table ends. -->"


def rows() -> Iterator[str]:
    """One for each test, in their order."""
    for node in ast.parse(PROVEN.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            cells = [" ".join(cell.split()) for cell in (ast.get_docstring(node) or "").split(" | ")]
            if len(cells) != 3:
                raise ValueError(f"{node.name}: wanted a docstring 'what | the connector | sparklog', found {cells}")
            yield f"| {' | '.join(cells)} | `{node.name}` |"


def page(text: str) -> str:
    """The page with the table that the tests say."""
    before, _, rest = text.partition(_START)
    after = rest.partition(_END)[2]
    table = ["| what | Spark's Kafka connector | sparklog | test |", "|---|---|---|---|", *rows()]
    return "\n".join([f"{before}{_START}", "", *table, "", f"{_END}{after}"])


def main() -> None:
    PAGE.write_text(page(PAGE.read_text()))


if __name__ == "__main__":
    main()
