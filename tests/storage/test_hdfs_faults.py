"""Stores on HDFS while nodes and writers die, against real nodes."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sparklog.core.errors import KeyExists, KeyNotFound, Landed, OutcomeUnknown, SparklogError, StoreUnavailable
from sparklog.storage.hdfs import upload as hdfs_upload
from sparklog.storage.hdfs.store import HdfsStore
from tests.servers.hadoop import DATA_NODES, NAME_NODE, Hadoop
from tests.storage.hdfs_steps import BODY, STEPS, Step, stepped_store

pytestmark = pytest.mark.slow

MIB = 1 << 20
LATER_MS = 2**53


@pytest.fixture
def url(hadoop: Hadoop) -> Iterator[str]:
    yield f"{hadoop.url}/{uuid.uuid4().hex}"
    hadoop.mend()


@pytest.fixture
def store(url: str) -> HdfsStore:
    return HdfsStore(url, {})


# ---- a writer dies ------------------------------------------------------------------------------


# M: F-09 (kills)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_key_whose_writer_was_killed_is_absent_or_whole_and_blocks_nobody(
    url: str, store: HdfsStore, step: str, when: str
) -> None:
    store.put_if_absent("meta/other", b"makes the folder")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.storage.hdfs_steps", url, "meta/key", step, when], check=False, timeout=60
    )
    assert ended.returncode == -9
    landed = (step, when) == ("rename", "after")
    if landed:
        with pytest.raises(KeyExists):
            store.put_if_absent("meta/key", b"mine")
    else:
        with pytest.raises(KeyNotFound):
            store.get("meta/key")
        store.put_if_absent("meta/key", b"mine")
    assert bytes(store.get("meta/key")) == (BODY if landed else b"mine")
    left = 0 if landed or (step, when) == ("create", "before") else 1
    assert store.remove_abandoned(LATER_MS) == left


# ---- a rename without an answer -----------------------------------------------------------------


def _answer_lost(call: Callable[[], Any]) -> None:
    call()
    raise OSError("RPC listener disconnected")


def _request_lost(_: Callable[[], Any]) -> None:
    raise OSError("RPC listener disconnected")


def _put(store: HdfsStore, key: str, body: bytes, *, streamed: bool) -> None:
    if not streamed:
        store.put_if_absent(key, body)
        return
    with store.upload(key) as upload:
        upload.write(body)
        upload.publish()


# M: F-01 (loses)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_rename_whose_answer_was_lost_is_found_to_have_landed(url: str, streamed: bool) -> None:
    store = stepped_store(url, {"rename": _answer_lost})
    _put(store, "a/b", b"body", streamed=streamed)
    assert bytes(store.get("a/b")) == b"body"


def test_a_rename_that_never_arrived_is_found_not_to_have_landed(url: str) -> None:
    store = stepped_store(url, {"rename": _request_lost})
    with pytest.raises(StoreUnavailable, match="not carried out") as failed:
        store.put_if_absent("a/b", b"body")
    assert failed.value.landed is Landed.NO
    assert list(store.list_keys("")) == []
    assert store.remove_abandoned(LATER_MS) == 0


def test_a_rename_that_was_given_up_can_no_longer_land(url: str) -> None:
    given_up: list[Callable[[], Any]] = []

    def hang(call: Callable[[], Any]) -> None:
        given_up.append(call)
        raise OSError("no answer")

    store = stepped_store(url, {"rename": hang})
    with pytest.raises(StoreUnavailable):
        store.put_if_absent("b", b"body")
    with pytest.raises(FileNotFoundError):
        given_up[0]()
    assert list(store.list_keys("")) == []


@pytest.mark.parametrize("rename", [_answer_lost, _request_lost])
@pytest.mark.parametrize("delete", [_answer_lost, _request_lost])
def test_what_can_not_be_found_out_is_said_to_be_unknown(url: str, rename: Step, delete: Step) -> None:
    store = stepped_store(url, {"rename": rename, "delete": delete})
    with pytest.raises(OutcomeUnknown) as failed:
        store.put_if_absent("b", b"body")
    assert failed.value.landed is Landed.UNKNOWN
    assert [each.size_bytes for each in store.list_keys("")] == ([4] if rename is _answer_lost else [])


def test_a_key_that_somebody_else_won_meanwhile_is_not_taken_for_ones_own(url: str) -> None:
    other = HdfsStore(url, {})

    def lose(call: Callable[[], Any]) -> None:
        other.put_if_absent("b", b"body of somebody else")
        _answer_lost(lambda: None)

    store = stepped_store(url, {"rename": lose})
    with pytest.raises(StoreUnavailable):
        store.put_if_absent("b", b"body")
    assert bytes(store.get("b")) == b"body of somebody else"


def test_a_key_of_the_same_length_is_not_taken_for_ones_own_when_ones_temporary_was_removed(url: str) -> None:
    other = HdfsStore(url, {})

    def lose(call: Callable[[], Any]) -> None:
        other.put_if_absent("b", b"ydob")
        other.remove_abandoned(LATER_MS)
        _answer_lost(lambda: None)

    store = stepped_store(url, {"rename": lose})
    with pytest.raises(OutcomeUnknown, match="another object was there"):
        store.put_if_absent("b", b"body")
    assert bytes(store.get("b")) == b"ydob"


# ---- data nodes die -----------------------------------------------------------------------------


def test_an_upload_goes_on_when_a_data_node_dies(hadoop: Hadoop, store: HdfsStore) -> None:
    with store.upload("a/b") as upload:
        upload.write(b"x" * 5 * MIB)
        hadoop.kill(DATA_NODES[0])
        upload.write(b"y" * 5 * MIB)
        upload.publish()
    assert bytes(store.get("a/b")) == b"x" * 5 * MIB + b"y" * 5 * MIB


def test_a_put_waits_until_a_dead_data_node_is_missed(hadoop: Hadoop, store: HdfsStore) -> None:
    store.put_if_absent("before", BODY)
    hadoop.kill(DATA_NODES[1])
    store.put_if_absent("after", BODY)
    assert bytes(store.get("before")) == bytes(store.get("after")) == BODY
    assert store.remove_abandoned(LATER_MS) == 0


def test_without_data_nodes_nothing_is_read_and_a_put_fails_with_the_key_free(hadoop: Hadoop, url: str) -> None:
    store, hasty = HdfsStore(url, {}), HdfsStore(url, {"timeout_ms": "1000"})
    store.put_if_absent("before", BODY)
    for node in DATA_NODES:
        hadoop.kill(node)
    with pytest.raises(StoreUnavailable, match=r"found: All DataNodes failed \(DataTransferError\)"):
        store.get("before")
    with pytest.raises(StoreUnavailable) as failed:
        hasty.put_if_absent("a", BODY)
    assert failed.value.landed is Landed.NO
    hadoop.mend()
    assert [each.key for each in store.list_keys("")] == ["before"]
    store.put_if_absent("a", BODY)


@pytest.mark.parametrize("node", [DATA_NODES[0], pytest.param(DATA_NODES[1], marks=pytest.mark.campaign)])
def test_a_data_node_that_hangs_is_read_around_and_ends_a_write_at_its_deadline(
    hadoop: Hadoop, url: str, node: str
) -> None:
    store = HdfsStore(url, {"dfs.client.socket-timeout": "3000"})
    hasty = HdfsStore(url, {"dfs.client.socket-timeout": "500", "timeout_ms": "2000"})
    store.put_if_absent("a", BODY)
    hadoop.pause(node)
    assert bytes(store.get("a")) == BODY
    with pytest.raises(StoreUnavailable) as failed:
        hasty.put_if_absent("b", BODY)
    assert failed.value.landed is Landed.NO
    hadoop.resume(node)
    with pytest.raises(KeyNotFound):
        store.get("b")


# ---- the name node dies -------------------------------------------------------------------------


# M: F-01 (kills)
def test_what_was_acknowledged_is_there_after_the_name_node_was_killed(hadoop: Hadoop, url: str) -> None:
    store = HdfsStore(url, {"timeout_ms": "5000"})
    acknowledged = [f"a/{number}" for number in range(20)]
    for key in acknowledged:
        store.put_if_absent(key, key.encode())
    store.put_if_absent("d", BODY)
    upload = store.upload("b")
    upload.write(BODY)
    hadoop.kill(NAME_NODE)
    impatient = HdfsStore(url, {"timeout_ms": "200"})
    calls: list[Callable[[], object]] = [
        upload.publish,
        lambda: impatient.put_if_absent("c", BODY),
        lambda: impatient.get(acknowledged[0]),
        lambda: impatient.size(acknowledged[0]),
        lambda: list(impatient.list_keys("")),
        lambda: impatient.delete("d"),
    ]
    for call in calls:
        with pytest.raises(StoreUnavailable):
            call()
    hadoop.mend()
    # A delete that was given up may still be carried out: hdfs-native goes on trying.
    assert {each.key for each in store.list_keys("")} - {"d"} == set(acknowledged)
    assert [bytes(store.get(key)) for key in acknowledged] == [key.encode() for key in acknowledged]
    store.put_if_absent("c", BODY)


def test_a_name_node_that_hangs_ends_no_call_later_than_its_deadline(hadoop: Hadoop, url: str) -> None:
    store, hasty = HdfsStore(url, {}), HdfsStore(url, {"timeout_ms": "1000"})
    store.put_if_absent("a", b"body")
    hadoop.pause(NAME_NODE)
    for call in (lambda: hasty.get("a"), lambda: hasty.size("a"), lambda: hasty.put_if_absent("b", b"body")):
        with pytest.raises(StoreUnavailable, match="no answer in 1 second"):
            call()
    hadoop.resume(NAME_NODE)
    hadoop.wait_until_ready()
    assert bytes(store.get("a")) == b"body"
    store.put_if_absent("b", b"body")


def test_a_rename_at_which_the_name_node_hangs_is_unknown_until_it_is_looked_up(
    hadoop: Hadoop, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdfs_upload, "_SETTLE_MS", 1000)

    def hang(call: Callable[[], Any]) -> Any:
        hadoop.pause(NAME_NODE)
        return call()

    store = stepped_store(url, {"rename": hang}, timeout_ms=4000)
    with pytest.raises(OutcomeUnknown):
        store.put_if_absent("a", b"body")
    hadoop.resume(NAME_NODE)
    hadoop.wait_until_ready()
    again = HdfsStore(url, {})
    try:
        again.put_if_absent("a", b"other")
    except KeyExists:
        assert bytes(again.get("a")) == b"body"
    else:
        assert bytes(again.get("a")) == b"other"


def test_errors_of_a_store_that_is_gone_say_where_it_was(url: str) -> None:
    authority = "127.0.0.1:1"
    store = HdfsStore(f"hdfs://{authority}/a", {"dfs.client.failover.max.attempts": "0"})
    calls: list[Callable[[], object]] = [
        lambda: store.get("a"),
        lambda: store.put_if_absent("a", b""),
        lambda: store.first_key_after("a/", ""),
    ]
    for call in calls:
        with pytest.raises(SparklogError, match=f"hdfs://{authority}/a.*refused"):
            call()
