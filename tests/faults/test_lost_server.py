"""Replicas on S3, HDFS and a disk together: the server of the leader's store dies under load, and is back later."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import sparklog
from sparklog.agent.run import AgentRun
from sparklog.client.cluster import Cluster
from sparklog.core.types import StoreId
from sparklog.storage.s3.client import forget_clients
from tests.faults.store_folders import StoreFolders
from tests.servers.hadoop import Hadoop
from tests.servers.s3_servers import S3Server

pytestmark = pytest.mark.slow

APPENDS = 3  # that the writer is waited for after a change
_PATIENCE_S = 60


class Writer:
    """A thread that appends as fast as it can, and notes what it heard."""

    def __init__(self, cluster: Cluster, folders: StoreFolders) -> None:
        self._cluster = cluster
        self._folders = folders
        self._heard = threading.Semaphore(0)
        self._over = threading.Event()
        self._error: BaseException | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """It writes inside this block, whose end raises what stopped it, if anything did."""
        thread = threading.Thread(target=self._write)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
        if self._error is not None:
            raise self._error

    def hear(self) -> None:
        """Return once it has heard of APPENDS appends that it began after this call."""
        while self._heard.acquire(blocking=False):
            pass
        for _ in range(APPENDS + 1):  # the first one may have begun before
            assert self._heard.acquire(timeout=_PATIENCE_S), self._error

    def _write(self) -> None:
        try:
            for turn in range(1 << 20):
                if self._over.is_set():
                    return
                values = [f"{turn}-{row}" for row in range(3)]
                (written,) = self._cluster.append("t", pa.table({"value": values})).ranges
                self._folders.note("t", 0, written.start, values)
                self._heard.release()
        except BaseException as error:
            self._error = error


@pytest.fixture
def s3(s3proxy: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """The server, which the environment leads to."""
    for name, value in s3proxy.variables.items():
        monkeypatch.setenv(name, value)
    yield s3proxy
    forget_clients()


# M: S-01 P-03 P-06 L-03 (kills)
def test_writes_go_on_while_an_s3_server_is_dead_and_all_kinds_of_stores_end_the_same(
    s3: S3Server, hadoop: Hadoop, tmp_path: Path
) -> None:
    elsewhere = {"a": f"s3://{s3.new_bucket()}/log", "b": f"{hadoop.url}/{uuid.uuid4().hex}"}
    folders = StoreFolders.create(tmp_path, {"replica.lag.time.max.ms": 1_000}, elsewhere)
    with sparklog.connect(folders.url) as cluster:
        cluster.create_topic("t", assignment=["abc"], config={"min.insync.replicas": 2, "retention.ms": -1})
        writer = Writer(cluster, folders)
        with writer.running():
            writer.hear()
            s3.kill()
            try:
                writer.hear()
                assert folders.replication("t").isr == ("b", "c")
                assert folders.replication("t").leader == "b"
            finally:
                s3.restart()
        AgentRun(cluster.connection, StoreId("a"), lambda note: None, once=True).run()
        assert folders.replication("t").isr == ("a", "b", "c")
    assert folders.complaints() == []
