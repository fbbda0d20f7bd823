"""The JAR of jvm/, built from the present sources."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import pyspark
import pytest

from scripts.build_jar import RESOURCES, ROOT, SOURCES, build_jar, javac


def jar() -> Path:
    """Return the JAR. It is built once for these sources and this Spark. Skips the test if there is no compiler."""
    if javac() is None:
        pytest.skip("no javac: this machine has only a Java runtime")
    digest = hashlib.sha256(pyspark.__version__.encode())
    for file in sorted([*SOURCES.rglob("*.java"), *RESOURCES.rglob("*")]):
        if file.is_file():
            digest.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    built = ROOT / ".cache" / "jvm" / f"sparklog-{digest.hexdigest()[:16]}.jar"
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent) as folder:
            build_jar(Path(folder, "new.jar"))
            os.replace(Path(folder, "new.jar"), built)
    return built


def java() -> str:
    """The Java of Spark."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"
