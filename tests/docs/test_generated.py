"""Pages made from the code are what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.docs.generate_docs import pages
from tests import cost_table, mechanisms, readme_figures, spark_versions

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", sorted(pages()))
def test_a_generated_page_is_what_the_code_says(path: str) -> None:
    assert (ROOT / path).read_text() == pages()[path], "run: make docs"


def test_the_table_of_costs_has_the_requests_and_prices_of_the_code() -> None:
    assert cost_table.PAGE.read_text(encoding="utf-8") == cost_table.page(), "run: make docs"


def test_the_page_of_mechanisms_names_the_tests_that_are_there() -> None:
    assert mechanisms.PAGE.read_text() == mechanisms.page(), "run: make docs"


def test_the_page_of_spark_versions_is_what_the_marks_and_the_lock_files_say() -> None:
    assert spark_versions.PAGE.read_text(encoding="utf-8") == spark_versions.page(), "run: make docs"


def test_the_figures_of_the_readme_are_those_of_the_benchmarks() -> None:
    readme = readme_figures.README.read_text(encoding="utf-8")
    assert readme == readme_figures.with_figures(readme), "run: make docs"
