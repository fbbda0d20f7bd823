"""Programs in Java that use classes of sparklog's JAR."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyspark

from scripts.build_jar import javac
from tests.jar import jar, java

_FOLDER: Final = Path(__file__).parent
_JARS: Final = Path(pyspark.__file__).parent / "jars"
_OPENED: Final = [
    f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.nio", "sun.nio.ch", "java.util")
]


def run_java(name: str, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Compile the program `name` of this folder, and run it to its end. Skips the test without a compiler."""
    path = os.pathsep.join([str(jar()), f"{_JARS}/*"])
    compiler = javac()
    assert compiler is not None
    with tempfile.TemporaryDirectory() as classes:
        source = str(_FOLDER / f"{name}.java")
        subprocess.run([compiler, "-nowarn", "-cp", path, "-d", classes, source], check=True)
        command = [java(), "-Xmx512m", *_OPENED, "-cp", f"{classes}{os.pathsep}{path}", f"io.sparklog.{name}"]
        return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=3500, env=env)
