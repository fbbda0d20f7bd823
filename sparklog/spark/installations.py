"""What is installed where Spark's tasks run, beside what is installed in the driver."""

from __future__ import annotations

import platform
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from sparklog.spark.tasks import SparkTasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES: Final = ("sparklog", "pyspark", "pyarrow", "numpy", "s3fs", "hdfs-native")
_OPTIONAL: Final = frozenset({"s3fs", "hdfs-native"})  # wanted only for stores that need them


class Installation(msgspec.Struct, frozen=True):
    """One process: its host, its Python, and the versions of `PACKAGES` ("" where one is missing)."""

    host: str
    python: str
    versions: dict[str, str]

    def differences(self, driver: Installation) -> list[str]:
        """What differs from the driver's in a way that can break a task."""
        if self.python.rpartition(".")[0] != driver.python.rpartition(".")[0]:
            return [f"Python {self.python}, the driver has {driver.python}"]
        return [
            f"{name} {self.versions.get(name) or 'missing'}, the driver has {wanted or 'none'}"
            for name, wanted in driver.versions.items()
            if self.versions.get(name, "") != wanted and (wanted or name not in _OPTIONAL)
        ]


def installation_here() -> Installation:
    """This process."""
    return Installation(socket.gethostname(), platform.python_version(), {each: _version(each) for each in PACKAGES})


def installations(session: Callable[[], SparkSession], tasks: int = 4) -> list[Installation]:
    """What `tasks` tasks find where they run; each different process host and content once. Raises SparklogError."""
    bodies = SparkTasks(session).run(_look, [b""] * tasks)
    found = [msgspec.msgpack.decode(each, type=Installation) for each in bodies]
    return [each for number, each in enumerate(found) if each not in found[:number]]


def _look(payload: bytes) -> bytes:
    """Task."""
    return msgspec.msgpack.encode(installation_here())


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    import sparklog

    if name == "sparklog":  # by --py-files it has no metadata
        return sparklog.__version__
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
