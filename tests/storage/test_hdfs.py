"""What is HDFS's own in a store: addresses, settings, forks, users, and what it says when HDFS refuses."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hdfs_native import Client

from sparklog.core.errors import (
    Damaged,
    InvalidInput,
    KeyNotFound,
    Landed,
    SparklogError,
    StoreAccessDenied,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from sparklog.core.names.address_parts import parse_hdfs_url
from sparklog.storage.hdfs.client import HdfsAddress
from sparklog.storage.hdfs.store import HdfsStore
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import join_url, open_store
from tests.servers.hadoop import DATA_NODES, METRICS_MS, Hadoop

pytestmark = pytest.mark.slow

MIB = 1 << 20
_JOIN_S = 60


@pytest.fixture
def folder() -> str:
    return f"/{uuid.uuid4().hex}"


@pytest.fixture
def store(hadoop: Hadoop, folder: str) -> ObjectStore:
    return open_store(hadoop.url + folder)


# ---- addresses and settings ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "authority", "path"),
    [
        ("hdfs://host:8020/a/b", "host:8020", "/a/b"),
        ("HDFS://host:8020/a//b/", "host:8020", "/a/b"),
        ("hdfs://MyService/a", "MyService", "/a"),
        ("hdfs://host:8020", "host:8020", ""),
        ("hdfs:///a", "", "/a"),
    ],
)
def test_an_address_has_one_spelling(url: str, authority: str, path: str) -> None:
    assert parse_hdfs_url(url) == (authority, path)
    assert HdfsStore(url, {}).url == f"hdfs://{authority}{path or '/'}"
    assert HdfsStore(HdfsStore(url, {}).url, {}).url == HdfsStore(url, {}).url


@pytest.mark.parametrize(
    "url",
    ["hdfs:/a", "hdfs://user@host/a", "hdfs://host:port/a", "hdfs://host/a/../b", "hdfs://host/a\nb", "s3://a/b"],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="a store on HDFS is hdfs://"):
        HdfsStore(url, {})


def test_a_store_may_be_registered_relative_to_the_cluster() -> None:
    assert join_url("hdfs://host:8020/a/b", "../c") == "hdfs://host:8020/a/c"


def test_settings_are_typed_and_hadoops_own_are_passed_on() -> None:
    address = HdfsAddress.parse("a", {"timeout_ms": "500", "dfs.client.use.datanode.hostname": "true"})
    assert address == HdfsAddress("a", 500, None, (("dfs.client.use.datanode.hostname", "true"),))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"timeout": "5"}, "did you mean timeout_ms"),
        ({"timeout_ms": "5 s"}, "timeout_ms: wanted an integer"),
        ({"timeout_ms": "0"}, "timeout_ms: wanted an integer"),
    ],
)
def test_a_setting_that_is_not_legal_is_refused_by_name(settings: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        HdfsStore("hdfs://host/a", settings)


def test_the_missing_package_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    store = HdfsStore("hdfs://no-package:8020/a", {})
    for call in (lambda: store.get("a"), lambda: store.put_if_absent("a", b"")):
        with pytest.raises(InvalidInput, match=r"pip install 'sparklog\[hdfs\]'"):
            call()


def test_a_name_service_that_hadoop_does_not_know_is_named_with_where_it_is_looked_up() -> None:
    with pytest.raises(InvalidInput, match=r"HADOOP_CONF_DIR, found hdfs://unheard-of"):
        HdfsStore("hdfs://unheard-of/a", {}).get("a")


def test_name_nodes_of_a_service_come_from_hadoops_configuration(
    hadoop: Hadoop, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {
        "dfs.nameservices": "service",
        "dfs.ha.namenodes.service": "dead,alive",
        "dfs.namenode.rpc-address.service.dead": "127.0.0.1:1",
        "dfs.namenode.rpc-address.service.alive": hadoop.url.removeprefix("hdfs://"),
    }
    each = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items())
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{''.join(each)}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    by_service = HdfsStore(f"hdfs://service{folder}", {})
    by_service.put_if_absent("a", b"body")
    assert bytes(HdfsStore(hadoop.url + folder, {}).get("a")) == b"body"


# ---- durability, reading ------------------------------------------------------------------------


# M: F-01
def test_every_data_node_has_synced_an_object_before_it_is_acknowledged(hadoop: Hadoop, store: ObjectStore) -> None:
    for size_bytes in (1, 3 * MIB):
        before = [_syncs(hadoop, node) for node in DATA_NODES]
        store.put_if_absent(f"object-{size_bytes}", bytes(size_bytes))
        after = [_syncs(hadoop, node) for node in DATA_NODES]
        assert all(now > then for then, now in zip(before, after, strict=True))


def _syncs(hadoop: Hadoop, node: str) -> int:
    time.sleep(METRICS_MS / 1000)  # else it may tell the figure of an earlier call
    found = hadoop.metric(node, "service=DataNode", "FsyncCount")
    assert isinstance(found, int)
    return found


def test_an_object_is_whole_as_soon_as_it_is_there(store: ObjectStore) -> None:
    for number in range(60):
        store.put_if_absent(f"a/{number}", b"body")
        assert bytes(store.get(f"a/{number}")) == b"body"


def test_large_ranges_are_read_in_parts_and_come_back_in_order(store: ObjectStore) -> None:
    body = os.urandom(1 << 16) * 400
    store.put_if_absent("a", body)
    ranges = [(5, 9 * MIB), (20 * MIB, 20 * MIB), (24 * MIB, 25 * MIB), (0, len(body))]
    assert [bytes(part) for part in store.get_ranges("a", ranges)] == [body[start:end] for start, end in ranges]
    assert bytes(store.get("a")) == body


def test_a_file_that_its_writer_has_not_closed_is_not_taken_for_an_empty_object(
    hadoop: Hadoop, store: ObjectStore, folder: str
) -> None:
    writer = Client(hadoop.url).create(f"{folder}/foreign")
    writer.write(b"body")
    writer.hsync()
    try:
        with pytest.raises(StoreUnavailable, match="has not closed it"):
            store.get("foreign")
        with pytest.raises(Damaged, match="ends at byte 0"):
            store.get_ranges("foreign", [(0, 4)])
    finally:
        writer.close()  # one that is left open keeps a process of pytest for minutes


def test_a_key_may_not_be_the_folder_of_another_key(store: ObjectStore) -> None:
    store.put_if_absent("a/b", b"")
    for key in ("a", "a/b/c"):
        with pytest.raises(InvalidInput, match=r"a key may not") as failed:
            store.put_if_absent(key, b"")
        assert failed.value.landed is Landed.NO
    assert [each.key for each in store.list_keys("")] == ["a/b"]
    assert store.remove_abandoned(2**53) == 0


def test_a_store_may_be_the_root_of_its_file_system(hadoop: Hadoop, folder: str) -> None:
    store, key = HdfsStore(hadoop.url, {}), f"{folder[1:]}/a"
    store.put_if_absent(key, b"body")
    assert bytes(store.get(key)) == b"body"
    assert store.first_key_after(f"{folder[1:]}/", "") == key


# ---- processes and users ------------------------------------------------------------------------


def _put_and_read(url: str) -> None:
    store = open_store(url)
    assert bytes(store.get("of-parent")) == b"body"
    store.put_if_absent("of-child", b"body")
    assert [each.key for each in store.list_keys("")] == ["of-child", "of-parent"]


def test_a_forked_process_works_though_its_parent_did_too(store: ObjectStore) -> None:
    store.put_if_absent("of-parent", b"body")
    assert bytes(store.get("of-parent")) == b"body"
    child = multiprocessing.get_context("fork").Process(target=_put_and_read, args=(store.url,))
    child.start()
    child.join(_JOIN_S)
    try:
        assert child.exitcode == 0
    finally:
        child.kill()
        child.join()
    assert bytes(store.get("of-child")) == b"body"


def _errors_as_nobody(url: str, told: multiprocessing.SimpleQueue[SparklogError]) -> None:
    store = HdfsStore(url, {"user": "nobody"})
    for call in (lambda: store.put_if_absent("b", b""), lambda: store.delete("a"), lambda: store.get("a")):
        try:
            call()
        except SparklogError as error:
            told.put(error)
    try:
        HdfsStore(url, {"user": "somebody"}).get("a")
    except SparklogError as error:
        told.put(error)


def test_a_user_without_rights_is_told_so(hadoop: Hadoop, store: ObjectStore, folder: str) -> None:
    store.put_if_absent("a", b"body")
    Client(hadoop.url).set_permission(f"{folder}/a", 0o600)
    context = multiprocessing.get_context("spawn")
    told = context.SimpleQueue()
    process = context.Process(target=_errors_as_nobody, args=(store.url, told))
    process.start()
    errors = [told.get() for _ in range(4)]
    process.join(_JOIN_S)
    assert [type(error) for error in errors] == [StoreReadOnly, StoreReadOnly, StoreAccessDenied, InvalidInput]
    assert all("Permission denied: user=nobody" in str(error) for error in errors[:3])
    assert "one process is one user" in str(errors[3])


# ---- what HDFS refuses --------------------------------------------------------------------------


@pytest.fixture
def safe_mode(hadoop: Hadoop, store: ObjectStore) -> Iterator[None]:
    store.put_if_absent("before", b"body")
    hadoop.admin("-safemode", "enter")
    yield
    hadoop.admin("-safemode", "leave")


@pytest.mark.usefixtures("safe_mode")
def test_in_safe_mode_a_store_can_be_read_and_says_why_it_is_not_written(store: ObjectStore) -> None:
    assert bytes(store.get("before")) == b"body"
    for call in (lambda: store.put_if_absent("a", b""), lambda: store.delete("before")):
        with pytest.raises(StoreUnavailable, match="safe mode"):
            call()
    with pytest.raises(KeyNotFound):
        store.get("a")


def test_a_quota_that_is_used_up_is_a_full_store(hadoop: Hadoop, store: ObjectStore, folder: str) -> None:
    store.put_if_absent("a", b"body")
    hadoop.admin("-setSpaceQuota", "1m", folder)
    for body in (b"body", b""):
        with pytest.raises(StoreFull, match="quota") if body else pytest.raises(KeyNotFound):
            store.put_if_absent("b", body) if body else store.get("b")
    hadoop.admin("-clrSpaceQuota", folder)
    store.put_if_absent("b", b"body")
