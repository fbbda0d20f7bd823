"""The daemon that forks Spark's Python workers, with the package imported: else each worker imports it again.

spark.python.daemon.module=tests.spark.loaded_daemon
"""

from __future__ import annotations

import runpy

if __name__ == "__main__":
    import sparklog.spark.batch_reader
    import sparklog.spark.batch_writer
    import sparklog.spark.metadata_reader
    import sparklog.spark.source  # noqa: F401

    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
