"""The snippets of the README, pasted into clean shells as its text says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.clean_shell import in_clean_shell

README = Path(__file__).parents[2] / "README.md"
_SNIPPET = re.compile(r"```(?:python|bash)\n(.*?)```", re.DOTALL)
_SUBMITTED = re.compile(r"`(spark-submit [^`]+)`")


def check_snippets(folder: Path, program: str = "the same python") -> None:
    """Run all snippets in `folder`, which has .venv and jobs as the project's folder has, and check their output.

    The second goes into the `python` of the first; those after the third into that of the third, or `pyspark`.
    """
    text = README.read_text(encoding="utf-8").replace("/tmp/sparklog-readme", str(folder / "cluster"))
    first, client, records, write, read, stream, maintain, verbs = _SNIPPET.findall(text)
    roll, explain = _SUBMITTED.findall(text)
    printed = _pasted(folder, first, "python", client + "\n" + records)
    assert "[(0, 0, 1), (1, 0, 2), (2, 0, 1)]" in printed
    assert "[b'2 cups', b'1 spoon']" in printed
    assert "[b'1 cake', b'1 spoon', b'1 tea', b'2 cups', b'2 forks']" in printed
    assert "left to read: 0\n" in printed
    if program == "pyspark":
        _pasted(folder, first, "python", write)
        shown = _pasted(folder, first, "pyspark", read + stream + maintain)
    else:
        shown = _pasted(folder, first, "python", write + "\n" + read + stream + maintain)
    assert "|        2|    14|" in shown
    assert "shouted: 1005\n" in shown
    assert "Work(" in shown
    assert '"value":"3 spoons"' in in_clean_shell(folder, first + verbs)
    assert "Usage: spark-submit jobs/produce.py" in in_clean_shell(folder, f"{first}\n{roll}\n{explain}\n")


def _pasted(folder: Path, first: str, program: str, snippet: str) -> str:
    """What `program` prints, started in a new shell in which `first` was run."""
    run = {
        "python": "python -i",
        # A pipe is no terminal: without -i Python would not make the session.
        "pyspark": "PYSPARK_DRIVER_PYTHON_OPTS=-i pyspark",
    }
    output = in_clean_shell(folder, f"{first}\n{run[program]} <<'PASTED'\n{snippet}\nPASTED\n")
    assert "Error" not in output, output
    return output
