"""Programs in Java that use classes of sparklog's JAR."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
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


def run_java(
    name: str, *arguments: str, env: Mapping[str, str] | None = None, timeout_s: int = 3500
) -> subprocess.CompletedProcess[str]:
    """Run the program `name` of this folder to its end. Skips the test without a compiler."""
    path = os.pathsep.join([_classes(name).name, str(jar()), f"{_JARS}/*"])
    command = [java(), "-Xmx512m", *_OPENED, "-cp", path, f"io.sparklog.{name}", *arguments]
    with tempfile.TemporaryFile() as errors:  # no pipe: a process that Java has started may outlive it
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=timeout_s, env=env)
        errors.seek(0)
        return subprocess.CompletedProcess(
            command, done.returncode, done.stdout, errors.read().decode(errors="replace")
        )


@cache
def _classes(name: str) -> tempfile.TemporaryDirectory[str]:
    """The folder with the compiled program, which goes with this process."""
    path = os.pathsep.join([str(jar()), f"{_JARS}/*"])
    compiler = javac()
    assert compiler is not None
    classes = tempfile.TemporaryDirectory()
    source = str(_FOLDER / f"{name}.java")
    subprocess.run([compiler, "-nowarn", "-cp", path, "-d", classes.name, source], check=True)
    return classes
