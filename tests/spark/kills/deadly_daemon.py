"""Spark's Python daemon, with workers that die as `deaths` plans. Spark starts it by spark.python.daemon.module."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.daemon import manager

from tests.faults.deadly_calls import before_each_call
from tests.spark.kills.deaths import FOLDER, Worker

if __name__ == "__main__":
    before_each_call(Worker(Path(os.environ[FOLDER])).come)
    manager()
