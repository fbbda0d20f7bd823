"""Spark on S3, HDFS, Google Cloud Storage and Azure, with executors in processes of their own: what holds on a disk
holds there.

Keys stand in the environment of driver and executors, the endpoint goes along from the driver. The tests of
failures are those of `test_failures`, run here on these stores.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.errors import TryAgain
from sparklog.maintenance.replication_job import run_replication
from sparklog.spark.maintain.spark_tasks import SparkTasks
from tests.cli.conftest import Cli
from tests.faults.ledger_threads import LedgerThreads
from tests.faults.ledger_writer import TOPIC
from tests.faults.ledger_writers import in_order
from tests.faults.store_folders import StoreFolders
from tests.servers.cloud_servers import AzureServer, CloudServer, GcsServer
from tests.servers.hadoop import DATA_NODES, Hadoop
from tests.servers.s3_servers import S3Server
from tests.spark.conftest import Read, Write, access_to
from tests.spark.kills.test_killed_executors import steps, test_a_compaction_whose_executor_is_killed_is_right
from tests.spark.rewriting import roll_and_delete
from tests.spark.test_failures import (
    meeting_place,
    spark,
    test_a_dataframe_outlives_the_objects_of_its_plan,
    test_a_job_that_failed_after_its_commit_is_run_again_as_a_no_op,
    test_a_job_that_fails_for_good_leaves_nothing_visible,
    test_a_stream_joins_a_dataframe_over_a_roll,
    test_commit_that_is_submitted_again_leaves_each_row_once,
    test_speculative_attempts_that_both_upload_leave_each_row_once,
    test_tasks_that_fail_after_their_upload_leave_each_row_once,
)

__all__ = [
    "meeting_place",
    "spark",
    "steps",
    "test_a_compaction_whose_executor_is_killed_is_right",
    "test_a_dataframe_outlives_the_objects_of_its_plan",
    "test_a_job_that_failed_after_its_commit_is_run_again_as_a_no_op",
    "test_a_job_that_fails_for_good_leaves_nothing_visible",
    "test_a_stream_joins_a_dataframe_over_a_roll",
    "test_commit_that_is_submitted_again_leaves_each_row_once",
    "test_speculative_attempts_that_both_upload_leave_each_row_once",
    "test_tasks_that_fail_after_their_upload_leave_each_row_once",
]

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 400
VERSIONS = 4
MOST_TRIES = 20
LARGE = 8  # appends, and records of each
LARGE_BYTES = 512 << 10


def made(url: str, stores: dict[str, str], storage: dict[str, str]) -> Iterator[Cluster]:
    init_cluster(url, stores=stores, storage=storage)
    with sparklog.connect(url, storage=storage) as cluster:
        yield cluster


DURABLE = ("s3", "hdfs")  # what these servers acknowledged outlives their kill
EMULATORS = ("gs", "abfs")
# The tests that are not only for --campaign, and their stores; it runs them on all.
EVERY_TIME = {
    "test_a_server_that_dies_and_comes_back_loses_nothing_that_was_acknowledged": ("s3",),
    test_a_dataframe_outlives_the_objects_of_its_plan.__name__: ("hdfs",),
    "test_a_year_of_a_topic_is_written_read_rolled_and_read_again": EMULATORS,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    name = metafunc.function.__name__
    if "cluster" in metafunc.fixturenames:
        places = [
            pytest.param(place, marks=[] if place in EVERY_TIME.get(name, ()) else pytest.mark.campaign)
            for place in (DURABLE if "dies" in name else (*DURABLE, *EMULATORS))
        ]
        metafunc.parametrize("cluster", places, indirect=True)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A new cluster whose chain and data are on one store."""
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3proxy")
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        yield from made(f"s3://{server.new_bucket()}/cluster", {"a": "."}, {})
    elif request.param in EMULATORS:
        emulator: CloudServer = request.getfixturevalue("fake_gcs" if request.param == "gs" else "azurite")
        monkeypatch.setenv("SPARKLOG_CONFIG", config_file(tmp_path, {"metadata": emulator}))
        yield from made(emulator.new_url(), {"a": "."}, {})
    else:
        yield from made(f"{request.getfixturevalue('hadoop').url}/{uuid.uuid4().hex}", {"a": "."}, {})


def config_file(folder: Path, servers: dict[str, CloudServer]) -> str:
    """A config file that says how stores are reached; its secrets stay in the process that reads it."""
    lines = []
    for store, server in servers.items():
        lines += [f"[storage.{store}]", *(f'{key} = "{value}"' for key, value in server.settings.items())]
    (folder / "sparklog.toml").write_text("\n".join(lines))
    return str(folder / "sparklog.toml")


@pytest.fixture(params=[pytest.param(place, marks=pytest.mark.campaign) for place in DURABLE])
def new_url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Addresses of new clusters."""
    if request.param == "hdfs":
        hadoop: Hadoop = request.getfixturevalue("hadoop")
        return lambda: f"{hadoop.url}/{uuid.uuid4().hex}"
    server: S3Server = request.getfixturevalue("s3proxy")
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    bucket = server.new_bucket()
    return lambda: f"s3://{bucket}/{uuid.uuid4().hex}"


def test_a_year_of_a_topic_is_written_read_rolled_and_read_again(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    cluster.create_topic("t", partitions=3, config={"retention.ms": -1})
    df = spark.range(0, ROWS, 1, 4).selectExpr(
        "cast(id % 7 as string) as key",
        "cast(id as string) as value",
        "timestamp_millis(1600000000000 + id) as timestamp",
    )
    write(df, "t", txnAppId="year", txnVersion=1)
    write(df, "t", txnAppId="year", txnVersion=1)
    frame = read("t")
    before = frame.orderBy("partition", "offset").collect()
    assert sorted(int(row.value) for row in before) == list(range(ROWS))
    ends = {row.partition: row.end for row in read(metadata="writes").collect()}
    exact = read(
        assign='{"t": [0, 1, 2]}',
        startingOffsets='{"t": {"0": 1, "1": 0, "2": 2}}',
        endingOffsets=str({"t": {str(at): ends.get(at, 0) for at in range(3)}}).replace("'", '"'),
    )
    assert exact.count() == ROWS - 3
    assert read("t", startingTimestamp=1_600_000_000_100, endingTimestamp=1_600_000_000_200).count() >= 100
    roll_and_delete(cluster, "t")
    assert frame.orderBy("partition", "offset").collect() == before
    assert read("t").orderBy("partition", "offset").collect() == before


# M: S-01
def test_data_on_one_store_and_the_chain_on_another(
    spark: SparkSession, s3proxy: S3Server, hadoop: Hadoop, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    keys = {f"a.{key}": value for key, value in s3proxy.settings.items()}
    places = (
        (f"{hadoop.url}/{uuid.uuid4().hex}", f"s3://{s3proxy.new_bucket()}/data", keys),
        (str(tmp_path / "chain"), f"{hadoop.url}/{uuid.uuid4().hex}", {}),
        (f"s3://{s3proxy.new_bucket()}/chain", str(tmp_path / "data"), _for_metadata(keys)),
    )
    for url, data, storage in places:
        for cluster in made(url, {"a": data}, storage):
            cluster.create_topic("t", partitions=2)
            options = {"cluster": url, **_options(storage)}
            df = spark.range(0, ROWS, 1, 4).selectExpr("cast(id as string) as value")
            df.write.format("sparklog").mode("append").options(**options, topic="t").save()
            found = spark.read.format("sparklog").options(**options, subscribe="t").load()
            assert sorted(int(row.value) for row in found.collect()) == list(range(ROWS))


# M: S-01
def test_replicas_on_google_azure_and_a_disk_are_written_replicated_and_read(
    spark: SparkSession,
    fake_gcs: GcsServer,
    azurite: AzureServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The chain is in Azure. A job finds nothing left to copy, then the store that leads a partition is fenced."""
    monkeypatch.setenv("SPARKLOG_CONFIG", config_file(tmp_path, {"metadata": azurite, "b": fake_gcs}))
    url = azurite.new_url()
    for cluster in made(url, {"a": ".", "b": fake_gcs.new_url(), "c": str(tmp_path / "c")}, {}):
        cluster.create_topic("t", assignment=["abc", "bca"], config={"min.insync.replicas": 2})
        options = {"cluster": url, **access_to(cluster)}
        df = spark.range(0, ROWS, 1, 4).selectExpr("cast(id as string) as value")
        df.write.format("sparklog").mode("append").options(**options, topic="t").save()
        assert run_replication(url, tasks=SparkTasks(spark)).exit_code == 0
        cluster.fence_store("a")
        df.write.format("sparklog").mode("append").options(**options, topic="t").save()
        found = spark.read.format("sparklog").options(**options, subscribe="t").load()
        assert sorted(int(row.value) for row in found.collect()) == sorted([*range(ROWS), *range(ROWS)])


def _for_metadata(keys: dict[str, str]) -> dict[str, str]:
    return {name.replace("a.", "metadata.", 1): value for name, value in keys.items()}


def _options(storage: dict[str, str]) -> dict[str, str]:
    return {f"storage.{name}": value for name, value in storage.items() if "access_key" not in name}


# M: F-01 (kills)
def test_a_server_that_dies_and_comes_back_loses_nothing_that_was_acknowledged(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write, request: pytest.FixtureRequest
) -> None:
    """Killed while writes go on; each write is repeated under its version until it is acknowledged."""
    cluster.create_topic("t", partitions=2)
    begun = threading.Event()

    def kill_and_restart() -> None:
        begun.wait()
        if request.node.callspec.params["cluster"] == "s3":
            server: S3Server = request.getfixturevalue("s3proxy")
            server.kill()
            server.restart()
        else:
            hadoop: Hadoop = request.getfixturevalue("hadoop")
            hadoop.kill(DATA_NODES[0])
            hadoop.restart(DATA_NODES[0])

    with ThreadPoolExecutor(1) as pool:
        killer = pool.submit(kill_and_restart)
        for version in range(VERSIONS):
            df = spark.range(version * ROWS, (version + 1) * ROWS, 1, 2).selectExpr("cast(id as string) as value")
            begun.set()
            _until_acknowledged(lambda df=df, version=version: write(df, "t", txnAppId="job", txnVersion=version))
        killer.result()
    assert sorted(int(row.value) for row in read("t").collect()) == list(range(VERSIONS * ROWS))


@pytest.mark.campaign
def test_executors_fill_the_replacement_of_a_lost_s3_server_while_others_write(
    spark: SparkSession,
    s3proxy: S3Server,
    hadoop: Hadoop,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Replicas on S3, HDFS and a disk; the S3 server, which leads a partition, does not come back in this test."""
    for name, value in s3proxy.variables.items():
        monkeypatch.setenv(name, value)
    elsewhere = {"a": f"s3://{s3proxy.new_bucket()}/log", "b": f"{hadoop.url}/{uuid.uuid4().hex}"}
    folders = StoreFolders.create(tmp_path, {"replica.lag.time.max.ms": 4_000}, elsewhere)
    with sparklog.connect(folders.url) as cluster:
        config = {"min.insync.replicas": 2, "retention.ms": -1}
        cluster.create_topic(TOPIC, assignment=["abc", "bca"], config=config)
        cluster.create_topic("large", assignment=["abc"], config=config)
        for _ in range(LARGE):
            cluster.append("large", pa.table({"value": [os.urandom(LARGE_BYTES) for _ in range(LARGE)]}))
        command = Cli(folders.url, capsys, monkeypatch)
        with LedgerThreads(folders, ahead=3).running(2) as writers:
            writers.hear(2)
            s3proxy.kill()
            try:
                writers.hear(2)
                for line in ("store fence a", "store add d=../d", "replica move --off a"):
                    assert command(*line.split()).code == 0
                began_s = time.monotonic()
                report = run_replication(folders.url, tasks=SparkTasks(spark))
                took_s = time.monotonic() - began_s
                assert report.exit_code == 0
                assert report.done.size_bytes > LARGE * LARGE * LARGE_BYTES
                writers.hear(2)
                with writers.paused():
                    assert run_replication(folders.url, tasks=SparkTasks(spark)).exit_code == 0
                writers.hear(2)
                assert command("store", "remove", "a").code == 0
            finally:
                s3proxy.restart()
        for at in range(2):
            assert sorted(folders.replication(TOPIC, at).isr) == ["b", "c", "d"]
        assert sorted(folders.replication("large").isr) == ["b", "c", "d"]
        assert folders.complaints() == []
        assert in_order([value.decode() for value in cluster.read(TOPIC, partition=0)["value"].to_pylist()])
    print(f"{report.done.size_bytes / took_s / (1 << 20):.0f} MiB/s from HDFS and a disk")


def _until_acknowledged(write: Callable[[], None]) -> None:
    for _ in range(MOST_TRIES - 1):
        try:
            return write()
        except (PySparkException, TryAgain):
            continue
    write()
