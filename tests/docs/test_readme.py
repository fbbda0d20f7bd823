"""The snippets of the README run as its text says: pasted into clean shells."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.docs.clean_shell import in_clean_shell

README = Path(__file__).parents[2] / "README.md"
SNIPPET = re.compile(r"```(?:python|bash)\n(.*?)```", re.DOTALL)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("program", ["the same python", pytest.param("pyspark", marks=pytest.mark.campaign)])
def test_each_snippet_runs_as_the_text_says_in_a_clean_shell(tmp_path: Path, program: str) -> None:
    """The second goes into the `python` of the first; those after the third into that of the third, or `pyspark`."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    text = README.read_text(encoding="utf-8").replace("/tmp/sparklog-readme", str(tmp_path / "cluster"))
    first, client, records, write, read, stream, maintain, verbs = SNIPPET.findall(text)
    printed = pasted(tmp_path, first, "python", client + "\n" + records)
    assert "[(0, 0, 1), (1, 0, 2), (2, 0, 1)]" in printed
    assert "[b'2 cups', b'1 spoon']" in printed
    assert "[b'1 cake', b'1 spoon', b'1 tea', b'2 cups', b'2 forks']" in printed
    assert "left to read: 0\n" in printed
    if program == "pyspark":
        pasted(tmp_path, first, "python", write)
        shown = pasted(tmp_path, first, "pyspark", read + stream + maintain)
    else:
        shown = pasted(tmp_path, first, "python", write + "\n" + read + stream + maintain)
    assert "|        2|    14|" in shown
    assert "shouted: 1005\n" in shown
    assert "Work(" in shown
    assert '"value":"3 spoons"' in in_clean_shell(tmp_path, first + verbs)


def pasted(folder: Path, first: str, program: str, snippet: str) -> str:
    """What `program` prints, started in a new shell in which `first` was run."""
    run = {
        "python": "python -i",
        # A pipe is no terminal: without -i Python would not make the session.
        "pyspark": "PYSPARK_DRIVER_PYTHON_OPTS=-i pyspark",
    }
    output = in_clean_shell(folder, f"{first}\n{run[program]} <<'PASTED'\n{snippet}\nPASTED\n")
    assert "Error" not in output
    return output
