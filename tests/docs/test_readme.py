"""The snippets of the README and of the quick start run in the project's folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.docs.readme_snippets import README, check_snippets


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)  # three programs start Java, one after the other
@pytest.mark.parametrize("program", ["the same python", pytest.param("pyspark", marks=pytest.mark.campaign)])
def test_each_snippet_runs_as_the_text_says_in_a_clean_shell(tmp_path: Path, program: str) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "jobs").symlink_to(README.parent / "jobs")
    check_snippets(tmp_path, program)
