"""The packages of jvm/: arrows between them go one way."""

from __future__ import annotations

import re
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).parents[2] / "jvm/src/io/sparklog"
ARROWS: Final = {  # which packages each one may use; "" is io.sparklog
    "": {"read", "write", "planner", "arrow", "storage"},
    "read": {"read.task", "planner", "arrow"},
    "write": {"write.task", "planner"},
    "read.task": {"planner", "arrow", "storage"},
    "write.task": {"planner", "arrow", "storage"},
    "mirror": {"planner", "arrow"},
    "storage": {"planner"},
    "arrow": set(),
    "planner": set(),
}
COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
OTHER_CLASS: Final = re.compile(r"\bio\.sparklog\.([a-z.]*)(?<!\w)(?:[A-Z]|\*)")


def test_each_package_uses_those_that_it_may_use_and_no_other() -> None:
    used: dict[str, set[str]] = defaultdict(set)
    for file in SOURCES.rglob("*.java"):
        package = ".".join(file.parent.relative_to(SOURCES).parts)
        used[package] |= {name.rstrip(".") for name in OTHER_CLASS.findall(COMMENT.sub("", file.read_text()))}
    assert {package: used[package] - {package} for package in used} == ARROWS


def test_no_package_uses_itself_through_others() -> None:
    assert list(TopologicalSorter(ARROWS).static_order())[-1] == ""
