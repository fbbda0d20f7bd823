"""Compares the Python packages on Spark's executors with those of the driver."""

from __future__ import annotations

import platform
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from sparklog.spark.maintain.spark_tasks import SparkTasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OPTIONAL: Final = ("s3fs", "google-auth", "azure-storage-blob", "hdfs-native")  # needed only for some stores
PACKAGES: Final = ("sparklog", "pyspark", "pyarrow", "numpy", *_OPTIONAL)


class Installation(msgspec.Struct, frozen=True):
    """The host, the Python version and the versions of `PACKAGES` of one process ("" for a package that is missing)."""

    host: str
    python: str
    versions: dict[str, str]

    def differences(self, driver: Installation) -> list[str]:
        """Return one text for each difference from the driver's installation that can break a task."""
        if self.python.rpartition(".")[0] != driver.python.rpartition(".")[0]:
            return [f"Python {self.python}, the driver has {driver.python}"]
        return [
            f"{name} {self.versions.get(name) or 'missing'}, the driver has {wanted or 'none'}"
            for name, wanted in driver.versions.items()
            if self.versions.get(name, "") != wanted and (wanted or name not in _OPTIONAL)
        ]


def installation_here() -> Installation:
    """The installation of this process."""
    return Installation(socket.gethostname(), platform.python_version(), {name: _version(name) for name in PACKAGES})


def installations(session: Callable[[], SparkSession], tasks: int = 4) -> list[Installation]:
    """Return the distinct installations among those that `tasks` Spark tasks report.

    Raises SparklogError if Spark can't run the tasks.
    """
    bodies = SparkTasks(session).run(_look, [b""] * tasks)
    seen = [msgspec.msgpack.decode(body, type=Installation) for body in bodies]
    return [installation for number, installation in enumerate(seen) if installation not in seen[:number]]


def _look(payload: bytes) -> bytes:
    """The Spark task: return the installation of its process as MessagePack. `payload` is not used."""
    return msgspec.msgpack.encode(installation_here())


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    import sparklog

    if name == "sparklog":  # no metadata if it comes by --py-files
        return sparklog.__version__
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
