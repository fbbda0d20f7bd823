"""Where crash tests run: in memory, in a directory on disk, in an S3 bucket, in an HDFS directory."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sparklog.storage.memory import MemoryStore
from sparklog.storage.open_store import open_store
from tests.servers.hadoop import Hadoop
from tests.servers.s3_servers import S3Server

_AT_ONCE = 8

Objects = Mapping[str, bytes]  # of a store, by key


class Place:
    """Addresses for new clusters at one place. The environment says how to reach it, as for other processes."""

    def __init__(self, name: str, root: str) -> None:
        self.name = name
        self._root = root

    def new_url(self) -> str:
        """The address for a cluster that does not exist yet."""
        return f"{self._root}/{uuid.uuid4().hex}"

    def copied(self, objects: Objects) -> str:
        """The address of a new store with these objects."""
        url = self.new_url()
        store = open_store(url)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for put in [pool.submit(store.put_if_absent, key, body) for key, body in objects.items()]:
                put.result()
        return url

    def unpublished(self, url: str) -> list[str]:
        """What unfinished uploads have left in the store at `url`, found without sparklog."""
        if self.name == "s3":
            return _open_uploads(url)
        if self.name == "hdfs":
            return _files(url, ".tmp")
        if self.name == "memory":
            return [str(each) for each in MemoryStore(url)._contents.uploads]
        temporaries = Path(url, ".tmp")
        return [each.name for each in temporaries.iterdir()] if temporaries.exists() else []


def objects_of(url: str) -> Objects:
    """All objects of the store at `url`. They are immutable, so a copy of them is a copy of the cluster."""
    store = open_store(url)
    return {each.key: bytes(store.get(each.key)) for each in store.list_keys("")}


@contextmanager
def memory() -> Iterator[Place]:
    yield Place("memory", f"memory://{uuid.uuid4().hex}")


@contextmanager
def disk() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="sparklog-crash-") as root:
        yield Place("disk", root)


@contextmanager
def s3(server: S3Server) -> Iterator[Place]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.variables.items():
            patch.setenv(name, value)
        yield Place("s3", f"s3://{server.new_bucket()}")


@contextmanager
def hdfs(server: Hadoop) -> Iterator[Place]:
    yield Place("hdfs", f"{server.url}/{uuid.uuid4().hex}")


def _open_uploads(url: str) -> list[str]:
    import botocore.session

    client = botocore.session.Session().create_client("s3")
    try:
        at = urlsplit(url)
        found = client.list_multipart_uploads(Bucket=at.netloc).get("Uploads", [])
        return [each["Key"] for each in found if each["Key"].startswith(f"{at.path[1:]}/")]
    finally:
        client.close()


def _files(url: str, folder: str) -> list[str]:
    from hdfs_native import Client

    at = urlsplit(url)
    try:
        return [each.path for each in Client(f"hdfs://{at.netloc}").list_status(f"{at.path}/{folder}")]
    except FileNotFoundError:
        return []
