"""The probe on real servers: those that hold put-if-absent pass, those that do not are refused, and so is a proxy."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from sparklog.client.bootstrap import init_cluster
from sparklog.core.errors import InvalidInput, KeyExists, StoreUnfit
from sparklog.storage.probe import check_store, probe
from sparklog.storage.s3.store import S3Store
from tests.servers.fault_proxy import FaultProxy
from tests.servers.fault_proxy_rules import StripHeaders
from tests.servers.hadoop import Hadoop
from tests.servers.s3_fixtures import ministack, moto, s3proxy
from tests.servers.s3_servers import S3Server, ignoring_conditions, looking_first

__all__ = ["ministack", "moto", "s3proxy"]

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("whole_probe")]


@pytest.mark.parametrize(
    "name", ["ministack", *(pytest.param(name, marks=pytest.mark.campaign) for name in ("s3proxy", "moto"))]
)
def test_servers_that_hold_conditions_pass(name: str, request: pytest.FixtureRequest) -> None:
    server: S3Server = request.getfixturevalue(name)
    store = S3Store(f"s3://{server.new_bucket()}/prefix", server.settings)
    assert [check.fault for check in probe(store, uuid.uuid4().hex)] == [""] * 7
    assert list(store.list_keys("")) == []


def test_hdfs_passes(hadoop: Hadoop) -> None:
    from sparklog.storage.hdfs.store import HdfsStore

    store = HdfsStore(f"{hadoop.url}/probed", {})
    assert [check.fault for check in probe(store, uuid.uuid4().hex)] == [""] * 5
    assert list(store.list_keys("")) == []


def test_a_server_that_ignores_conditions_is_refused_for_data_and_for_metadata(tmp_path: Path) -> None:
    with ignoring_conditions() as server:
        bucket = server.new_bucket()
        for named, url, stores in (
            ("metadata", f"s3://{bucket}/chain", {"a": "."}),
            ("a", str(tmp_path / "chain"), {"a": f"s3://{bucket}/a"}),
        ):
            settings = {f"{named}.{key}": value for key, value in server.settings.items()}
            with pytest.raises(StoreUnfit, match="8 of 8 writers got the answer that they created the object"):
                init_cluster(url, stores=stores, storage=settings)
        assert list(S3Store(f"s3://{bucket}", server.settings).list_keys("")) == []
    assert not list(tmp_path.rglob("meta"))


def test_a_server_that_looks_before_it_receives_the_body_is_refused() -> None:
    """It keeps every condition of writers that come one after the other."""
    with looking_first() as server:
        store = S3Store(f"s3://{server.new_bucket()}/chain", server.settings)
        store.put_if_absent("a", b"first")
        with pytest.raises(KeyExists):
            store.put_if_absent("a", b"second")
        with pytest.raises(StoreUnfit, match="one wins, found: "):
            check_store(store, uuid.uuid4().hex)
        assert [each.key for each in store.list_keys("")] == ["a"]


@pytest.mark.parametrize(("name", "refused"), [("ministack", StoreUnfit), ("s3proxy", InvalidInput)])
def test_a_proxy_that_strips_the_condition_is_refused(
    name: str, refused: type[InvalidInput], request: pytest.FixtureRequest
) -> None:
    """S3Proxy sees that a header is missing that was signed, MiniStack does not look."""
    server: S3Server = request.getfixturevalue(name)
    with FaultProxy(server.endpoint_url) as proxy:
        proxy.plan(StripHeaders(), lambda request: request.method in ("PUT", "POST"), times=None)
        settings = {f"metadata.{key}": value for key, value in {**server.settings, "endpoint_url": proxy.url}.items()}
        with pytest.raises(refused, match=r"of writers that race for a key one wins|SignatureDoesNotMatch"):
            init_cluster(f"s3://{server.new_bucket()}/chain", storage=settings)
