"""Count what can be counted of plain English in the sources: `make lint` wants none of it.

    python -m tests.plain_english [FOLDER ...]

A docstring begins with a verb or a noun of the field, not with a question word. Processes are no persons. A variable
bears the name of the thing that it holds.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FOLDERS: Final = ("sparklog", "jobs", "pyspark_sparklog")
OPENINGS: Final = frozenset(
    ("what", "which", "who", "where", "when", "how", "whether", "why", "whoever", "whose", "nobody", "that", "if")
)
PHRASES: Final = re.compile(
    r"\b(nobody|somebody|anybody|everybody|whoever|whom|he|his|him|anew|told"
    r"|go on|goes on|went on|going on|gone on|what came of|what comes of|what becomes of|of which that)\b",
    re.IGNORECASE,
)
NAMES: Final = frozenset(("each", "found", "told", "one"))


def main(folders: list[str]) -> int:
    """Print each finding with its place; the exit code is 1 if there is one."""
    findings = [
        finding
        for folder in folders or FOLDERS
        for file in sorted(Path(folder).rglob("*.py"))
        for finding in findings_in(file.read_text(), str(file))
    ]
    print(*findings, sep="\n", end="\n" if findings else "")
    return 1 if findings else 0


def findings_in(source: str, file: str) -> Iterator[str]:
    """Complaints about one source file, as `file:line: text`."""
    tree = ast.parse(source)
    bodies = [owner.body for owner in ast.walk(tree) if isinstance(owner, ast.ClassDef)]
    fields = {field.target for body in bodies for field in body if isinstance(field, ast.AnnAssign)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            line = 1 if isinstance(node, ast.Module) else node.lineno
            opening = re.match(r"\W*(\w+)", ast.get_docstring(node) or "")
            if opening and opening[1].lower() in OPENINGS:
                yield f"{file}:{line}: the docstring begins with {opening[1]}"
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields and node.id in NAMES:
            yield f"{file}:{node.lineno}: a variable named {node.id}"
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            for offset, line in enumerate(token.string.splitlines()):
                for phrase in PHRASES.findall(line):
                    yield f"{file}:{token.start[0] + offset}: {phrase!r}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
