"""Spark's own S3 client, S3A, for Parquet, and for the records that sparklog's JAR reads from `s3://`."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from tests.servers.maven import fetch_jars

_SDK = "2.35.4"
_SDK_PARTS = ("s3", "s3-transfer-manager", "sts", "apache-client")
_WITHOUT = ("software.amazon.awssdk:bundle", "org.slf4j:slf4j-api")  # 600 MB for all services; Spark has its own slf4j


def settings(endpoint: str, region: str = "us-east-1") -> dict[str, str]:
    """Settings of a Spark session for the server at `endpoint`. Raises CannotFetch."""
    coordinates = [f"org.apache.hadoop:hadoop-aws:{_hadoop_version()}"]
    coordinates += [f"software.amazon.awssdk:{part}:{_SDK}" for part in _SDK_PARTS]
    return {
        "spark.jars": ",".join(map(str, fetch_jars("s3a", coordinates, without=_WITHOUT))),
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": region,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.aws.credentials.provider": (
            "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
        ),
        # S3A's own committers need a module that PySpark does not include; of Spark's own, this one copies only once.
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    }


def _hadoop_version() -> str:
    """The version of the Hadoop client in PySpark."""
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.submodule_search_locations is not None
    (jar,) = Path(pyspark.submodule_search_locations[0], "jars").glob("hadoop-client-api-*.jar")
    found = re.search(r"api-(.+)\.jar", jar.name)
    assert found is not None
    return found[1]
