"""Checks the Java that Spark would start on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

OLDEST: Final = 17  # the oldest Java that Spark 4 runs on; scripts/check_java.sh has the same number
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)[^"]*"')  # Java 8 calls itself 1.8.0
_PATIENCE_S: Final = 20


def java_problem() -> str | None:
    """Describe the problem with the Java of $JAVA_HOME, or of PATH if that is not set; None if Spark can use it."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java, where = str(Path(home, "bin", "java")), f"JAVA_HOME={home}"
        if not os.access(java, os.X_OK):
            return f"{where} has no bin/java"
    else:
        java_in_path = shutil.which("java")
        if java_in_path is None:
            return "none was found: JAVA_HOME is not set, and there is no java in PATH"
        java = where = java_in_path
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{where} does not start: {error}"
    version = _VERSION.search(done.stderr + done.stdout)
    if done.returncode or version is None:
        return f"{where} does not say its version"
    return None if int(version[1]) >= OLDEST else f"{where} is Java {version[1]}"
