"""`sparklog cluster health`."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import sparklog as library
from sparklog.client.stores import store_health
from sparklog.core.commands import ClaimCoordination, ReportJob
from sparklog.core.describe import cluster_findings
from sparklog.core.errors import (
    StoreAccessDenied,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    UnsupportedVersion,
)
from sparklog.storage.keys import INCARNATION, index_key, parse_data_key
from sparklog.storage.local.store import LocalStore
from sparklog.storage.object_store import Bytes
from tests.cli.conftest import Cli
from tests.faults.unchanged_cluster import unchanged


def test_health_tells_what_the_next_runs_would_find(orders: Cli) -> None:
    waiting = ("slices_to_roll", "records_past_retention", "objects_to_delete_now", "objects_to_delete_later")
    assert [orders.json("cluster", "health")[name] for name in waiting] == [0, 0, 0, 0]
    orders("topic", "alter", "orders", "-s", "segment.bytes=1", "-s", "retention.bytes=0")
    assert [orders.json("cluster", "health")[name] for name in waiting] == [3, 3, 0, 0]
    orders("topic", "delete", "orders")
    found = orders.json("cluster", "health")
    assert [found[name] for name in waiting] == [0, 0, 0, 3]
    assert found["retired_bytes"] > 0


def test_the_age_of_the_snapshot_is_shown_and_an_old_one_is_unhealthy(
    orders: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = orders.json("cluster", "health")
    assert (found["snapshot"], found["entries_since_snapshot"]) == (None, 5)
    monkeypatch.setattr(cluster_findings, "STALE_SNAPSHOT_ENTRIES", 4)
    said = orders("cluster", "health")
    assert said.code == 5
    assert "no snapshot for 5 entries: sparklog chain snapshot" in said.out
    orders("chain", "snapshot")
    found = orders.json("cluster", "health")
    assert (found["snapshot"], found["entries_since_snapshot"]) == (4, 0)
    assert found["snapshot_time_ms"] == found["chain_time_ms"]


def test_a_job_that_failed_is_unhealthy_until_it_succeeds(sparklog: Cli) -> None:
    report = json.dumps(
        {"planned": {"objects": 3, "bytes": 10}, "done": {"objects": 2, "bytes": 5}, "deletion": {"done": {}}}
    )
    with library.connect(sparklog.url) as cluster:
        cluster.submit(ReportJob("vacuum", 0, 1000, 1, report))
    said = sparklog("cluster", "health")
    assert said.code == 5
    assert "job vacuum: 1 failed, see sparklog job status" in said.out
    assert "3 objects, 10 B, of which 2 deleted, at 1970-01-01T00:00:01.000Z" in said.out
    with library.connect(sparklog.url) as cluster:
        cluster.submit(ReportJob("vacuum", 0, 2000, 0, report))
    found = sparklog.json("cluster", "health")
    assert found["jobs"] == [{"job": "vacuum", "ended_ms": 2000, "failed": 0}]
    assert found["orphans"] == {"at_ms": 2000, "found": 3, "found_bytes": 10, "deleted": 2}


# M: N-02 P-07
def test_a_store_that_was_swapped_or_wiped_is_unhealthy(sparklog: Cli) -> None:
    mark = Path(sparklog.url, INCARNATION)
    body = json.loads(mark.read_bytes())
    mark.write_text(json.dumps({**body, "incarnation": "0" * 32}))
    said = sparklog("cluster", "health", "--format", "json")
    assert (said.code, said.json["healthy"]) == (5, False)
    assert said.json["stores"][0]["found"].startswith("another store: ")
    mark.unlink()
    said = sparklog("cluster", "health")
    assert (said.code, "store local: nothing there" in said.out) == (5, True)


def test_a_healthy_cluster_is_left_as_it_was_and_says_what_was_not_checked(orders: Cli) -> None:
    with unchanged(orders.url, ()):
        found = orders.json("cluster", "health")
    (store,) = found["stores"]
    assert (store["store"], store["found"], store["objects_sampled"]) == ("local", "ok", 3)
    assert store["free_bytes"] > 0
    assert (found["healthy"], found["objects"], found["objects_sampled"]) == (True, 3, 3)
    assert found["not_checked"] == [
        "the bytes of records: sparklog segment dump TOPIC -p P compares them with their checksums",
        "a write to the metadata chain: only a commit tries it (on a disk, directory permissions are checked)",
    ]
    said = orders("cluster", "health").out
    assert " free, 3 objects looked for" in said
    assert "never counted: sparklog job vacuum" in said


def test_a_sample_is_counted_as_one(orders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_health, "MOST_SAMPLES", 2)
    found = orders.json("cluster", "health")
    assert (found["objects"], found["objects_sampled"], found["not_checked"][0]) == (3, 2, "1 of 3 objects")


@pytest.mark.parametrize(
    ("error", "code"), [(StoreFull("no space left"), "STORE_FULL"), (StoreReadOnly("read-only"), "STORE_READ_ONLY")]
)
def test_a_store_that_takes_no_writes_is_unhealthy_and_its_objects_are_looked_for_all_the_same(
    orders: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    def refuse(store: LocalStore, key: str, body: Bytes) -> None:
        raise error

    monkeypatch.setattr(LocalStore, "put_if_absent", refuse)
    said = orders("cluster", "health", "--format", "json")
    assert (said.code, said.json["healthy"], said.json["objects_sampled"]) == (5, False, 3)
    assert said.json["wrong"] == [f"store local: {code}: {error.args[0]}"]


def test_objects_that_are_gone_or_cut_are_unhealthy_and_named_with_topic_and_offsets(orders: Cli) -> None:
    first, second, third = (each["object"] for each in orders.json("segment", "list", "orders"))
    Path(orders.url, first).unlink()
    Path(orders.url, index_key(second)).unlink()
    body = Path(orders.url, third).read_bytes()
    Path(orders.url, third).unlink()
    Path(orders.url, third).write_bytes(body[:-1])
    said = orders("cluster", "health", "--format", "json")
    assert said.code == 5
    assert sorted(said.json["wrong"]) == [
        f"store local: orders-0 offsets [0, 1): {first} is not there",
        f"store local: orders-0 offsets [2, 3): {third} has {len(body) - 1:,} bytes ({(len(body) - 1) / 1024:.1f} KiB),"
        f" wanted {len(body):,} bytes ({len(body) / 1024:.1f} KiB)",
    ]
    assert said.json["remarks"] == [
        f"store local: orders-0 offsets [1, 2): {index_key(second)} is not there "
        "(an index: readers rebuild it from its object; sparklog job recovery --full puts it back)"
    ]
    assert "local: 2 problems (see above), " in orders("cluster", "health").out


@pytest.mark.parametrize(
    ("call", "sampled", "wrong"),
    [
        ("put_if_absent", 3, ["store local: the check itself failed with OSError(5, 'not foreseen')"]),
        ("get", 0, ["store local: the check itself failed with OSError(5, 'not foreseen')"]),
        ("size", 3, [f"store local: orders-0 offsets [{each}, {each + 1}): the check itself" for each in range(3)]),
    ],
)
def test_a_check_that_fails_itself_is_unhealthy(
    orders: Cli, monkeypatch: pytest.MonkeyPatch, call: str, sampled: int, wrong: list[str]
) -> None:
    called = getattr(LocalStore, call)

    def fail(store: LocalStore, key: str, *arguments: object) -> object:
        if threading.current_thread().name == "sparklog-health":
            raise OSError(5, "not foreseen")
        return called(store, key, *arguments)

    monkeypatch.setattr(LocalStore, call, fail)
    said = orders("cluster", "health", "--format", "json")
    assert (said.code, said.json["healthy"], said.json["objects_sampled"]) == (5, False, sampled)
    starts = {found[: len(each)] for each in wrong for found in said.json["wrong"] if found.startswith(each)}
    assert starts == set(wrong), said.json["wrong"]


def test_samples_that_nobody_looked_for_are_unhealthy(orders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_health, "_SAMPLERS", 0)
    said = orders("cluster", "health", "--format", "json")
    assert (said.code, said.json["wrong"]) == (5, ["store local: 3 sampled objects could not be looked for"])


def test_a_store_that_does_not_answer_is_reported_at_the_deadline_and_holds_up_no_other(
    nowhere: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere("cluster", "init", "--store", "a=disk-a", "--store", "b=disk-b")
    put, over = LocalStore.put_if_absent, threading.Event()

    def hang(store: LocalStore, key: str, body: Bytes) -> None:
        if store.url.endswith("disk-a"):
            over.wait()
        put(store, key, body)

    left_s = iter([0.0, 60.0, 60.0])  # for a, b and the metadata
    monkeypatch.setattr(store_health.Deadline, "left_s", lambda deadline: next(left_s))
    monkeypatch.setattr(LocalStore, "put_if_absent", hang)
    try:
        said = nowhere("cluster", "health", "--format", "json")
    finally:
        over.set()
    assert said.code == 5
    assert {each["store"]: each["found"] for each in said.json["stores"]} == {
        "a": "no answer in 20 seconds",
        "b": "ok",
        "metadata": "ok",
    }


def test_metadata_that_do_not_answer_are_unhealthy(orders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    get, over = LocalStore.get, threading.Event()

    def hang(store: LocalStore, key: str) -> memoryview:
        over.wait()
        return get(store, key)

    monkeypatch.setattr(store_health, "DEADLINE_MS", 50)
    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "get", hang)
        said = orders("cluster", "health", "--format", "json")
        over.set()
    wanted = f"the metadata can't be read: REQUEST_TIMED_OUT: the metadata at {orders.url}: no answer in 50 ms"
    assert (said.code, said.json) == (5, {"healthy": False, "wrong": [wanted]})


def test_a_damaged_chain_is_unhealthy(orders: Cli) -> None:
    sorted(Path(orders.url, "meta/log").rglob("0*[0-9]"))[2].unlink()
    said = orders("cluster", "health")
    assert said.code == 5
    assert "wrong        the metadata can't be read: CHAIN_DAMAGED: entry 1, meta/log/" in said.out


def test_nothing_is_written_to_what_is_not_the_store_that_was_registered(nowhere: Cli, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    nowhere("cluster", "init", "--store", f"a={disk}")
    disk.rename(tmp_path / "elsewhere")
    said = nowhere("cluster", "health")
    assert (said.code, disk.exists()) == (5, False)
    assert "store a: nothing there: no INCARNATION at file://" in said.out


def test_a_write_is_tried_beside_the_log_under_an_orphans_name_and_removed_whatever_happens(
    orders: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, get, keys = LocalStore.put_if_absent, LocalStore.get, []

    def noted(store: LocalStore, key: str, body: Bytes) -> None:
        keys.append(key)
        put(store, key, body)

    def denied(store: LocalStore, key: str) -> memoryview:
        if key in keys:
            raise StoreAccessDenied("not for you")
        return get(store, key)

    monkeypatch.setattr(LocalStore, "put_if_absent", noted)
    monkeypatch.setattr(LocalStore, "get", denied)
    folders = set(os.listdir(Path(orders.url, "append")))
    with unchanged(orders.url, ()):
        said = orders("cluster", "health", "--format", "json")
    assert said.json["wrong"] == ["store local: STORE_ACCESS_DENIED: not for you"]
    name = parse_data_key(keys[0])
    assert name is not None
    assert (name.n0, name.upload_id[:2] in folders) == (4, True)


def test_a_write_that_reads_back_otherwise_is_unhealthy(orders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    put = LocalStore.put_if_absent
    monkeypatch.setattr(LocalStore, "put_if_absent", lambda store, key, body: put(store, key, bytes(len(body))))
    said = orders("cluster", "health", "--format", "json")
    assert (said.code, len(said.json["wrong"])) == (5, 1)
    assert said.json["wrong"][0].endswith("was read back with other bytes than were written")


def test_without_an_append_object_the_probe_says_where_it_wrote(sparklog: Cli) -> None:
    found = sparklog.json("cluster", "health")
    assert found["not_checked"][-1].startswith("a write under append/ of store local, where no object is")
    assert not Path(sparklog.url, "append").exists()


@pytest.mark.parametrize("folder", ["append", "meta/log", "meta/log/0000000000000000"])
def test_a_directory_of_the_log_that_takes_no_writes_is_unhealthy(
    orders: Cli, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    path, access = str(Path(orders.url, folder)), os.access

    def refused(asked: str, mode: int, *, effective_ids: bool) -> bool:
        return asked != path and access(asked, mode)

    monkeypatch.setattr(os, "access", refused)
    monkeypatch.setattr(os, "supports_effective_ids", {refused})
    said = orders("cluster", "health", "--format", "json")
    wanted = f"store local: STORE_READ_ONLY: the user of this process may not write in {path}"
    assert (said.code, said.json["wrong"]) == (5, [wanted])


def test_an_object_that_may_not_be_read_is_unhealthy(orders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    first = orders.json("segment", "list", "orders")[0]["object"]
    ranges = LocalStore.get_ranges

    def denied(store: LocalStore, key: str, *arguments: object) -> object:
        if key == first:
            raise StoreAccessDenied("mode 000")
        return ranges(store, key, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(LocalStore, "get_ranges", denied)
    said = orders("cluster", "health", "--format", "json")
    wanted = "store local: orders-0 offsets [0, 1): STORE_ACCESS_DENIED: mode 000"
    assert (said.code, said.json["wrong"]) == (5, [wanted])


@pytest.mark.parametrize(
    "error", [UnsupportedVersion("a newer one"), StoreUnavailable("gone"), OSError(5, "not foreseen")]
)
@pytest.mark.parametrize("place", ["sparklog.client.cluster.connect", "sparklog.cli.cluster.cluster_health.position"])
def test_metadata_that_cant_be_read_are_unhealthy_with_a_document(
    orders: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception, place: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(place, fail)
    said = orders("cluster", "health", "--format", "json")
    assert (said.code, said.json["healthy"]) == (5, False)
    assert str(error.args[-1]) in said.json["wrong"][0]


def test_a_server_that_refuses_to_show_the_metadata_is_unhealthy(
    nowhere: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_PROFILE", "nope")
    said = nowhere("cluster", "health", "--cluster", "s3://bucket/x", "--format", "json")
    assert (said.code, said.json["healthy"]) == (5, False)
    assert "(nope) could not be found" in said.json["wrong"][0]


@pytest.mark.parametrize(("address", "code"), [("ftp://x", 2), ("s3://key:secret@b/x", 2), ("/nowhere", 3)])
def test_an_address_that_is_no_clusters_is_an_error_of_usage(nowhere: Cli, address: str, code: int) -> None:
    said = nowhere("cluster", "health", "--cluster", address)
    assert (said.code, said.out) == (code, "")


def test_an_object_of_many_slices_says_how_many_are_lost_with_it(sparklog: Cli) -> None:
    with library.connect(sparklog.url) as cluster:
        cluster.create_topic("wide", partitions=3)
        cluster.append("wide", pa.table({"value": ["a", "b", "c"], "partition": pa.array([0, 1, 2], pa.int32())}))
    Path(sparklog.url, sparklog.json("segment", "list", "wide")[0]["object"]).unlink()
    said = sparklog("cluster", "health", "--format", "json")
    (wrong,) = said.json["wrong"]
    assert wrong.startswith("store local: wide-0 offsets [0, 1) and 2 more slices: append/")


def test_objects_that_were_deleted_since_the_sample_was_drawn_are_not_reported(
    orders: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Path(orders.url, orders.json("segment", "list", "orders")[0]["object"])
    size = LocalStore.size

    def late(store: LocalStore, key: str) -> int:
        if key.endswith(first.name) and first.exists():
            with library.connect(orders.url) as other:
                other.delete_topic("orders")
            first.unlink()
        return size(store, key)

    monkeypatch.setattr(LocalStore, "size", late)
    found = orders.json("cluster", "health")
    assert (found["healthy"], found["wrong"], found["remarks"], first.exists()) == (True, [], [], False)


def test_a_coordinator_that_is_gone_is_unhealthy_until_it_is_made_to_resign(sparklog: Cli) -> None:
    with socket.socket() as unused, library.connect(sparklog.url) as cluster:
        unused.bind(("127.0.0.1", 0))  # and never listens
        committer = cluster.connection.committer
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        committer.commit_here(committer.begin(ClaimCoordination(1, "gone", address)))
        said = sparklog("cluster", "health", "--format", "json")
        assert said.code == 5
        (wrong,) = said.json["wrong"]
        assert wrong.startswith(
            f"writes from here fail: gone coordinates the cluster, epoch 1, but no coordinator answers at {address}"
        )
        assert wrong.endswith("run 'sparklog coordinator resign --force'")
        sparklog("coordinator", "resign", "--force")
    assert sparklog.json("cluster", "health")["coordinator"] == "no coordinator: each process commits by itself"


@pytest.mark.parametrize(
    ("low", "least", "remarks", "wrong"), [(4, 1, 0, 0), (5, 4, 1, 0), (5, 5, 0, 1), (1, 5, 0, 1), (0, 0, 0, 0)]
)
def test_little_free_space_is_a_remark_and_very_little_is_wrong(
    nowhere: Cli, monkeypatch: pytest.MonkeyPatch, low: int, least: int, remarks: int, wrong: int
) -> None:
    monkeypatch.setattr(LocalStore, "free_bytes", lambda self: 4 << 30)
    limits = (f"store.free.low.bytes={low << 30}", "-c", f"store.free.min.bytes={least << 30}")
    nowhere("cluster", "init", "-c", *limits)
    said = nowhere("cluster", "health", "--format", "json")
    found = [*said.json["remarks"], *said.json["wrong"]]
    assert (len(said.json["remarks"]), len(said.json["wrong"])) == (remarks, wrong)
    assert [each.split(": ")[2].split()[0] for each in found] == ["plan"] * remarks + ["stop"] * wrong
    assert said.code == (5 if wrong else 0)
