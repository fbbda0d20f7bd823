"""Making a cluster, and what connect says where there is none."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import sparklog
from sparklog.chain.commit.committer import Committer
from sparklog.chain.framing import frame
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import connect
from sparklog.client.connection import Connection, shared
from sparklog.core.errors import (
    ChainDamaged,
    ClusterAlreadyExists,
    ClusterNotFound,
    Conflict,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidInput,
    StoreUnavailable,
    UnsupportedVersion,
)
from sparklog.log.incarnation import Incarnation
from sparklog.storage.keys import INCARNATION, entry_key
from tests.chain.newer_format import NEWER, make_newer
from tests.client.shared_connections import forget_shared


def test_a_cluster_is_made_once(tmp_path: Path) -> None:
    chain_id = init_cluster(str(tmp_path / "c"))
    with pytest.raises(ClusterAlreadyExists, match=chain_id):
        init_cluster(str(tmp_path / "c"))


# M: S-01
def test_data_may_live_on_another_store_than_the_chain(tmp_path: Path) -> None:
    init_cluster(str(tmp_path / "meta"), stores={"zone-a": str(tmp_path / "data")})
    with connect(str(tmp_path / "meta")) as cluster:
        cluster.create_topic("t")
        cluster.append("t", pa.table({"value": ["1"]}))
        assert cluster.read("t", partition=0).num_rows == 1
    assert list((tmp_path / "data" / "append").rglob("*.arrow"))
    assert not (tmp_path / "meta" / "append").exists()


def test_a_store_belongs_to_one_cluster(tmp_path: Path) -> None:
    init_cluster(str(tmp_path / "one"), stores={"s": str(tmp_path / "data")})
    with pytest.raises(Conflict, match="belongs to the cluster"):
        init_cluster(str(tmp_path / "two"), stores={"s": str(tmp_path / "data")})


def marks(folder: Path) -> list[str]:
    return sorted(str(path.parent.relative_to(folder)) for path in folder.rglob(INCARNATION))


def test_an_init_that_finds_a_store_of_another_cluster_marks_none(tmp_path: Path) -> None:
    """Else the other stores would count as another cluster's in the next try."""
    init_cluster(str(tmp_path / "one"), stores={"s": str(tmp_path / "taken")})
    with pytest.raises(InconsistentClusterId, match=r"store b at .*taken belongs to the cluster"):
        init_cluster(str(tmp_path / "two"), stores={"a": str(tmp_path / "a"), "b": str(tmp_path / "taken")})
    assert marks(tmp_path) == ["taken"]
    init_cluster(str(tmp_path / "two"), stores={"a": str(tmp_path / "a"), "b": str(tmp_path / "b")})
    assert marks(tmp_path) == ["a", "b", "taken"]


def test_an_init_that_finds_two_ids_for_one_place_marks_none(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    stores = {"a": str(tmp_path / "a"), "c": str(tmp_path / "c"), "b": str(tmp_path / "link")}
    with pytest.raises(DuplicateBrokerRegistration, match=r"found that a and b are one, at file:.*link"):
        init_cluster(str(tmp_path / "cluster"), stores=stores)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    init_cluster(str(tmp_path / "cluster"), stores={"a": str(tmp_path / "link"), "c": str(tmp_path / "c")})


def test_the_place_of_the_metadata_is_no_store_under_another_address(tmp_path: Path) -> None:
    """Copies of the metadata would lie beside the originals, and be lost with them."""
    (tmp_path / "cluster").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "cluster")
    url, link = str(tmp_path / "cluster"), str(tmp_path / "link")
    with pytest.raises(DuplicateBrokerRegistration, match=r"found that metadata and b are one, at file:.*link"):
        init_cluster(url, stores={"b": link}, config={"metadata.copies": 1})
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    init_cluster(url, stores={"own": ".", "c": str(tmp_path / "c")}, config={"metadata.copies": 1})


def test_the_place_of_the_metadata_is_not_added_under_another_address(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "cluster")
    url, link = str(tmp_path / "cluster"), str(tmp_path / "link")
    init_cluster(url, stores={"c": str(tmp_path / "c")}, config={"metadata.copies": 1})
    with sparklog.connect(url) as cluster:
        with pytest.raises(DuplicateBrokerRegistration, match=r"found the metadata at file:.*link: to put it there"):
            cluster.add_store("b", link)
        assert not (tmp_path / "cluster" / INCARNATION).exists()
        cluster.add_store("b", url)


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An init dies before entry 0."""

    def die(*_: object) -> None:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(Committer, "submit", die)
    return monkeypatch


def test_an_init_that_died_is_taken_up_again(tmp_path: Path, dying: pytest.MonkeyPatch) -> None:
    stores = {"own": ".", "other": str(tmp_path / "other")}
    with pytest.raises(StoreUnavailable):
        init_cluster(str(tmp_path / "c"), stores=stores)
    dying.undo()
    with pytest.raises(Conflict):  # it is no other cluster's
        init_cluster(str(tmp_path / "d"), stores=stores)
    mark = msgspec.json.decode((tmp_path / "c" / INCARNATION).read_bytes(), type=Incarnation)
    assert init_cluster(str(tmp_path / "c"), stores=stores) == mark.chain_id
    with connect(str(tmp_path / "c")) as cluster:
        assert {each.incarnation for each in cluster.connection.follower.state.stores.values()} >= {mark.incarnation}


def test_a_root_whose_chain_was_lost_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    init_cluster(str(tmp_path))
    with connect(str(tmp_path)) as cluster:
        cluster.create_topic("t")
        cluster.append("t", pa.table({"value": ["1"]}))
    shutil.rmtree(tmp_path / "meta")
    with pytest.raises(Conflict, match="if that cluster is gone for good"):
        init_cluster(str(tmp_path))


def test_a_store_with_the_data_of_a_lost_chain_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    root, stores = str(tmp_path / "c"), {"own": ".", "other": str(tmp_path / "other")}
    init_cluster(root, stores=stores)
    (tmp_path / "other" / "append").mkdir()
    (tmp_path / "other" / "append" / "records").write_bytes(b"precious")
    shutil.rmtree(tmp_path / "c" / "meta")
    with pytest.raises(Conflict, match="if that cluster is gone for good"):
        init_cluster(root, stores=stores)


def test_a_mark_of_somebody_else_is_a_conflict(tmp_path: Path) -> None:
    (tmp_path / INCARNATION).write_bytes(b"not ours")
    with pytest.raises(Conflict, match="is not sparklog's"):
        init_cluster(str(tmp_path))


def test_an_address_with_nothing_behind_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(ClusterNotFound, match="cluster init"):
        connect(str(tmp_path))


@pytest.mark.parametrize("address", ["localhost:9092", "http://localhost:1/x", "ftp://x/y"])
def test_an_address_of_another_kind_is_refused(address: str) -> None:
    with pytest.raises(InvalidInput):
        connect(address)


def test_a_cluster_of_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    init_cluster(str(tmp_path))
    path = tmp_path / entry_key(0)
    make_newer(path)
    with pytest.raises(UnsupportedVersion, match=f"format {NEWER}"):
        connect(str(tmp_path))


def test_an_entry_of_another_chain_is_damage(tmp_path: Path) -> None:
    init_cluster(str(tmp_path))
    (tmp_path / entry_key(1)).write_bytes(frame("entry", b"{}"))
    with pytest.raises(ChainDamaged, match=entry_key(1)):
        connect(str(tmp_path))


def test_a_process_shares_one_connection_per_cluster(tmp_path: Path) -> None:
    init_cluster(str(tmp_path))
    first = shared(str(tmp_path))
    assert shared(f"file://{tmp_path}") is first
    forget_shared()
    assert isinstance(shared(str(tmp_path)), Connection)
    assert shared(str(tmp_path)) is not first
    forget_shared()


def test_a_shared_connection_to_a_wiped_and_remade_cluster_is_opened_anew(tmp_path: Path) -> None:
    url = str(tmp_path / "c")
    init_cluster(url)
    first = shared(url)
    shutil.rmtree(url)
    chain_id = init_cluster(url)
    assert shared(url) is not first
    assert shared(url).follower.state.chain_id == chain_id
    forget_shared()
