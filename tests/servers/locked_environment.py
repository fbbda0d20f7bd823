"""Programs in Python that pin other packages than sparklog needs: each in an environment of its own, as a lock pins it.

It is kept in the project's ignored cache, one folder for each lock and version of Python.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from tests.servers.made_once import CACHE, FETCH_S, CannotFetch, made_once


def locked_python(name: str, lock: Path) -> Path:
    """The Python of the environment; made once, by pip from the package index. Several processes may ask at once.

    Raises CannotFetch.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(f"{version}\n{lock.read_text()}".encode()).hexdigest()[:12]
    folder = made_once(CACHE / f"{name}-{digest}", lambda work: _make(name, lock, work))
    return folder / "bin" / "python"


def _make(name: str, lock: Path, work: Path) -> Path:
    """An environment can be moved as long as only its Python is called, not the scripts beside it."""
    made = work / "environment"
    pip = [sys.executable, "-m", "pip", "--python", str(made / "bin" / "python"), "install", "--quiet"]
    flags = ["--disable-pip-version-check", "--no-input", "--no-deps", "--no-compile", "--only-binary", ":all:"]
    commands = [sys.executable, "-m", "venv", "--without-pip", str(made)], [*pip, *flags, "-r", str(lock)]
    try:
        for command in commands:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=FETCH_S)
    except subprocess.TimeoutExpired as error:
        raise CannotFetch(f"wanted {name}, not here after {FETCH_S} s") from error
    except subprocess.CalledProcessError as error:
        raise CannotFetch(f"wanted {name}, pip said: {(error.stderr or error.stdout).strip()[-600:]}") from error
    return made
