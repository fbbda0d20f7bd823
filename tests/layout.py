"""The layout of sparklog/: a test file for each module, names that say which file is meant, rows short enough to read,
and in each package, of Python or Java, the name of the file to read first.

    python -m tests.layout

`make lint` runs it. The tests of a module are at the mirrored place, or in the file that covered_by.toml names.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
COVERED_BY: Final = Path(__file__).with_name("covered_by.toml")
JAVA: Final = ROOT / "jvm/src"
MOST_FILES: Final = 15  # in one folder, without __init__.py or package-info.java
ANYWHERE: Final = frozenset(("__init__.py", "__main__.py", "run.py", "package-info.java"))
PORT: Final = "sparklog/storage/"  # its adapters have files of the same names
READ_FIRST: Final = re.compile(r"\b(?:Read|Begin with)\s+`?(\w+(?:\.py|/))")
READ_FIRST_IN_JAVA: Final = re.compile(r"\bRead (?:{@link [\w.]*\.)?(\w+)}? first\b")


def mirrored(module: str) -> str:
    """The mirrored place of the tests of a module: tests/log/test_batch.py for sparklog/log/batch.py."""
    folder, _, name = module.removeprefix("sparklog/").rpartition("/")
    return "/".join(filter(None, ("tests", folder, f"test_{name}")))


def complaints() -> Iterator[str]:
    """Everything that is not as it should be, a line each."""
    modules = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "sparklog").rglob("*.py"))
    yield from _without_tests([module for module in modules if not module.endswith("/__init__.py")])
    java = sorted(str(path.relative_to(ROOT)) for path in JAVA.rglob("*.java"))
    yield from _files_of_one_name(modules)
    yield from _files_of_one_name(java)
    yield from _classes_of_one_name(modules)
    yield from _long_rows(modules)
    yield from _long_rows(java)
    yield from _without_a_first_file(modules)
    yield from _java_without_a_first_file(java)


def _without_tests(modules: list[str]) -> Iterator[str]:
    covered_by: dict[str, str] = tomllib.loads(COVERED_BY.read_text())
    for module in modules:
        if not (ROOT / mirrored(module)).exists() and module not in covered_by:
            yield f"{module}: wanted {mirrored(module)}, or a line in {COVERED_BY.name} that names its tests"
    for module, test in covered_by.items():
        if module not in modules:
            yield f"{COVERED_BY.name}: {module} is not there"
        elif (ROOT / mirrored(module)).exists():
            yield f"{COVERED_BY.name}: {module} has its tests at the mirrored place, so it needs no line"
        elif not (ROOT / test).exists():
            yield f"{COVERED_BY.name}: {test}, for {module}, is not there"


def _files_of_one_name(modules: list[str]) -> Iterator[str]:
    by_name = defaultdict(list)
    for module in modules:
        name = Path(module).name
        if name not in ANYWHERE and not module.startswith(PORT):
            by_name[name].append(module)
    yield from (f"one name: {', '.join(files)}" for files in by_name.values() if len(files) > 1)


def _classes_of_one_name(modules: list[str]) -> Iterator[str]:
    by_name = defaultdict(list)
    for module in modules:
        for node in ast.walk(ast.parse((ROOT / module).read_text())):
            if isinstance(node, ast.ClassDef):
                by_name[node.name].append(module)
    yield from (f"class {name}: {', '.join(files)}" for name, files in by_name.items() if len(files) > 1)


def _long_rows(modules: list[str]) -> Iterator[str]:
    by_folder = defaultdict(list)
    for module in modules:
        if not module.endswith(("/__init__.py", "/package-info.java")):
            by_folder[Path(module).parent].append(module)
    for folder, files in by_folder.items():
        if len(files) > MOST_FILES:
            yield f"{folder}: {len(files)} files in one row, wanted {MOST_FILES} at most"


def _without_a_first_file(modules: list[str]) -> Iterator[str]:
    for package in (ROOT / module for module in modules if module.endswith("/__init__.py") and module.count("/") > 1):
        named = READ_FIRST.search(ast.get_docstring(ast.parse(package.read_text())) or "")
        if named is None or not package.with_name(named[1].removesuffix("/")).exists():
            yield f"{package.relative_to(ROOT)}: wanted 'Read NAME.py first' (or NAME/) with a name of this package"


def _java_without_a_first_file(files: list[str]) -> Iterator[str]:
    for folder in sorted({(ROOT / file).parent for file in files}):
        info = folder / "package-info.java"
        words = " ".join(info.read_text().replace("\n * ", " ").split()) if info.exists() else ""
        named = READ_FIRST_IN_JAVA.search(words)
        if named is None or not (folder / f"{named[1]}.java").exists():
            yield f"{info.relative_to(ROOT)}: wanted 'Read NAME first' with a name of this package"


if __name__ == "__main__":
    wrong = list(complaints())
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(bool(wrong))
