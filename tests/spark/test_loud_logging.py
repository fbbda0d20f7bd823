"""What several processes log at once can be told apart, line by line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.spark.conftest import PROJECT

_CHILDREN, _LINES, _LENGTH = 3, 20, 50_000  # more than a pipe or a buffer takes at once
_PROGRAM = f"""
import logging, os, sys
from tests.spark.loud_logging import begin

begin(sys.argv[1])
logging.getLogger("botocore.auth").debug("before")
children = []
for _ in range({_CHILDREN}):
    child = os.fork()
    if not child:
        for name in ("botocore.auth", "sparklog") * {_LINES}:
            logging.getLogger(name).debug("one\\n" + "x" * {_LENGTH})
        os._exit(0)
    children.append(child)
assert not any(os.waitpid(child, 0)[1] for child in children)
"""


def test_no_line_is_torn_by_another_process_and_botocore_has_files_of_its_own(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _PROGRAM, str(tmp_path)], cwd=PROJECT, check=True)
    found = {each.name: each.read_text().splitlines() for each in tmp_path.iterdir()}
    before = ["botocore.auth before"]
    lines = {
        "botocore": [f"botocore.auth one {'x' * _LENGTH}"] * _LINES,
        "others": [f"sparklog one {'x' * _LENGTH}"] * _LINES,
    }
    assert sorted(found.values()) == sorted([before, *list(lines.values()) * _CHILDREN])
    assert all(each == before or each == lines[name.split("-")[0]] for name, each in found.items())
