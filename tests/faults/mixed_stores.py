"""A cluster with its replicas on S3 (store a), HDFS (b) and a disk (c), all of them real, and what may happen to each.

    with mixed.dead_s3():          # the store is hurt inside the block, and as before after it
        ...

S3 is reached through a proxy. The disk is a small one of its own where the machine allows mounts.
"""

from __future__ import annotations

import subprocess
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sparklog.core.errors import StoreUnavailable
from sparklog.core.types import StoreId
from sparklog.log.cluster_stores import Stores
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import open_store
from tests.client.interfered_stores import interfere
from tests.faults.ledger_writer import WRITES
from tests.faults.store_folders import StoreFolders
from tests.mounts import mount, mount_disk, unmount
from tests.servers.fault_proxy import FaultProxy
from tests.servers.fault_proxy_rules import Answer, Fault, Request
from tests.servers.hadoop import DATA_NODES, NAME_NODE, Hadoop
from tests.servers.s3_servers import S3Server

LAG_MS = 4_000  # replica.lag.time.max.ms: how long a store may hold a write up; a busy one takes a second
SLOW_MS = 30_000  # for each request
_BUSY_TRIES = 1_000


@dataclass
class MixedStores:
    """The stores a, b and c of the cluster in `folders`, behind `proxy` or on `hadoop` or on the disk at `disk`.

    `disk` is None where the machine allows no mounts. Then c is a folder like any other.
    """

    folders: StoreFolders
    s3: S3Server
    proxy: FaultProxy
    hadoop: Hadoop
    disk: Path | None

    @classmethod
    def create(
        cls, folder: Path, s3: S3Server, proxy: FaultProxy, hadoop: Hadoop, config: Mapping[str, object] | None = None
    ) -> MixedStores:
        """The environment must lead S3 clients to `proxy`."""
        disk = folder / "disk"
        disk.mkdir()
        mounted = mount_disk(disk, "64m")
        if mounted:
            (folder / "c").mkdir()
            mount("--bind", disk, folder / "c")
        elsewhere = {"a": new_s3_address(s3), "b": f"{hadoop.url}/{uuid.uuid4().hex}"}
        folders = StoreFolders.create(folder, {"replica.lag.time.max.ms": LAG_MS, **(config or {})}, elsewhere)
        return cls(folders, s3, proxy, hadoop, disk if mounted else None)

    def close(self) -> None:
        self.proxy.clear()
        self.proxy.delay_ms = 0
        if self.disk is not None:
            with suppress(subprocess.CalledProcessError):
                unmount(self.folders.at("c"))
            unmount(self.disk)

    def opened(self, store: str) -> ObjectStore:
        """The store, as clients open it."""
        url = self.folders.state().stores[StoreId(store)].url
        return open_store(str(self.folders.at(store)) if url.startswith("..") else url, {})

    @contextmanager
    def only(self, store: str) -> Iterator[None]:
        """No other store can be reached by this process."""
        get = Stores.get

        def reached(stores: Stores, asked: StoreId) -> ObjectStore:
            if asked != store:
                raise StoreUnavailable(f"store {asked} is out of reach: only {store} is not")
            return get(stores, asked)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Stores, "get", reached)
            yield

    # ---- S3 -------------------------------------------------------------------------------------

    @contextmanager
    def dead_s3(self) -> Iterator[None]:
        """SIGKILL of the server, which has its files when it is back."""
        self.s3.kill()
        try:
            yield
        finally:
            self.s3.restart()

    @contextmanager
    def slow_s3(self) -> Iterator[None]:
        """Each request takes SLOW_MS. Those that were sent meanwhile arrive that late, also after the block."""
        self.proxy.delay_ms = SLOW_MS
        try:
            yield
        finally:
            self.proxy.delay_ms = 0

    def full_s3(self) -> AbstractContextManager[None]:
        """The server has no room."""
        return self._refusing(Answer(507, "InsufficientStorage"))

    def read_only_s3(self) -> AbstractContextManager[None]:
        """A policy of the bucket denies writes."""
        return self._refusing(Answer(403))

    @contextmanager
    def _refusing(self, answer: Fault) -> Iterator[None]:
        self.proxy.plan(answer, _writes, times=None)
        try:
            yield
        finally:
            self.proxy.clear()

    # ---- HDFS -----------------------------------------------------------------------------------

    @contextmanager
    def dead_hdfs(self) -> Iterator[None]:
        """SIGKILL of the name node, which has its log when it is back."""
        self.hadoop.kill(NAME_NODE)
        try:
            yield
        finally:
            self.hadoop.restart(NAME_NODE)

    @contextmanager
    def hanging_hdfs(self) -> Iterator[None]:
        """SIGSTOP of the name node: it takes connections and calls, and answers after the block only."""
        self.hadoop.pause(NAME_NODE)
        try:
            yield
        finally:
            self.hadoop.resume(NAME_NODE)

    @contextmanager
    def hdfs_without_data_nodes(self) -> Iterator[None]:
        """SIGSTOP of both data nodes: names can be made, bytes can't be written or read."""
        for node in DATA_NODES:
            self.hadoop.pause(node)
        try:
            yield
        finally:
            self.hadoop.mend()

    @contextmanager
    def full_hdfs(self) -> Iterator[None]:
        """The store's folder has a space quota, and it is used up."""
        folder = urlsplit(self.folders.state().stores[StoreId("b")].url).path
        self.hadoop.admin("-setSpaceQuota", "1", folder)
        try:
            yield
        finally:
            self.hadoop.admin("-clrSpaceQuota", folder)

    @contextmanager
    def read_only_hdfs(self) -> Iterator[None]:
        """Safe mode: the name node changes nothing."""
        self.hadoop.admin("-safemode", "enter")
        try:
            yield
        finally:
            self.hadoop.admin("-safemode", "leave")

    # ---- the disk -------------------------------------------------------------------------------

    @contextmanager
    def lost_disk(self) -> Iterator[None]:
        """It is not mounted: where it was is an empty folder (or none), in which writers may begin another store."""
        at = self.folders.at("c")
        if self.disk is None:
            self.folders.take_away("c")
            try:
                yield
            finally:
                self.folders.bring_back("c")
            return
        unmount(at)
        try:
            yield
        finally:
            mount("--bind", self.disk, at)

    @contextmanager
    def slow_disk(self) -> Iterator[None]:
        """Nothing that is written comes to an end inside the block. (No disk can be made to do that from outside.)"""
        awake = threading.Event()

        def wait(call: str, key: str) -> None:
            if call in WRITES:
                awake.wait()

        with pytest.MonkeyPatch.context() as patch:
            interfere(patch, c=wait)
            try:
                yield
            finally:
                awake.set()

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """A file takes all the room that is left. Needs mounts."""
        assert self.disk is not None
        filler = self.disk / "filler"
        try:
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                while file.write(bytes(1 << 20)):
                    pass
            yield
        finally:
            filler.unlink()

    @contextmanager
    def read_only_disk(self) -> Iterator[None]:
        """It is mounted again, read-only, as a kernel does after an error; without mounts, nobody may write there."""
        if self.disk is None:
            folders = [path for path in self.folders.at("c").rglob("*") if path.is_dir()]
            for folder in folders:
                folder.chmod(0o500)
            try:
                yield
            finally:
                for folder in folders:
                    folder.chmod(0o700)
            return
        at = self.folders.at("c")
        _mount_when_idle("-o", "remount,bind,ro", at)
        try:
            yield
        finally:
            mount("-o", "remount,bind,rw", at)

    # ---- any store ------------------------------------------------------------------------------

    def objects(self, store: str) -> set[str]:
        """The keys of all that is on a store."""
        return {stored.key for stored in self.opened(store).list_keys("")}

    def put_back(self, store: str, old: set[str]) -> None:
        """Let a store be as it was when it had these keys: whoever restored it from a backup says nothing."""
        opened = self.opened(store)
        for key in self.objects(store) - old:
            opened.delete(key)


def new_s3_address(s3: S3Server) -> str:
    return f"s3://{s3.new_bucket()}/log"


def _writes(request: Request) -> bool:
    return request.method in ("PUT", "POST")


def _mount_when_idle(*arguments: str | Path) -> None:
    """`mount` with these arguments, tried until no writer has a file open at that moment."""
    for _ in range(_BUSY_TRIES):
        with suppress(subprocess.CalledProcessError):
            return mount(*arguments)
    mount(*arguments)
