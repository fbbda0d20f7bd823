"""The test file of each module: at the mirrored place, or as `tests/mirror.toml` says. `make lint` runs it.

python -m tests.mirror
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
MAP: Final = Path(__file__).with_name("mirror.toml")


def mirrored(module: str) -> str:
    """The mirrored place of the tests of a module: tests/log/test_batch.py for sparklog/log/batch.py."""
    folder, _, name = module.removeprefix("sparklog/").rpartition("/")
    return "/".join(filter(None, ("tests", folder, f"test_{name}")))


def complaints(root: Path = ROOT) -> Iterator[str]:
    """Modules that no test file answers for, and lines of the map that are not needed or name no file."""
    mapped: dict[str, str] = tomllib.loads(MAP.read_text())
    modules = {
        str(path.relative_to(root)) for path in (root / "sparklog").rglob("*.py") if path.name not in ("__init__.py",)
    }
    for module in sorted(modules):
        if not (root / mirrored(module)).exists() and module not in mapped:
            yield f"{module}: wanted {mirrored(module)}, or a line in tests/mirror.toml that names its tests"
    for module, test in sorted(mapped.items()):
        if module not in modules:
            yield f"tests/mirror.toml: {module} is not there"
        elif (root / mirrored(module)).exists():
            yield f"tests/mirror.toml: {module} has its tests at the mirrored place, so it needs no line"
        elif not (root / test).exists():
            yield f"tests/mirror.toml: {test}, for {module}, is not there"


if __name__ == "__main__":
    wrong = list(complaints())
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(bool(wrong))
