"""A program for spark-submit: which settings Spark knows, of those that are its arguments, and which are in force."""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
jvm: Any = spark._jvm  # type: ignore[attr-defined]
jvm.java.lang.Class.forName("org.apache.spark.deploy.yarn.config.package$")  # registers its settings, as YARN does
registry = jvm.org.apache.spark.internal.config.ConfigEntry
known = {key: registry.findEntry(key) is not None for key in sys.argv[1:]}
in_force = dict(spark.sparkContext.getConf().getAll())
spark.stop()
print(json.dumps({"known": known, "in force": in_force}))
