"""docs/compat.md names the tests that prove it: each is there, and none of them is left out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests import differences

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "compat.md"


def test_the_page_and_the_tests_of_the_cases_name_each_other() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text()))
    there = {
        node.name
        for path in (*HERE.glob("test_kafka_*.py"), HERE / "test_sql_tables.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    assert named == there


def test_every_case_says_how_it_goes_here() -> None:
    suites = PAGE.read_text().partition("## KafkaRelationSuite")[2]
    rows = [line for line in suites.splitlines() if line.startswith("|") and line.count("|") == 4]
    cases = [row for row in rows if not row.startswith(("|---", "| case "))]
    assert len(cases) == 25 + 6 + 8 + 2 + 17
    assert all(re.match(r"\| .+ \| (passes|differs|not applicable)", case) for case in cases)
    assert all("`test_" in case or "not applicable" in case for case in cases)


def test_the_table_of_differences_is_what_the_tests_say() -> None:
    assert PAGE.read_text() == differences.page(PAGE.read_text()), "run: make docs"
    assert len(list(differences.rows())) >= 15
