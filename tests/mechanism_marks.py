"""The `# M:` marks of the tests: which test proves which row of the table of mechanisms.

    # M: S-04 R-03           the test proves these rows, or parts of them
    # M: F-09 (kills)        … and kills a process to do so
    # M: I-03, F-01 (loses)  … and loses or delays requests, answers or attempts

A mark belongs to the test it is in (decorators, signature or body), or else to the test or test class right below it.
On the line of a class it belongs to the whole class. Tests of a contract class run in the test classes that inherit
it. Any other mark raises `BadMarks`, so none is lost.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

_ANY_MARK = re.compile(r"#\s*[Mm]\s*:|#\s*[Mm]\s+[A-Z]-\d{2}")
_CLASS_OR_MARK = re.compile(rf"^class |{_ANY_MARK.pattern}", re.MULTILINE)  # no other file needs parsing
_MARK = re.compile(r"# M: (?P<rows>[A-Z]-\d{2}(?:,? [A-Z]-\d{2})*)(?: \((?P<how>kills|loses)\))?\s*(?:#.*)?$")
_LEFT_OUT = re.compile(r"pytest\.(fixture|mark\.(skip|campaign))\b(?!if)")
_WANTED = "wanted rows and nothing else, as in `# M: S-04 R-03`, or `(kills)` or `(loses)` behind them"

Test = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class BadMarks(Exception):
    """Marks that could not be booked on a test: one line for each, with file and line."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One test (or class of tests) proves one row.

    `node` is an id that pytest takes. In a contract class it names the definition, and `heirs` are the classes that
    run it.
    `how` is "kills", "loses" or "".
    """

    row: str
    node: str
    heirs: tuple[str, ...]
    how: str


def claims(root: Path, rows: Collection[str], folder: str = "tests") -> list[Claim]:
    """What the marks in all files of `root/folder` say. Raises BadMarks."""
    sources = {path: path.read_text(encoding="utf-8") for path in sorted((root / folder).rglob("*.py"))}
    trees = {path: ast.parse(source) for path, source in sources.items() if _CLASS_OR_MARK.search(source)}
    heirs = _heirs(trees)
    found: dict[Claim, None] = {}
    wrong: list[str] = []
    for path, source in sources.items():
        for token in _marks(source):
            where = f"{path.relative_to(root)}:{token.start[0]}"
            try:
                named, how = _parsed(token.string, rows)
                node, run_by = _booked(path, trees[path], token, heirs)
            except BadMarks as error:
                wrong.append(f"{where}: {error}")
                continue
            found |= {Claim(row, f"{path.relative_to(root)}::{node}", run_by, how): None for row in named}
    if wrong:
        raise BadMarks("\n".join(wrong))
    return list(found)


def _marks(source: str) -> Iterator[tokenize.TokenInfo]:
    """The comments that are marks, or nearly."""
    if not _ANY_MARK.search(source):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and _ANY_MARK.search(token.string):
            yield token


def _parsed(comment: str, rows: Collection[str]) -> tuple[list[str], str]:
    mark = _MARK.search(comment)
    if mark is None or len(_ANY_MARK.findall(comment)) > 1:
        raise BadMarks(f"{_WANTED}; found {comment!r}")
    named = re.split(r",? ", mark["rows"])
    if unknown := [row for row in named if row not in rows]:
        raise BadMarks(f"there is no row {', '.join(unknown)} in tests/mechanism_rows.py")
    return named, mark["how"] or ""


def _booked(
    path: Path, tree: ast.Module, token: tokenize.TokenInfo, heirs: Mapping[str, tuple[str, ...]]
) -> tuple[str, tuple[str, ...]]:
    """The test that the mark belongs to, as pytest names it inside its file, and the classes that run it elsewhere."""
    line, column = token.start
    way = _way(tree.body, line, column, alone=not token.line[:column].strip())
    if not way:
        raise BadMarks("the mark is neither in a test nor right above one, so it proves nothing")
    _check_run(tree.body, way)
    outermost = way[0]
    run_by: tuple[str, ...] = ()
    if isinstance(outermost, ast.ClassDef) and not outermost.name.startswith("Test"):
        run_by = heirs.get(outermost.name, ())
        if not run_by:
            raise BadMarks(f"no test class inherits {outermost.name}, so pytest does not run the test")
    elif not path.name.startswith("test_"):
        raise BadMarks(f"pytest does not collect {path.name}, so it does not run the test")
    return "::".join(each.name for each in way), run_by


def _check_run(body: Sequence[ast.stmt], way: Sequence[Test]) -> None:
    """Raise BadMarks if `make test` does not run the test at the end of the way, for what stands at its definition."""
    whole_file = [ast.unparse(mark) for mark in _marks_of_file(body)]
    if left_out := [name for name in whole_file if _LEFT_OUT.match(name)]:
        raise BadMarks(f"no test of this file is run by make test: pytestmark has {left_out[0]}")
    for each in way:
        decorators = [ast.unparse(decorator) for decorator in each.decorator_list]
        if left_out := [name for name in decorators if _LEFT_OUT.match(name)]:
            raise BadMarks(f"{each.name} is not run by make test: @{left_out[0]}")
        if [other for other in body if isinstance(other, Test) and other.name == each.name][-1] is not each:
            raise BadMarks(f"pytest does not see this {each.name}: another one follows in the same place")
        body = each.body


def _marks_of_file(body: Sequence[ast.stmt]) -> list[ast.expr]:
    """What `pytestmark = …` gives to every test of a file."""
    values = [
        each.value for each in body if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "pytestmark"
    ]
    return [mark for value in values for mark in (value.elts if isinstance(value, ast.List | ast.Tuple) else [value])]


def _way(body: Sequence[ast.stmt], line: int, column: int, *, alone: bool) -> list[Test]:
    """From the outermost class to the test that a comment there belongs to; empty if it belongs to none."""
    for statement in body:
        if _first_line(statement) <= line <= _last_line(statement):
            return _within(statement, line, column, alone=alone)
    before = [each for each in body if _last_line(each) < line]
    if before and column > before[-1].col_offset:  # behind the last statement of its body, and indented like it
        return _within(before[-1], line, column, alone=alone)
    below = next((each for each in body if _first_line(each) > line), None)
    return [below] if below is not None and column == below.col_offset and _is_test(below) else []


def _within(statement: ast.stmt, line: int, column: int, *, alone: bool) -> list[Test]:
    """The same, for a comment that belongs to this statement."""
    if not _is_test(statement):
        return []
    if not isinstance(statement, ast.ClassDef):
        return [statement]
    if line < _first_line(statement.body[0]) and not (alone and line > statement.lineno):
        return [statement]
    inner = _way(statement.body, line, column, alone=alone)
    return [statement, *inner] if inner else []


def _first_line(statement: ast.stmt) -> int:
    decorators = statement.decorator_list if isinstance(statement, Test) else []
    return min([statement.lineno, *(each.lineno for each in decorators)])


def _last_line(statement: ast.stmt) -> int:
    assert statement.end_lineno is not None
    return statement.end_lineno


def _is_test(statement: ast.stmt) -> TypeGuard[Test]:
    if isinstance(statement, ast.ClassDef):
        return bool(statement.bases) or any(_is_test(each) for each in statement.body)
    return isinstance(statement, Test) and statement.name.startswith("test_")


def _heirs(trees: Mapping[Path, ast.Module]) -> dict[str, tuple[str, ...]]:
    """Class name -> the test classes that inherit it, themselves or by another class."""
    classes = [(path, each) for path, tree in trees.items() for each in tree.body if isinstance(each, ast.ClassDef)]
    bases = {each.name: {ast.unparse(base).rpartition(".")[2] for base in each.bases} for _, each in classes}

    def ancestors(name: str) -> set[str]:
        direct = bases.get(name, set()) - {name}
        return direct.union(*(ancestors(base) for base in direct))

    found: dict[str, list[str]] = {}
    for path, each in classes:
        if path.name.startswith("test_") and each.name.startswith("Test"):
            for ancestor in sorted(ancestors(each.name)):
                found.setdefault(ancestor, []).append(each.name)
    return {name: tuple(sorted(runners)) for name, runners in found.items()}
