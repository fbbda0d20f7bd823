"""Java reads buckets through Spark's own S3 client, S3A, if `spark.hadoop.fs.s3.impl` names it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from tests.jar import jar
from tests.servers import s3a
from tests.servers.made_once import CannotFetch
from tests.servers.s3_servers import S3Server
from tests.spark.columns.conftest import metric, sorted_rows
from tests.spark.conftest import OneSpark, access_to

pytestmark = [pytest.mark.spark, pytest.mark.campaign]


@pytest.fixture
def with_s3a(one_spark: OneSpark, s3proxy: S3Server) -> SparkSession:
    """local[2] with S3A and the JAR."""
    try:
        settings = s3a.settings(s3proxy.endpoint_url)
    except CannotFetch as error:
        pytest.skip(str(error))
    jars = f"{jar()},{settings.pop('spark.jars')}"
    return one_spark.session("local[2]", **settings, **{"spark.jars": jars})


@pytest.fixture
def bucket(s3proxy: S3Server) -> Iterator[Cluster]:
    """A cluster in a bucket, whose endpoint and region are settings and whose keys are those of the environment."""
    url = f"s3://{s3proxy.new_bucket()}/{uuid.uuid4().hex}"
    storage = {f"metadata.{name}": value for name, value in s3proxy.settings.items()}
    init_cluster(url, storage=storage)
    with sparklog.connect(url, storage=storage) as cluster:
        yield cluster


def test_java_reads_a_bucket_through_s3a(bucket: Cluster, with_s3a: SparkSession) -> None:
    bucket.create_topic("t", partitions=2)
    for part in range(3):
        keys = pa.array([f"{part}-{number}".encode() for number in range(1000)], pa.binary())
        bucket.append("t", pa.table({"key": keys, "value": keys}))

    def read(reader: str) -> DataFrame:
        options = {"cluster": bucket.connection.url, "subscribe": "t", "reader": reader, **access_to(bucket)}
        return with_s3a.read.format("sparklog").options(**options).load()

    by_java = read("columns")
    rows = sorted_rows(by_java)
    assert len(rows) == 3000
    assert rows == sorted_rows(read("rows"))
    assert metric(by_java, "rangesInPython") == 0
    assert metric(by_java, "bytesRead") > 0
