"""Imports in Spark's Python daemons what their workers need, so that a worker has it when it is forked.

Python runs this file when it starts, if this folder is on PYTHONPATH. Spark forks a worker for every plan and every
commit of a data source, and each would import Arrow, Spark and sparklog anew: half a second of processor time.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

MODULES = (
    "pyspark.worker",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "sparklog.client.cluster",
    "sparklog.log.read_ahead",
    "sparklog.spark.batch_reader",
    "sparklog.spark.batch_writer",
    "sparklog.spark.metadata_reader",
    "sparklog.spark.partitioning",
    "sparklog.spark.source",
    "sparklog.storage.local.store",
)

if any(argument.endswith("daemon") for argument in sys.orig_argv):
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads do not outlive a fork
    for module in MODULES:
        importlib.import_module(module)
    gc.freeze()
