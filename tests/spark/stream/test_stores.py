"""A query that reads, processes and writes on S3 with lost replies, on HDFS, and through a coordinator."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sparklog
from sparklog.client.bootstrap import init_cluster
from tests.coordinator.served_coordinator import served_coordinator
from tests.servers.fault_proxy import FaultProxy
from tests.servers.fault_proxy_rules import ReplyLost, Request
from tests.servers.hadoop import Hadoop
from tests.servers.s3_servers import S3Server
from tests.spark.conftest import access_to
from tests.spark.stream.keyed_stream import KeyedStream
from tests.spark.stream.killed_driver import run_query
from tests.spark.test_failures import spark

__all__ = ["spark"]  # two executors, in JVMs of their own

pytestmark = pytest.mark.spark

LOST = 4


def is_entry(request: Request) -> bool:
    return request.kind == "PUT" and "/meta/log/" in request.path


# M: I-03 I-04 I-05 (loses)
def test_commits_whose_replies_are_lost_count_once(
    spark: SparkSession, s3proxy: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultProxy(s3proxy.endpoint_url) as proxy:
        for name, value in {**s3proxy.variables, "AWS_ENDPOINT_URL": proxy.url}.items():
            monkeypatch.setenv(name, value)
        url = f"s3://{s3proxy.new_bucket()}/cluster"
        init_cluster(url)
        with sparklog.connect(url) as cluster:
            stream = KeyedStream(cluster)
            stream.send(1)
            proxy.plan(ReplyLost(), is_entry, times=LOST)
            run_query(spark, "sparklog", url, str(tmp_path), **access_to(cluster))
            assert sum(isinstance(request.fault, ReplyLost) for request in proxy.requests) == LOST
            stream.check()


@pytest.mark.campaign
def test_a_stream_on_hdfs(spark: SparkSession, hadoop: Hadoop, tmp_path: Path) -> None:
    url = f"{hadoop.url}/{uuid.uuid4().hex}"
    init_cluster(url)
    with sparklog.connect(url) as cluster:
        stream = KeyedStream(cluster)
        stream.send(2)
        run_query(spark, "sparklog", url, str(tmp_path), **access_to(cluster))
        stream.check()


@pytest.mark.campaign
def test_a_stream_through_a_coordinator(spark: SparkSession, tmp_path: Path) -> None:
    url = str(tmp_path / "cluster")
    init_cluster(url)
    with served_coordinator(url) as served, sparklog.connect(served.address) as cluster:
        stream = KeyedStream(cluster)
        stream.send(2)
        run_query(spark, "sparklog", served.address, str(tmp_path / "checkpoint"))
        stream.check()
