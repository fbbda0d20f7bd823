"""sparklog: a partitioned, replicated log on object storage, read and written from Spark.

    with sparklog.connect("file:///tmp/demo") as cluster:
        cluster.append("orders", arrow_table)
        cluster.read("orders", partition=0, start=10, end=20)

Importing sparklog is cheap: pyarrow, numpy and pyspark load with the first call that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Never

    from sparklog.client.cluster import Cluster

__version__ = "0.1.0"
__all__ = ["__version__", "connect"]


def connect(
    url: str | None = None,
    *,
    storage: Mapping[str, str] | None = None,
    token: str | None = None,
    ca: str | None = None,
    **unknown: Never,
) -> Cluster:
    """Connect to the cluster at `url` (default: SPARKLOG_CLUSTER). See `sparklog.client.cluster.connect`."""
    from sparklog.client.cluster import connect as connect_to

    return connect_to(url, storage=storage, token=token, ca=ca, **unknown)
