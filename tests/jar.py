"""The JAR of jvm/, built from the present sources."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from scripts.build_jar import built_jar, javac


def jar() -> Path:
    """Return the JAR. Skips the test if there is no compiler."""
    if javac() is None:
        pytest.skip("no javac: this machine has only a Java runtime")
    return built_jar()


def java() -> str:
    """The Java of Spark."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"
