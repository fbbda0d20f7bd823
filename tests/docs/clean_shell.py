"""A shell that knows nothing of the developer's environment, for the snippets of the documentation."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.servers.leftovers import VARIABLE


def in_clean_shell(folder: Path, script: str) -> str:
    """What a shell prints that knows nothing of the developer's, and whose variables mislead Spark."""
    java = Path(shutil.which("java") or "").parent
    variables = {
        "HOME": str(folder),
        "PATH": f"{java}:/usr/bin:/bin",
        "SPARK_HOME": "/another/spark",
        "PYSPARK_PYTHON": "/another/python",
        "PYSPARK_DRIVER_PYTHON": "/another/python",
        "SPARK_LOCAL_IP": "127.0.0.1",
        **{name: os.environ[name] for name in ("JAVA_HOME", "SPARK_SUBMIT_OPTS", VARIABLE) if name in os.environ},
    }
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eu"],
        input=script,
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
