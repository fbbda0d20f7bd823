"""The optional dependencies of the package sparklog (extras), and the error that names a missing one."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

from sparklog.core.errors import InvalidInput
from sparklog.core.names.store_addresses import ON_A_SERVER

Extra = Literal["spark", "s3", "hdfs", "gcs", "azure", "kafka", "coordinator"]

MODULES: Final[dict[Extra, tuple[str, ...]]] = {
    "spark": ("pandas", "pyspark"),
    "s3": ("s3fs",),
    "hdfs": ("hdfs_native",),
    "gcs": ("google.auth", "requests"),
    "azure": ("azure.identity", "azure.storage.blob", "requests"),
    "kafka": ("confluent_kafka",),
    "coordinator": ("httptools", "jinja2", "prometheus_client", "starlette", "uvicorn"),
}

_OF_SCHEME: Final[dict[str, Extra]] = {"s3": "s3", "hdfs": "hdfs", "gs": "gcs", "abfs": "azure"}


def install_line(extra: Extra) -> str:
    """Return the command that installs the extra."""
    return f"pip install 'sparklog[{extra}]'"


def missing_modules(extra: Extra) -> list[str]:
    """Return the modules of the extra that this Python does not have."""
    return [module for module in MODULES[extra] if not _is_there(module)]


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package that would contain it is missing too
        return False


@contextmanager
def needed(extra: Extra, purpose: str) -> Iterator[None]:
    """Turn an ImportError raised in the block into an InvalidInput that gives the `purpose` and the command to install
    the extra.
    """
    try:
        yield
    except ImportError as error:
        raise InvalidInput(
            f"{purpose}: wanted the packages of sparklog's extra {extra!r} in {sys.executable}, found some or all of "
            f"them missing ({error}): {install_line(extra)}"
        ) from error


def extra_of(url: str) -> Extra | None:
    """Return the extra that a store at this absolute address needs; None if it needs none."""
    return _OF_SCHEME.get(ON_A_SERVER.get(url.partition("://")[0], ""))
