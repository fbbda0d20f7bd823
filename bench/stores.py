"""A store behind the network: whole objects and ranges beside a plain client, Spark beside Parquet, and late answers.

The servers are those of the tests, on this machine, so the figures are about clients: a real bucket is further away.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as fs
from pyspark.sql import DataFrame, SparkSession

import sparklog
from bench.paired import Comparison, compare
from bench.spark_bulk import rows
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.log.read.read_ahead import bodies
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import open_store
from tests.servers import s3a
from tests.servers.fault_proxy import FaultProxy
from tests.servers.run_with import server

MIB = 1 << 20
OBJECT_MIB = {"s3": 64, "hdfs": 64, "gs": 16, "abfs": 16}  # emulators are slow, and one keeps all in memory
AT_ONCE = 4
RANGE_BYTES = 8 * MIB
LATE_MS = 30
LATE_RECORDS = 400_000  # of 1,000 bytes
RECORDS = {100: 1_500_000, 1_000: 300_000}
EMULATED = ("gs", "abfs")
SHARE_ON_EMULATORS = 5


def stores(kind: str, session: Callable[[dict[str, str]], SparkSession]) -> Iterator[Comparison]:
    """Everything for `kind`, s3, hdfs, gs or abfs; `session` makes a Spark session with given settings."""
    with server(kind) as variables:
        os.environ.update(variables)
        root = variables["STORE"]
        yield from _transfers(kind, root)
        if kind == "s3":
            yield from _late(root)
        if kind == "s3":
            yield from _through_s3a(session, root)
            return
        spark = session({})
        yield from _through_spark(kind, spark, root)
        spark.stop()  # while the server runs


# ---- whole objects and ranges ---------------------------------------------------------------------


def _transfers(kind: str, root: str) -> Iterator[Comparison]:
    store = open_store(f"{root}/transfers")
    object_mib = OBJECT_MIB[kind]
    body = os.urandom(object_mib * MIB)
    plain = _plain_client(kind, root)
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def put() -> None:
            list(pool.map(lambda _: _upload(store, f"ours/{uuid.uuid4().hex}", body), range(AT_ONCE)))

        def put_plainly() -> None:
            list(pool.map(lambda _: plain.put(f"plain/{uuid.uuid4().hex}", body), range(AT_ONCE)))

        yield compare(f"{AT_ONCE} objects of {object_mib} MiB put at once", plain.name, ">= 0.9", put, put_plainly)
    key = uuid.uuid4().hex
    _upload(store, key, body)
    plain.put(key, body)
    ranges = [(at, at + RANGE_BYTES) for at in range(0, len(body), RANGE_BYTES)]

    def get() -> None:
        assert sum(len(each) for each in bodies(store, key, ranges)) == len(body)

    yield compare(
        f"{object_mib} MiB got in ranges of 8 MiB, ahead",
        plain.name,
        ">= 0.9",
        get,
        lambda: plain.get_ranges(key, ranges),
    )
    yield compare(f"{object_mib} MiB got whole", plain.name, ">= 0.9", lambda: store.get(key), lambda: plain.get(key))


def _upload(store: ObjectStore, key: str, body: bytes) -> None:
    view = memoryview(body)
    with store.upload(key) as upload:
        for at in range(0, len(body), MIB):
            upload.write(view[at : at + MIB])
        upload.publish()


class _Plain:
    """Puts and gets by pyarrow's own file systems: no condition, no checks, names visible before the end."""

    name = "pyarrow.fs"

    def __init__(self, files: fs.FileSystem, root: str) -> None:
        self._files, self._root = files, root

    def put(self, key: str, body: bytes) -> None:
        path = f"{self._root}/{key}"
        self._files.create_dir(path.rpartition("/")[0], recursive=True)
        with self._files.open_output_stream(path) as file:
            file.write(body)

    def get(self, key: str) -> pa.Buffer:
        with self._files.open_input_file(f"{self._root}/{key}") as file:
            return file.read_buffer()

    def get_ranges(self, key: str, ranges: list[tuple[int, int]]) -> None:
        with self._files.open_input_file(f"{self._root}/{key}") as file, ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda each: file.read_at(each[1] - each[0], each[0]), ranges))


class _PlainHdfs:
    """Files created in place by hdfs-native: no temporary name, no rename."""

    name = "hdfs-native"

    def __init__(self, root: str) -> None:
        from hdfs_native import Client

        self._client = Client(root)

    def put(self, key: str, body: bytes) -> None:
        from hdfs_native import WriteOptions

        with self._client.create(f"/plain/{key}", WriteOptions(create_parent=True)) as file:
            file.write(body)

    def get(self, key: str) -> bytes:
        with self._client.read(f"/plain/{key}") as file:
            return bytes(file.read())

    def get_ranges(self, key: str, ranges: list[tuple[int, int]]) -> None:
        with self._client.read(f"/plain/{key}") as file:
            for start, end in ranges:
                file.read_range(start, end - start)


def _plain_client(kind: str, root: str) -> _Plain | _PlainHdfs:
    if kind == "hdfs":
        return _PlainHdfs(root)
    if kind in EMULATED:
        return _Plain(_emulated(kind), f"{root.partition('://')[2]}/plain")
    return _Plain(_s3(os.environ["AWS_ENDPOINT_URL"]), f"{root.removeprefix('s3://')}/plain")


def _emulated(kind: str) -> fs.FileSystem:
    if kind == "gs":
        address = os.environ["STORAGE_EMULATOR_HOST"].removeprefix("http://")
        return fs.GcsFileSystem(anonymous=True, endpoint_override=address, scheme="http")
    endpoint = dict(each.split("=", 1) for each in os.environ["AZURE_STORAGE_CONNECTION_STRING"].split(";"))
    address = urlsplit(endpoint["BlobEndpoint"]).netloc
    return fs.AzureFileSystem(
        endpoint["AccountName"],
        account_key=endpoint["AccountKey"],
        blob_storage_authority=address,
        blob_storage_scheme="http",
        dfs_storage_authority=address,
        dfs_storage_scheme="http",
    )


def _s3(endpoint: str, *, allow_bucket_creation: bool = False) -> fs.FileSystem:
    address = endpoint.removeprefix("http://")
    return fs.S3FileSystem(
        endpoint_override=address, scheme="http", region="us-east-1", allow_bucket_creation=allow_bucket_creation
    )


# ---- late answers -----------------------------------------------------------------------------------


def _late(root: str) -> Iterator[Comparison]:
    """The same through a proxy that waits before each request, beside the proxy without a wait."""
    with FaultProxy(os.environ["AWS_ENDPOINT_URL"]) as near, FaultProxy(os.environ["AWS_ENDPOINT_URL"]) as far:
        far.delay_ms = LATE_MS
        urls = [f"{root}/{name}" for name in ("near", "far")]
        settings = [{"metadata.endpoint_url": each.url} for each in (near, far)]
        for url, each in zip(urls, settings, strict=True):
            init_cluster(url, storage=each)
        with ExitStack() as opened:
            near_log, far_log = (
                opened.enter_context(sparklog.connect(url, storage=each))
                for url, each in zip(urls, settings, strict=True)
            )
            values = [os.urandom(500) + bytes(500) for _ in range(LATE_RECORDS)]
            table = pa.table({"value": pa.array(values, pa.binary())})
            for log in (near_log, far_log):
                log.create_topic("t", partitions=1, config={"retention.ms": -1})
            yield compare(
                f"append of {LATE_RECORDS // 1000} MB, {LATE_MS} ms per request",
                "the same without",
                ">= 0.8",
                lambda: far_log.append("t", table),
                lambda: near_log.append("t", table),
                rounds=3,
            )
            yield compare(
                f"scan of the topic, {LATE_MS} ms per request",
                "the same without",
                ">= 0.8",
                lambda: _drain(far_log),
                lambda: _drain(near_log),
                rounds=3,
            )


def _drain(log: Cluster) -> None:
    for batch in log.scan("t", partition=0):
        assert batch.num_rows


# ---- Spark --------------------------------------------------------------------------------------------


def _through_s3a(session: Callable[[dict[str, str]], SparkSession], root: str) -> Iterator[Comparison]:
    """At the server, and then in another bucket that S3A and sparklog reach through a proxy that answers late."""
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    bucket = f"far-{uuid.uuid4().hex}"
    _s3(endpoint, allow_bucket_creation=True).create_dir(bucket)
    with FaultProxy(endpoint, LATE_MS) as far:
        spark = session(s3a.settings(endpoint) | {f"spark.hadoop.fs.s3a.bucket.{bucket}.endpoint": far.url})
        yield from _through_spark("s3", spark, root)
        yield from _through_spark("s3", spark, f"s3://{bucket}", far.url)
        spark.stop()


def _through_spark(kind: str, spark: SparkSession, root: str, far: str | None = None) -> Iterator[Comparison]:
    """`far`: the endpoint of a proxy that waits before each request."""
    cluster_url = f"{root}/bench"
    storage = {} if far is None else {"metadata.endpoint_url": far}
    late = "" if far is None else f", {LATE_MS} ms per request"
    init_cluster(cluster_url, storage=storage)
    number = itertools.count()
    with tempfile.TemporaryDirectory(prefix="sparklog-bench-") as folder:
        # Spark has no file system for the emulators.
        parquet_root = folder if kind in EMULATED else f"{root.replace('s3://', 's3a://')}/parquet"
        peer = {"s3": "parquet by S3A", "hdfs": "parquet on the same HDFS"}.get(kind, "parquet on a disk")
        for value_bytes, records in RECORDS.items():
            frame = rows(spark, value_bytes, records // (SHARE_ON_EMULATORS if kind in EMULATED else 1))
            yield from _beside_parquet(
                frame, f"{value_bytes} B{late}", cluster_url, storage, parquet_root, peer, number
            )
            frame.unpersist()


def _beside_parquet(
    frame: DataFrame,
    label: str,
    cluster_url: str,
    storage: Mapping[str, str],
    parquet_root: str,
    peer: str,
    number: Iterator[int],
) -> Iterator[Comparison]:
    spark = frame.sparkSession
    options = {"cluster": cluster_url, **{f"storage.{name}": value for name, value in storage.items()}}

    def write() -> str:
        topic = f"t-{next(number)}"
        with sparklog.connect(cluster_url, storage=storage) as cluster:
            cluster.create_topic(topic, partitions=1, config={"retention.ms": -1})
        frame.write.format("sparklog").options(**options, topic=topic).mode("append").save()
        return topic

    def write_parquet() -> str:
        path = f"{parquet_root}/{next(number)}"
        frame.write.option("compression", "zstd").parquet(path)
        return path

    yield compare(f"Spark write {label}", peer, "", write, write_parquet, rounds=3)
    read = spark.read.format("sparklog").options(**options, subscribe=write())
    path = write_parquet()
    yield compare(
        f"Spark read {label}",
        peer,
        "",
        lambda: read.load().write.format("noop").mode("overwrite").save(),
        lambda: spark.read.parquet(path).write.format("noop").mode("overwrite").save(),
        rounds=3,
    )
