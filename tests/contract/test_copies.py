"""Copies from store to store whose bytes never come to this process (S-08)."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sparklog.core.errors import KeyExists, KeyNotFound
from sparklog.storage.memory import MemoryStore
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import open_store
from sparklog.storage.s3 import upload
from sparklog.storage.s3.client import forget_clients
from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3_servers import S3Server

MIB = 1 << 20
SMALL, LARGE = b"small", os.urandom(11 * MIB)

Pair = tuple[ObjectStore, ObjectStore]


def s3_pair(server: S3Server, settings: dict[str, str]) -> Pair:
    source, target = (open_store(f"s3://{server.new_bucket()}/store", settings) for _ in range(2))
    return source, target


@pytest.fixture(params=["memory", "disk", "s3proxy", "ministack", "moto"])
def pair(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    """A store and another one of its kind."""
    monkeypatch.setattr(upload, "COPIED_BYTES", 5 * MIB)  # the smallest part that S3 takes
    if request.param == "memory":
        yield open_store(f"memory://{uuid.uuid4().hex}"), open_store(f"memory://{uuid.uuid4().hex}")
    elif request.param == "disk":
        yield open_store(str(tmp_path / "source")), open_store(str(tmp_path / "target"))
    else:
        server: S3Server = request.getfixturevalue(request.param)
        yield s3_pair(server, server.settings)
        forget_clients()


# M: S-08
@pytest.mark.parametrize("body", [SMALL, LARGE], ids=len)
def test_an_object_is_copied_whole_or_refused_where_the_key_is_taken(pair: Pair, body: bytes) -> None:
    source, target = pair
    source.put_if_absent("some/key", body)
    assert target.copy_from(source, "some/key", "other/key")
    assert bytes(target.get("other/key")) == body
    with pytest.raises(KeyExists):
        target.copy_from(source, "some/key", "other/key")
    with pytest.raises(KeyExists):
        target.put_if_absent("other/key", b"another")
    assert target.remove_abandoned(2**53) == 0


def test_what_is_not_there_is_not_copied(pair: Pair) -> None:
    source, target = pair
    with pytest.raises(KeyNotFound):
        target.copy_from(source, "some/key", "other/key")
    assert list(target.list_keys("")) == []
    target.put_if_absent("other/key", SMALL)


def test_of_several_copies_at_once_one_wins(pair: Pair) -> None:
    source, target = pair
    for number in range(4):
        source.put_if_absent(f"source-{number}", b"%d" % number * 1000)

    def copy(number: int) -> bool:
        try:
            return target.copy_from(source, f"source-{number}", "key")
        except KeyExists:
            return False

    with ThreadPoolExecutor(4) as pool:
        won = [number for number, won in enumerate(pool.map(copy, range(4))) if won]
    assert len(won) == 1
    assert bytes(target.get("key")) == b"%d" % won[0] * 1000


# M: S-08
def test_s3_copies_without_the_bytes_passing_by(ministack: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultProxy(ministack.endpoint_url) as proxy:
        source, target = s3_pair(ministack, ministack.settings | {"endpoint_url": proxy.url})
        source.put_if_absent("key", LARGE)
        proxy.forget()
        monkeypatch.setattr(upload, "COPIED_BYTES", 6 * MIB)
        assert target.copy_from(source, "key", "key")
        asked = [(each.kind, each.range) for each in proxy.requests]
        forget_clients()
    assert asked == [
        ("GET", "bytes=0-0"),
        ("CREATE_MULTIPART", None),
        ("UPLOAD_PART", None),
        ("UPLOAD_PART", None),
        ("COMPLETE_MULTIPART", None),
    ]


# M: S-08
def test_stores_of_different_kinds_say_that_they_can_not(tmp_path: Path, s3proxy: S3Server) -> None:
    stores = [
        MemoryStore(f"memory://{uuid.uuid4().hex}"),
        open_store(str(tmp_path)),
        open_store(f"s3://{s3proxy.new_bucket()}", s3proxy.settings),
        open_store("hdfs://127.0.0.1:1/nowhere"),
    ]
    for source in stores:
        for target in stores:
            if source is not target:
                assert not target.copy_from(source, "key", "key")
    forget_clients()
