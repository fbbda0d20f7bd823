"""Headers whose keys are null or not UTF-8: refused when they are written, and read as text all the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sparklog.client.cluster import Cluster
from sparklog.client.consumer.consumer_record import Deserializers
from sparklog.client.describe.record_rows import record_rows
from sparklog.core.errors import InvalidRecord
from sparklog.core.types import ObjectKind, Offset, OffsetRange, PartitionIndex, StoreId, TopicPartition
from sparklog.log.header_keys import check_header_keys, readable_headers
from sparklog.log.stored_schema import HEADERS, STORED_HEADERS
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.storage.keys import data_key
from tests.client.compacting import compact_range
from tests.kit.log import new_cluster
from tests.kit.silent_console import SILENT

BROKEN = [{"key": b"a\xff\xe2\x82", "value": b"x"}]


def rows(*headers: Any) -> pa.RecordBatch:
    """Rows with the keys k0, k1 and so on. The keys of headers are bytes."""
    keys = pa.array([b"k%d" % row for row in range(len(headers))])
    stored = pa.array(list(headers), STORED_HEADERS).view(HEADERS)
    return pa.RecordBatch.from_pydict({"key": keys, "value": keys, "headers": stored})


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ([{"key": b"\xff", "value": b"x"}], r"the key b'\\xff'"),
        ([{"key": "ключ".encode(), "value": None}, {"key": b"\xd0", "value": b"x"}], r"the key b'\\xd0'"),
        ([{"key": None, "value": b"x"}], "no key"),
        ([None], "no key"),
    ],
)
def test_the_row_with_a_wrong_key_is_named(headers: list[Any], found: str) -> None:
    wrong = rows(None, [{"key": b"h", "value": b"x"}], headers, [])
    wanted = rf"topic t, key b'k2': wanted headers whose keys are UTF-8, found one with {found}"
    with pytest.raises(InvalidRecord, match=wanted):
        check_header_keys(wrong, "t")
    check_header_keys(wrong.slice(0, 2), "t")
    check_header_keys(wrong.slice(3), "t")


def test_an_append_with_a_wrong_key_writes_nothing() -> None:
    with new_cluster() as cluster:
        cluster.create_topic("t", partitions=1)
        with pytest.raises(InvalidRecord, match=r"topic t, key b'k1'"):
            cluster.append("t", pa.Table.from_batches([rows(None, BROKEN)]))
        assert cluster.describe("t").records == 0


def test_a_producer_refuses_half_a_character_in_the_name_of_a_header() -> None:
    with new_cluster() as cluster:
        cluster.create_topic("t", partitions=1)
        found = r"a header's name: wanted text, found half of a surrogate pair, U\+D83D"
        with cluster.producer() as producer, pytest.raises(InvalidRecord, match=found):
            producer.send("t", b"v", headers=[("\ud83d", b"x")])
        assert cluster.describe("t").records == 0


def with_a_broken_key(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster whose topic t has headers that a writer without the check has written."""
    cluster = new_cluster()
    cluster.create_topic("t", partitions=1)
    with monkeypatch.context() as unchecked:
        unchecked.setattr("sparklog.client.plans.task_upload.check_header_keys", lambda rows, topic: None)
        cluster.append("t", pa.Table.from_batches([rows([{"key": b"h", "value": b"x"}], BROKEN, None)]))
    return cluster


def test_a_key_that_is_not_utf_8_is_read_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    with with_a_broken_key(monkeypatch) as cluster:
        table = cluster.read("t", partition=0, include_headers=True)
        wanted = [[{"key": "h", "value": b"x"}], [{"key": "a\ufffd\ufffd", "value": b"x"}], None]
        assert table.column("headers").to_pylist() == wanted
        table.validate(full=True)
        (batch,) = cluster.read("t", partition=0, include_headers=True).to_batches()
        shown = record_rows(batch, "t", repr, repr, repr)
        assert shown[1]["headers"] == [{"key": "a\ufffd\ufffd", "value": "b'x'"}]
        found, error = Deserializers().records("t", 0, batch)
        assert error is None
        assert found[1].headers == (("a\ufffd\ufffd", b"x"),)


def test_rewrites_copy_keys_as_they_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A roll joins small batches, and a compaction takes rows out of them. Only readers replace bytes."""
    with with_a_broken_key(monkeypatch) as cluster:
        compact_range(cluster, "t", 0, (0, 3), {1}.__contains__)
        cluster.append("t", pa.table({"value": ["v"]}))
        with monkeypatch.context() as unchecked:
            unchecked.setattr("sparklog.client.plans.task_upload.check_header_keys", lambda rows, topic: None)
            cluster.append("t", pa.Table.from_batches([rows(BROKEN)]))
        run_roll(cluster.connection.url, everything=True, console=SILENT)
        assert stored_keys(cluster) == [b"a\xff\xe2\x82"] * 2
        table = cluster.read("t", partition=0, include_headers=True)
        wanted = [{"key": "a\ufffd\ufffd", "value": b"x"}]
        assert table.column("headers").to_pylist() == [wanted, None, wanted]


def stored_keys(cluster: Cluster) -> list[bytes]:
    """The keys of the headers in the sealed segments of topic t, ascending by offset."""
    keys: list[bytes] = []
    state = cluster.connection.newest_state()
    partition = TopicPartition(state.topic_ids["t"], PartitionIndex(0))
    slices = state.slices.find(partition, OffsetRange(Offset(0), Offset(99)))
    store = cluster.connection.stores(state).get(StoreId("local"))
    for slice_ in slices:
        named = state.objects.get(slice_.object_number)
        assert named is not None
        assert named.kind is ObjectKind.SEGMENT
        body = store.get(data_key(named, "t"))
        for batch in pa.ipc.open_file(pa.py_buffer(body)).read_all().to_batches():
            keys += batch.column("headers").flatten().field("key").view(pa.binary()).to_pylist()
    return keys


def test_bytes_beside_those_of_a_slice_are_not_looked_at() -> None:
    headers = rows(BROKEN, [{"key": "ключ".encode(), "value": b"x"}], None, BROKEN).column("headers")
    whole = headers.slice(1, 2)
    readable = readable_headers(whole)
    readable.validate(full=True)
    assert readable.to_pylist() == [[{"key": "ключ", "value": b"x"}], None]
    assert readable.values.field("key").buffers()[2].address == whole.values.field("key").buffers()[2].address
    check_header_keys(rows(BROKEN, [{"key": "ключ".encode(), "value": b"x"}], BROKEN).slice(1, 1), "t")
    broken = readable_headers(headers.slice(2))
    broken.validate(full=True)
    assert broken.to_pylist() == [None, [{"key": "a\ufffd\ufffd", "value": b"x"}]]
    assert len(broken.values) == 1


def test_only_broken_keys_are_copied() -> None:
    for keys in ([b"plain"], ["ключ".encode()]):
        headers = rows([{"key": key, "value": b"x"} for key in keys]).column("headers")
        assert readable_headers(headers) is headers
