"""The generated pages hold every verb, option, default and error; `--check` finds a page that is not what it should be.

That the pages in docs/ are up to date is tested in tests/docs/.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.docs import generate_docs
from sparklog.core.errors import SparklogError


def test_every_verb_is_there_with_options_defaults_and_examples() -> None:
    page = generate_docs.render_cli()
    assert "## `sparklog topic add-partitions`" in page
    assert "- `--offset`, `-o` start|end|N|-N|@TIME[:TIME] (default: `start`): " in page
    assert "- `--total` N (required): " in page
    assert "- `--spark`, `--no-spark` (default: `True`): " in page
    assert "```\nsparklog topic alter orders --set retention.ms=604800000\n" in page


def test_every_error_is_there() -> None:
    page = generate_docs.render_errors()

    def codes(kind: type[SparklogError]) -> set[str]:
        return {kind.code}.union(*(codes(each) for each in kind.__subclasses__()))

    assert all(f"| `{code}` |" in page for code in codes(SparklogError))


def test_check_names_the_pages_that_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate_docs, "ROOT", tmp_path)
    assert generate_docs.main(["--check"]) == 1
    assert not (tmp_path / "docs").exists()
    assert generate_docs.main([]) == 0
    assert generate_docs.main(["--check"]) == 0
    capsys.readouterr()
    (tmp_path / "docs" / "cli.md").write_text("old")
    assert generate_docs.main(["--check"]) == 1
    assert capsys.readouterr().err == "docs/cli.md differs from the code: run make docs\n"
