"""Programs in Java that use classes of sparklog's JAR."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import pyspark

from scripts.build_jar import javac
from tests.jar import jar, java
from tests.servers.maven import SHORT_LIVED_JVM

_FOLDER: Final = Path(__file__).parent
_JARS: Final = Path(pyspark.__file__).parent / "jars"
OPENED: Final = [
    f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.nio", "sun.nio.ch", "java.util")
]


def run_java(
    name: str, *arguments: str, env: Mapping[str, str] | None = None, timeout_s: int = 3500
) -> subprocess.CompletedProcess[str]:
    """Run a program of this folder to its end. Skips the test without a compiler.

    `name`: its package below io.sparklog, and its class.
    """
    path = os.pathsep.join([str(classes()), str(jar()), f"{_JARS}/*"])
    command = [java(), *SHORT_LIVED_JVM, "-Xmx512m", *OPENED, "-cp", path, f"io.sparklog.{name}", *arguments]
    with tempfile.TemporaryFile() as errors:  # no pipe: a process that Java has started may outlive it
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=timeout_s, env=env)
        errors.seek(0)
        return subprocess.CompletedProcess(
            command, done.returncode, done.stdout, errors.read().decode(errors="replace")
        )


@cache
def classes() -> Path:
    """The folder with the compiled programs of this folder: compiled once for these sources and this JAR."""
    sources = sorted(_FOLDER.glob("*.java"))
    digest = hashlib.sha256(jar().name.encode() + b"".join(source.read_bytes() for source in sources))
    compiled = jar().with_name(f"tests-{digest.hexdigest()[:16]}")
    if not compiled.exists():
        compiler = javac()
        assert compiler is not None
        with tempfile.TemporaryDirectory(dir=compiled.parent) as new:
            path = os.pathsep.join([str(jar()), f"{_JARS}/*"])
            subprocess.run([compiler, "-nowarn", "-cp", path, "-d", f"{new}/classes", *map(str, sources)], check=True)
            with suppress(OSError):  # another process was faster
                os.rename(f"{new}/classes", compiled)
    return compiled
