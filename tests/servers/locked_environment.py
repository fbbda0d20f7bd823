"""Programs in Python that pin other packages than sparklog needs: each in an environment of its own, as a lock pins it.

It is kept in the project's ignored cache, one folder for each lock and version of Python.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.servers.maven import CACHE, CannotFetch, alone, work_folder

_FETCH_TIMEOUT_S: Final = 240


def locked_python(name: str, lock: Path) -> Path:
    """The Python of the environment; made once, by pip from the package index. Several processes may ask at once.

    Raises CannotFetch.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(f"{version}\n{lock.read_text()}".encode()).hexdigest()[:12]
    folder = CACHE / f"{name}-{digest}"
    if not folder.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with alone(CACHE / f".{name}.lock"):
            if not folder.is_dir():
                _make(name, lock, folder)
    return folder / "bin" / "python"


def _make(name: str, lock: Path, folder: Path) -> None:
    """An environment can be moved as long as only its Python is called, not the scripts beside it."""
    with work_folder(folder.parent, folder.name) as work:
        made = Path(work, "environment")
        pip = [sys.executable, "-m", "pip", "--python", str(made / "bin" / "python"), "install", "--quiet"]
        flags = ["--disable-pip-version-check", "--no-input", "--no-deps", "--no-compile", "--only-binary", ":all:"]
        commands = [sys.executable, "-m", "venv", "--without-pip", str(made)], [*pip, *flags, "-r", str(lock)]
        try:
            for command in commands:
                subprocess.run(command, check=True, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise CannotFetch(f"wanted {name}, not here after {_FETCH_TIMEOUT_S} s") from error
        except subprocess.CalledProcessError as error:
            raise CannotFetch(f"wanted {name}, pip said: {(error.stderr or error.stdout).strip()[-600:]}") from error
        made.rename(folder)
