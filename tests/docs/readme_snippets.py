"""The snippets of the README and of docs/quickstart.md, pasted into clean shells as their texts say."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.clean_shell import in_clean_shell

README = Path(__file__).parents[2] / "README.md"
QUICKSTART = README.parent / "docs" / "quickstart.md"
_SNIPPET = re.compile(r"```(?:python|bash)\n(.*?)```", re.DOTALL)
_SUBMITTED = re.compile(r"`(spark-submit [^`]+)`")


def check_snippets(folder: Path, program: str = "the same python") -> None:
    """Run all snippets in `folder`, which has .venv and jobs as the project's folder has, and check their output.

    Those with a stream and with jobs go into the `python` of the others, or into `pyspark`.
    """
    readme, quickstart = (
        page.read_text(encoding="utf-8").replace("/tmp/sparklog-readme", str(folder / "cluster"))
        for page in (README, QUICKSTART)
    )
    arrow, frames = _SNIPPET.findall(readme)
    first, client, stream, maintain, verbs = _SNIPPET.findall(quickstart)
    roll, explain = _SUBMITTED.findall(quickstart)
    if program == "pyspark":
        printed = _pasted(folder, first, "python", "\n".join((arrow, frames, client)))
        printed += _pasted(folder, first, "pyspark", stream + "\n" + maintain)
    else:
        printed = _pasted(folder, first, "python", "\n".join((arrow, frames, client, stream, maintain)))
    assert "[b'2 cups', b'1 spoon']" in printed
    assert "|        2|    14|" in printed
    assert "consumed: 1005\n" in printed
    assert "left to read: 0\n" in printed
    assert "shouted: 1005\n" in printed
    assert "retention" in printed.rsplit("shouted: 1005", 1)[1]
    shown = in_clean_shell(folder, first + verbs)
    assert '"value":"3 spoons"' in shown
    assert re.search(r"^0 0 (alice=1 tea|eve=1 cake)$", shown, re.MULTILINE)
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
