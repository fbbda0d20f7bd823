"""Airflow for tests, in an environment of its own, as `airflow.lock` pins it: 200 MB.

To make it takes 15 s of processor time and about a minute.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.servers.locked_environment import locked_python

_LOCK: Final = Path(__file__).with_name("airflow.lock")


def airflow_python() -> Path:
    """The Python of the environment. Raises CannotFetch."""
    return locked_python("airflow", _LOCK)
