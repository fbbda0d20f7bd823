"""Addresses of stores: one that nothing can open is refused where it is decided."""

from __future__ import annotations

from itertools import product

import pytest

from sparklog.core.commands import CreateCluster, NewStore, RegisterStore
from sparklog.core.decide.topics import decide_create_cluster
from sparklog.core.errors import InvalidInput
from sparklog.core.names import store_addresses
from sparklog.core.names.store_addresses import ON_A_SERVER, check_store_address, is_relative
from sparklog.core.state import ClusterState
from sparklog.core.types import StoreId
from sparklog.storage.open_store import absolute_url, join_url
from tests.core.decided_log import DecidedLog

LEGAL = [
    ".",
    "zone-a",
    "../zone-b",
    "/var/log store",
    "file:///var/log",
    "file:/var/log",
    "file://localhost/var/log",
    "memory://name",
    "s3://bucket",
    "s3a://bucket/pre/fix",
    "s3n://Old_Bucket.with-all/",
    "gs://bucket/prefix",
    "gcs://bucket",
    "abfss://container",
    "hdfs://host:8020/path",
    "abfs://container@account.dfs.core.windows.net/prefix",
]
ILLEGAL = [
    "",
    "  ",
    "s3:/bucket",
    "s3://",
    "s3:///prefix",
    "s3:bucket",
    "s3://key:secret@bucket",
    "hdfs://",
    "gs:///x",
    "memory://",
    "file://host/path",
    "file://",
    "ftp://host/path",
    "http://host:7400",
    "broker:9092",
    "zone\0a",
    "zone\x1b[2Ja",
    "zone\u202ea",
    "zone\na",
    "x" * 2_049,
    "~",
    "~/x",
    "~nosuchuser/x",
    "file:///a%ff",
    "file:///a%00b",
    "file:/a%C3",
    "file:////host%00",
    "s3://a",
    "s3://B_/x",
    "s3://bucket/../x",
    "s3://bucket//x",
    "s3://bucket/x y",
    "s3://bucket/x?y",
    "s3://bucket/.x",
    "s3://" + "b" * 256,
    "gs://x y/",
    "gs://Bucket",
    "gs://bucket//x",
    "gs://id:secret@bucket",
    "abfs://c/x",
    "abfs://logs--a",
    "abfs://logs@host/a",
    "abfs://logs/secret@x",
    "hdfs:///x",
    "hdfs://nn:abc/x",
    "hdfs://[::1/x",
    "hdfs://nn/a/../b",
    "hdfs://nn/a:b",
    "memory://..",
    "memory://a//b",
    "memory://a b",
]


@pytest.mark.parametrize("url", LEGAL)
def test_a_legal_address_can_be_opened(url: str) -> None:
    check_store_address(url)
    assert join_url("file:///clusters/one", url)


def test_of_many_addresses_each_that_passes_can_be_opened() -> None:
    """Each scheme with each authority and each path: what is legal for one kind of store is illegal for another."""
    schemes = ["s3", "S3A", "gs", "gcs", "abfs", "ABFSS", "hdfs", "memory", "file"]
    authorities = ["", "b", "bucket", "Bucket", "b_u", "b--t", "nn:8020", "nn:", "[::1]", "..", "x y", "a@b", "~"]
    paths = ["", "/", "//", "/x", "/x/", "/x//y", "/..", "/x/../y", "/x y", "/x%00", "/x%ff", "/x?y", "/.x", "/~"]
    passed = set()
    for scheme, authority, path in product(schemes, authorities, paths):
        url = f"{scheme}://{authority}{path}"
        try:
            check_store_address(url)
        except InvalidInput:
            continue
        passed.add(scheme)
        assert absolute_url(url).startswith(f"{ON_A_SERVER.get(scheme.lower(), scheme.lower())}://")
    assert passed == {*schemes}


def test_a_known_scheme_without_an_adapter_is_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_addresses, "_KNOWN", (*store_addresses._KNOWN, "oss"))
    with pytest.raises(AssertionError, match="no adapter opens oss://"):
        absolute_url("oss://bucket/x")


@pytest.mark.parametrize("url", ILLEGAL)
@pytest.mark.parametrize("first", [True, False])
def test_another_is_refused_for_the_first_stores_and_for_later_ones(url: str, first: bool) -> None:
    new = NewStore(StoreId("z"), url, "life-z")
    with pytest.raises(InvalidInput) as raised:
        decide_create_cluster(ClusterState(), CreateCluster("c" * 32, (new,))) if first else _register(new)
    assert "secret" not in raised.value.message
    assert len(raised.value.message) < 500


def _register(new: NewStore) -> None:
    DecidedLog().submit(RegisterStore(new))


def test_relative_addresses_are_told_from_absolute_ones() -> None:
    assert [is_relative(url) for url in LEGAL] == [True] * 3 + [False] * 13
