"""The default cluster, and the shared connection. The code of the connection is imported at its first use.

Spark plans, pickles, runs and commits in separate Python processes, and each of them imports its own modules. A task
hardly ever needs a connection, and importing its code takes as long as importing everything else together.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparklog.client.connection import Connection
    from sparklog.core.config.storage import StorageSettings

__all__ = ["default_cluster", "shared"]


def shared(url: str, settings: StorageSettings) -> Connection:
    """This process's shared connection to the cluster at `url`; see `client.connection.shared`."""
    from sparklog.client import connection

    return connection.shared(url, settings)


def default_cluster() -> str | None:
    """Return the cluster of reads and writes without the option `cluster`: SPARKLOG_CLUSTER in the environment."""
    return os.environ.get("SPARKLOG_CLUSTER")
