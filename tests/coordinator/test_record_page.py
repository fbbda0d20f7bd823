"""The page of a topic's records: each record once, whoever may read it, within bounds, and no script."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import re
import shutil
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sparklog
from sparklog.chain.head import Head
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.coordinator.page.records import record_reading, record_routes
from sparklog.coordinator.page.records.record_batches import matching
from sparklog.coordinator.page.records.record_query import MOST_COUNT, MOST_PARTITIONS
from sparklog.coordinator.page.records.record_reading import LIMITS
from sparklog.coordinator.page.rendering import HEADERS
from sparklog.core.access import Access, Principal, parse_right
from sparklog.core.state import ClusterState
from sparklog.core.types import Offset, OffsetRange, PartitionIndex, TopicPartition
from sparklog.log.batch import BatchEncoder, EncodedBatch, crc32c
from sparklog.log.stored_schema import HEADERS as HEADERS_TYPE
from sparklog.log.stored_schema import STORED_HEADERS
from sparklog.wire.record_messages import MOST_HEADERS
from tests.client.mirrored_topic import MirroredTopic, Record
from tests.coordinator.asgi import request
from tests.coordinator.shown_records import Asked, Place, Records, rows, searched
from tests.kit.log import new_cluster
from tests.maintenance.compacted_log import COMPACTED, ROLLED
from tests.maintenance.keyed_log import KeyedLog
from tests.maintenance.maintained_log import MaintainedLog

HOSTILE = """'"><script>alert(1)<b><img src=x onerror=alert(2)>&{{ 7 * 7 }}"""
SIZES = (37, 0, 5)  # records of the partitions of orders


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with new_cluster() as made:
        made.create_topic("orders", partitions=len(SIZES))
        for partition, size in enumerate(SIZES):
            for at in range(0, size, 10):
                keys = [f"k{n % 4}" for n in range(at, min(size, at + 10))]
                made.append(
                    "orders", rows([f"{partition}:{n}" for n in range(at, at + len(keys))], partition, key=keys)
                )
        yield made


def all_places(*sizes: int) -> set[Place]:
    return {(partition, offset) for partition, size in enumerate(sizes) for offset in range(size)}


def places(pages: Iterator[Records]) -> list[Place]:
    return [place for page in pages for place in page.places]


# ---- paging -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("count", [1, 3, 7, 500])
@pytest.mark.parametrize("partition", ["", 0, 1])
def test_the_links_lead_through_each_record_once_and_back_again(
    cluster: Cluster, order: str, count: int, partition: int | str
) -> None:
    asked = Asked(cluster)
    wanted = {place for place in all_places(*SIZES) if partition in ("", place[0])}
    pages = list(asked.walk(order=order, count=count, partition=partition))
    shown = places(iter(pages))
    assert sorted(shown) == sorted(wanted)
    assert all(len(page.places) == count for page in pages[:-1])
    of_first = [offset for at, offset in shown if at == 0]
    assert of_first == sorted(of_first, reverse=order == "newest")
    back = []
    page = pages[-1]
    while "prev" in page.links:
        page = asked.page(page.links["prev"])
        back.append(page.places)
    assert sorted(place for each in [pages[-1].places, *back] for place in each) == sorted(wanted)
    assert sorted(page.links) in ([], ["next"])


def test_a_page_begins_at_an_offset_or_a_time(cluster: Cluster) -> None:
    asked = Asked(cluster)
    assert asked.page(partition=0, offset=20, order="oldest", count=3).places == [(0, 20), (0, 21), (0, 22)]
    assert asked.page(partition=0, offset=20, count=3).places == [(0, 20), (0, 19), (0, 18)]
    times = cluster.read("orders", partition=0, columns=["timestamp"])["timestamp"].cast(pa.int64()).to_pylist()
    at_ms = times[20] // 1000 + 1
    first = next((offset for offset, time in enumerate(times) if time >= at_ms * 1000), len(times))
    assert asked.page(partition=0, time=at_ms, order="oldest", count=1).places == [(0, first)][: first < len(times)]
    assert asked.page(partition=0, time=at_ms, count=1).places == [(0, first - 1)]
    assert asked.page(time="2020-01-01T00:00:00Z", order="oldest", count=500).places[:1] == [(0, 0)]
    assert asked.page(time="2990-01-01T00:00:00+02:00", order="oldest").places == []


def test_what_retention_deleted_and_what_is_not_there_yet_is_said(cluster: Cluster) -> None:
    cluster.delete_records("orders", {0: 30})
    asked = Asked(cluster)
    page = asked.page(partition=0, offset=3, order="oldest", count=2)
    assert page.places == [(0, 30), (0, 31)]
    assert "partition 0 begins at offset 30: earlier records are deleted" in page.text
    assert "partition 0 can be read up to 37 so far" in asked.page(partition=0, offset=900).text
    assert sorted(places(asked.walk(count=4))) == sorted(place for place in all_places(*SIZES) if place >= (0, 30))


def test_pages_of_a_compacted_topic_are_full(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = record_reading.scan

    def with_gaps(*given: object, **named: object) -> Iterator[pa.RecordBatch]:
        for batch in scan(*given, **named):  # type: ignore[arg-type]
            left = batch.filter(pc.equal(pc.bit_wise_and(batch.column("offset"), 7), 0))
            if left.num_rows:
                yield left

    monkeypatch.setattr(record_reading, "scan", with_gaps)
    asked = Asked(cluster)
    wanted = [0, 8, 16, 24, 32]
    for order, expected in (("oldest", wanted), ("newest", wanted[::-1])):
        pages = list(asked.walk(partition=0, order=order, count=2))
        assert [len(page.places) for page in pages][:2] == [2, 2]
        assert [offset for _, offset in places(iter(pages))] == expected


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("size_bytes", [64 << 20, 1 << 20])
def test_pages_pass_the_gaps_of_a_mirrored_topic(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, order: str, size_bytes: int
) -> None:
    """Also if a piece that reaches over a gap has more records than a page reads."""
    topic = MirroredTopic(cluster, name="m").create()
    large = "v" * 300_000
    topic.write({10**12 + at: Record("k", large, 1) for at in (0, 1, 5 * 10**8)}, end=10**13)
    topic.promote({0: 10**15})
    topic.append_after(["a", "b"])
    monkeypatch.setattr(record_routes, "LIMITS", replace(LIMITS, size_bytes=size_bytes))
    ticks = itertools.count()  # a page would stop after 5,000 looks at the clock
    monkeypatch.setattr(record_routes.SystemClock, "monotonic_ms", lambda clock: next(ticks))
    found = next(Asked(cluster).walk("m", order=order)).places
    assert found == sorted([(0, offset) for offset in topic.model[0]], reverse=order == "newest")
    assert next(ticks) < 300


def test_pages_of_a_log_that_was_compacted_are_what_a_reader_finds(cluster: Cluster) -> None:
    log = KeyedLog(MaintainedLog(cluster)).create()
    for text in (*COMPACTED, ROLLED):
        log.segment(text)
    log.compact()
    log.put("d2 A2 C1")
    wanted = [(0, offset) for offset, _, _ in log.read()]
    assert len(wanted) < wanted[-1][1], "there are gaps"
    asked = Asked(cluster)
    for count in (1, 4, 100):
        assert places(asked.walk(topic="t", order="oldest", count=count)) == wanted
        assert places(asked.walk(topic="t", count=count)) == wanted[::-1]


def test_a_topic_with_many_partitions_is_read_in_part(cluster: Cluster) -> None:
    cluster.create_topic("wide", partitions=MOST_PARTITIONS + 3)
    numbers = pa.array(range(MOST_PARTITIONS + 3), pa.int32())
    cluster.append("wide", pa.table({"value": ["x"] * len(numbers), "partition": numbers}))
    asked = Asked(cluster)
    page = asked.page("/topics/wide/messages", count=500)
    assert len(page.places) == MOST_PARTITIONS
    assert "103 partitions have records; these are of the first 100: choose a partition" in page.text
    assert asked.page("/topics/wide/messages", partition=102).places == [(102, 0)]


# ---- what is shown ------------------------------------------------------------------------------------


def test_values_are_json_text_or_bytes_and_hostile_ones_are_text(cluster: Cluster) -> None:
    cluster.create_topic("shapes")
    values = [b'{"a":[1,2]}', "größe\nzwei".encode(), b"\x00\xff\x10", None, b"", HOSTILE.encode(), b'{"a":', b"[1]"]
    headers = [[{"key": HOSTILE, "value": HOSTILE.encode()}], *[None] * 7]
    field = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {"value": pa.array(values, pa.binary()), "key": [HOSTILE] * 8, "headers": pa.array(headers, field)}
    )
    cluster.append("shapes", table)
    asked = Asked(cluster)
    page = asked.page("/topics/shapes/messages", order="oldest")
    assert len(page.places) == 8
    assert '{ "a": [ 1, 2 ] }' in page.text
    assert "größe zwei" in page.text
    assert "00 ff 10" in page.text
    assert "null" in page.words
    assert "empty" in page.words
    assert page.text.count("alert(1)") >= 10
    assert [found.get("src", "") for tag, found in page.tags if tag == "script"][1:] == []
    assert not [tag for tag, _ in page.tags if tag == "img"]
    hexadecimal = asked.page("/topics/shapes/messages", **{"as": "hex", "order": "oldest", "count": 1})
    assert "00000000 7b 22 61 22 3a 5b 31 2c 32 5d 7d" in hexadecimal.text
    assert "{ ..." not in hexadecimal.text
    assert "alert" in asked.page("/topics/shapes/messages", **{"as": "text"}).text


def test_long_values_are_cut_on_the_page_and_whole_in_the_download(cluster: Cluster) -> None:
    cluster.create_topic("long")
    cluster.append("long", pa.table({"value": ["x" * 900_000] * 3}))
    asked = Asked(cluster)
    answer = asked.answer("/topics/long/messages")
    assert len(answer.body) < 100_000
    assert "more are in the download" in Records(answer).text
    lines = asked.answer("/topics/long/messages", format="jsonl", order="oldest")
    assert [len(json.loads(line)["value"]) for line in lines.body.splitlines()] == [900_000] * 3
    assert lines.headers["content-disposition"] == "attachment; filename*=UTF-8''long.jsonl"
    assert {**lines.headers, **HEADERS} == lines.headers


def test_the_download_has_the_records_of_the_page(cluster: Cluster) -> None:
    asked = Asked(cluster)
    query = {"find": "0:1", "count": 5}
    lines = asked.answer("/topics/orders/messages", format="jsonl", **query).body.splitlines()
    found = [json.loads(line) for line in lines]
    assert [(each["partition"], each["offset"]) for each in found] == asked.page(**query).places
    newest = {"topic": "orders", "partition": 0, "offset": 19, "key": "k3", "value": "0:19", "headers": []}
    assert {name: found[0][name] for name in newest} == newest
    assert asked.answer("/topics/orders/messages", format="jsonl", partition=1).body == b""
    assert asked.answer("/topics/orders/messages", format="jsonl", partition="x").status == 400


@pytest.mark.parametrize("query", [{"count": 4}, {"order": "oldest"}, {"find": "0:", "count": 3}, {"live": 1}])
def test_the_link_of_the_download_is_of_the_records_that_are_shown(cluster: Cluster, query: dict[str, str]) -> None:
    asked = Asked(cluster)
    page = asked.page(**query)
    (link,) = [found["href"] or "" for tag, found in page.tags if tag == "a" and "download" in found]
    cluster.append("orders", rows(["0:new"], 0))
    cluster.connection.follower.catch_up()
    found = [json.loads(line) for line in asked.answer(link).body.splitlines()]
    assert [(each["partition"], each["offset"]) for each in found][: len(page.places)] == page.places
    assert len(found) == len(page.places) or query == {"order": "oldest"}


def test_sentences_of_many_partitions_are_few(cluster: Cluster) -> None:
    cluster.create_topic("wide", partitions=40)
    cluster.append("wide", pa.table({"value": ["x"] * 40, "partition": pa.array(range(40), pa.int32())}))
    page = Asked(cluster).page("/topics/wide/messages", offset=9, order="oldest")
    assert page.text.count("can be read up to 1 so far") == 8
    assert "and 32 more sentences like these" in page.text


def test_only_the_live_tail_is_read_again(cluster: Cluster) -> None:
    asked = Asked(cluster)
    live = asked.page(live=1, order="oldest", offset=3, count=4)
    assert next(place for place in live.places if place[0] == 0) == (0, 36)
    assert not live.links
    (main,) = [found for tag, found in live.tags if tag == "main"]
    assert "data-refresh" in main
    (main,) = [found for tag, found in asked.page().tags if tag == "main"]
    assert "data-refresh" not in main


# ---- search -------------------------------------------------------------------------------------------


def test_a_search_finds_parts_of_values_and_whole_keys(cluster: Cluster) -> None:
    asked = Asked(cluster)
    assert asked.page(find="0:3", order="oldest").places == [(0, 3), *((0, at) for at in range(30, 37))]
    assert asked.page(key="k1", partition=0, order="oldest").places == [(0, at) for at in range(1, 37, 4)]
    assert asked.page(key="k", partition=0).places == []
    assert asked.page(find="0:3", key="k2", order="oldest").places == [(0, 30), (0, 34)]
    assert "No record matches here." in asked.page(find="nothing has this").text
    assert sorted(places(asked.walk(find=":", count=4))) == sorted(all_places(*SIZES))


def test_records_without_a_key_with_an_empty_and_with_a_binary_one_are_found(cluster: Cluster) -> None:
    cluster.create_topic("keys", partitions=1)
    keys = [None, b"", b"\xff\x00", b"ff00", b"k"]
    table = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array([b"v"] * len(keys), pa.binary())})
    cluster.append("keys", table)
    asked = Asked(cluster)
    for offset, query in enumerate(
        ({"keyed": "null"}, {"keyed": "empty"}, {"key": "ff00", "keyed": "hex"}, {"key": "ff00"}, {"key": "k"})
    ):
        assert asked.page("/topics/keys/messages", **query).places == [(0, offset)], query
    assert "keyed=null" in asked.page("/topics/keys/messages", keyed="null", count=1, order="oldest").links.get(
        "next", "keyed=null"
    )
    assert Asked(cluster, masks=["keys:#key"]).page("/topics/keys/messages", keyed="null").places == []


def test_the_size_is_that_of_the_records_that_were_read(cluster: Cluster) -> None:
    header = {"key": "h", "value": b"x" * 7000}
    table = pa.table(
        {
            "value": pa.array([b"v" * 900] * 128, pa.binary()),
            "headers": pa.array([[header]] * 128, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        }
    )
    cluster.create_topic("big", partitions=1)
    cluster.append("big", table)
    asked = Asked(cluster)
    for query in ({"count": 19}, {"count": 19, "order": "oldest", "offset": 3}):
        assert "read 19 records, 146.6 KiB" in asked.page("/topics/big/messages", **query).text


def test_the_command_prints_the_records_of_the_page_and_no_others(cluster: Cluster) -> None:
    cluster.delete_records("orders", {0: 5})
    asked = Asked(cluster)

    def commands(**query: object) -> list[str]:
        return re.findall(r"sparklog consume orders[^;]*?--format json", asked.page(**query).text)

    one = "sparklog consume orders --partition {} --offset {} --num {} --format json"
    assert commands(partition=0, count=3) == [one.format(0, 34, 3)]
    assert commands(count=500) == [one.format(0, 5, 32), one.format(2, 0, 5)]
    assert commands(count=6, order="oldest") == [one.format(0, 5, 3), one.format(2, 0, 3)]
    for search in ({"find": "0:7"}, {"key": "k1"}, {"partition": 0, "keyed": "null"}):
        assert "sparklog consume" not in asked.page(**search).text


def test_a_search_stops_at_its_bound_and_goes_on(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_routes, "LIMITS", replace(LIMITS, records=10))
    monkeypatch.setattr(record_reading, "_PIECE_RECORDS", 10)
    asked = Asked(cluster)
    pages = list(asked.walk(find="0:7", partition=0))
    assert pages[0].places == []
    assert "searched 10 records" in pages[0].text
    assert "from offset 27 to 36 of partition 0; 10 records is the limit for one page" in pages[0].text
    assert "Continue: older records" in pages[0].text
    assert places(iter(pages)) == [(0, 7)]
    assert sum(map(searched, pages)) == 37
    assert "10 records is the most" not in pages[-1].text


@pytest.mark.parametrize("order", ["oldest", "newest"])
def test_a_page_of_a_search_that_ends_in_a_batch_counts_its_own_records(cluster: Cluster, order: str) -> None:
    """The rest of the batch was read, too, but is not between the offsets that the page names."""
    page = Asked(cluster).page(find="0:", partition=0, count=5, order=order)
    assert len(page.places) == 5
    assert "searched 5 records" in page.text
    assert "--num 5 " in page.text


@pytest.mark.parametrize("bound", [{"size_bytes": 1}, {"time_ms": 0}, {"shown_bytes": 1}])
def test_each_bound_ends_a_page(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, bound: dict[str, int]) -> None:
    monkeypatch.setattr(record_routes, "LIMITS", replace(LIMITS, **bound))
    page = Asked(cluster).page(partition=0)
    assert len(page.places) <= 1 or "size_bytes" in bound
    assert "is the limit for one page" in page.text or "size_bytes" in bound
    assert "next" in page.links or "size_bytes" in bound


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_a_record_that_is_too_large_for_a_page_is_not_decompressed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    """It is legal: other readers read it. The store has not failed, so it serves the other partitions."""
    cluster.append("orders", rows(["v" * 500_000], 1))
    assert cluster.read("orders", partition=1)["value"].to_pylist() == [b"v" * 500_000]
    monkeypatch.setattr(record_routes, "LIMITS", replace(LIMITS, size_bytes=400_000))
    page = Asked(cluster).page(order=order)
    assert page.status == 200
    assert "partition 1 can't be read further: RECORD_TOO_LARGE: offsets [0, 1): record batch at byte" in page.text
    assert "wanted at most 400,000 bytes (390.6 KiB) before compression" in page.text
    assert {place for place in page.places if place[0] != 1} == {place for place in all_places(*SIZES) if place[0] != 1}
    assert [place for place in page.places if place[0] == 1] == []
    monkeypatch.setattr(record_routes, "LIMITS", LIMITS)
    assert Asked(cluster).page(order=order, partition=1).places == [(1, 0)]


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("bound", [{"size_bytes": 400_000}, {"time_ms": 3}])
def test_a_piece_of_large_records_ends_at_the_bounds_of_a_page_and_the_links_go_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, order: str, bound: dict[str, int]
) -> None:
    cluster.create_topic("zeros", partitions=1)
    for _ in range(20):
        cluster.append("zeros", rows(["0" * 100_000], 0))
    monkeypatch.setattr(record_routes, "LIMITS", replace(LIMITS, **bound))
    asked = Asked(cluster)
    ticks = itertools.count()
    decoded: list[int] = []
    monkeypatch.setattr(record_routes.SystemClock, "monotonic_ms", lambda clock: next(ticks))
    monkeypatch.setattr(record_reading, "matching", lambda batch, *given: decoded.append(1) or matching(batch, *given))
    pages = []
    for page in asked.walk("zeros", order=order, find="nowhere"):
        pages.append(page)
        assert len(decoded) <= 8
        decoded.clear()
    assert sum(map(searched, pages)) == 20
    assert len(pages) > 3


def test_the_records_after_one_that_is_too_large_are_shown(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("a", "v" * 500_000, "b", "c", "d"):
        cluster.append("orders", rows([value], 1))
    monkeypatch.setattr(record_routes, "LIMITS", replace(LIMITS, size_bytes=400_000))
    page = Asked(cluster).page(partition=1)
    assert page.places == [(1, 4), (1, 3), (1, 2)]
    assert "partition 1 can't be read further: RECORD_TOO_LARGE: offsets [1, 2)" in page.text


def test_downloads_that_are_not_read_yet_are_bounded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.append("orders", rows(["v" * 500_000], 1))
    monkeypatch.setattr(record_routes, "MOST_REPLIES", 400_000)
    asked = Asked(cluster)
    assert asked.answer("/topics/orders/messages", partition=0, format="jsonl").status == 200
    answer = asked.answer("/topics/orders/messages", partition=1, format="jsonl")
    assert (answer.status, b"COORDINATOR_NOT_AVAILABLE: replies of" in answer.body) == (503, True)


@pytest.mark.parametrize(("order", "shown"), [("oldest", [(1, 0)]), ("newest", [(1, 2)])])
def test_a_record_with_very_many_headers_is_a_sentence_and_not_converted(
    cluster: Cluster, order: str, shown: list[Place]
) -> None:
    headers = pa.array([None, [{"key": "", "value": b""}] * (MOST_HEADERS + 1), None], HEADERS_TYPE)
    cluster.append("orders", rows(["a", "b", "c"], 1).append_column("headers", headers))
    asked = Asked(cluster)
    page = asked.page(partition=1, order=order)
    assert (page.status, page.places) == (200, shown)
    assert "RECORD_TOO_LARGE: orders-1: the record at offset 1 has 10,001 headers" in page.text
    assert asked.page(partition=1, order="oldest", offset=2).places == [(1, 2)]


def test_headers_count_for_a_page_even_if_they_are_empty(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = pa.array([[{"key": "", "value": b""}] * 1_000] * 20, HEADERS_TYPE)
    cluster.append("orders", rows(["x"] * 20, 1).append_column("headers", headers))
    monkeypatch.setattr(record_routes, "LIMITS", replace(LIMITS, shown_bytes=1_000_000))
    asked = Asked(cluster)
    pages = list(asked.walk("orders", partition=1, order="oldest", count=20))
    assert places(iter(pages)) == [(1, offset) for offset in range(20)]
    assert {len(page.places) for page in pages} == {5}


# ---- who may ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rights", "status"),
    [
        (["describe:*"], 403),
        (["describe:*", "read:payments"], 403),
        (["describe:*", "write:orders"], 403),
        (["read:orders"], 403),  # pages show the cluster
        (["describe:*", "read:orders"], 200),
        (["describe:*", "read:ord*"], 200),
        (["read:*"], 200),
    ],
)
def test_records_are_for_those_who_may_read_the_topic(
    cluster: Cluster, rights: list[str], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "sparklog.audit")
    anna = Principal("anna", tuple(map(parse_right, rights)))
    asked = Asked(cluster, access=Access(((anna, (hashlib.sha256(b"token").hexdigest(),)),)))
    headers = {"authorization": "Bearer token"}
    for query in ({}, {"format": "jsonl"}, {"partition": "bad"}):
        answer = asked.answer("/topics/orders/messages", headers, **query)
        assert answer.status == (400 if status == 200 and "partition" in query else status)
        shown = re.search(rb"(&#34;|[\">])0:36(&#34;|[\"<])", answer.body)  # not a part of a time
        assert (shown is not None) is (status == 200 and "partition" not in query)
    refused = [json.loads(each.getMessage()) for each in caplog.records]
    assert len(refused) == (3 if status == 403 else 0)
    if status == 403:
        assert {each["request"] for each in refused} == {"GET /topics/orders/messages"}
        assert b"anna has no right to" in answer.body


def test_an_unknown_topic_is_not_found(cluster: Cluster) -> None:
    page = Asked(cluster).page("/topics/nothing/messages")
    assert (page.status, "wanted topic" in page.text) == (404, True)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"partition": "x"}, "partition: wanted a number from 0 to 2147483647, found 'x'"),
        ({"partition": "9"}, "wanted partition 9 of topic orders, it has partitions 0 to 2"),
        ({"offset": "-1"}, "offset: wanted a number"),
        ({"offset": "9" * 30}, "offset: wanted a number"),
        ({"offset": "\u0661"}, "offset: wanted a number"),
        ({"offset": "1", "time": "5"}, "wanted at most one of them"),
        ({"time": "yesterday"}, "time: wanted"),
        ({"time": "2026-01-01T00:00:00"}, "wanted a time with its zone"),
        ({"time": "1960-01-01T00:00:00Z"}, "wanted a time since 1970"),
        ({"count": "0"}, "count: wanted a number from 1 to 500"),
        ({"count": str(MOST_COUNT + 1)}, "count: wanted a number"),
        ({"order": "random"}, "order: wanted newest, oldest"),
        ({"as": "xml"}, "as: wanted auto, text, json, hex"),
        ({"find": "x" * 501}, "find: wanted at most 500 characters"),
        ({"key": "x" * 501}, "key: wanted at most 500 characters"),
        ({"time": "-1"}, "time: wanted a timestamp >= 0"),
        ({"key": "0x1", "keyed": "hex"}, "key: wanted bytes in hexadecimal like 00ff, found '0x1'"),
        ({"key": "a", "keyed": "null"}, "key: wanted none beside keyed=null, found 'a'"),
        ({"keyed": "all"}, "keyed: wanted text, hex, empty, null"),
        ({"at": "0"}, "at: wanted partitions with offsets"),
        ({"at": "0-1,0-2"}, "at: wanted each of at most"),
        ({"at": ",".join(f"{n}-1" for n in range(MOST_PARTITIONS + 1))}, "at: wanted"),
        ({"at": "0-1", "partition": "1"}, "at: wanted an offset of partition 1"),
        ({"at": "7-1"}, "wanted partition 7"),
    ],
)
def test_bad_input_is_a_sentence(cluster: Cluster, query: dict[str, str], sentence: str) -> None:
    page = Asked(cluster).page(**query)
    assert (page.status in (400, 404), page.places) == (True, [])
    assert sentence in page.text


# ---- masks --------------------------------------------------------------------------------------------


def test_masked_parts_are_on_no_page_in_no_download_and_no_search(cluster: Cluster) -> None:
    cluster.create_topic("pay-1")
    values = ['{"card":{"number":"4111"},"lines":[{"price":12},{"price":13}],"ok":1}', "4111 as text", '"4111"', "[]"]
    cluster.append("pay-1", pa.table({"value": values, "key": ["secret", "b", "c", "d"]}))
    asked = Asked(cluster, masks=["pay-*:card.number", "pay-1:lines.price", "pay-*:#key", "orders"])
    path = "/topics/pay-1/messages"
    for query in ({}, {"as": "text"}, {"as": "hex"}, {"format": "jsonl"}):
        body = asked.answer(path, **query).body.decode()
        for hidden in ("4111", "secret", "34 31 31 31", "34313131", "12}", '12\\"'):
            assert hidden not in body, (query, hidden)
    page = asked.page(path)
    assert '"number": "••••"' in page.text
    assert '"price": "••••"' in page.text
    assert '"ok": 1' in page.text
    assert "the field card.number of values" in page.text
    for query in ({"find": "4111"}, {"find": "ok"}, {"key": "secret"}, {"find": "secret"}, {"find": "b", "key": "b"}):
        page = asked.page(path, **query)
        assert page.places == [], query
        assert "a search does not look into" in page.text
    whole = asked.page(order="oldest", count=1)
    assert "••••" in whole.text
    assert "0:0" not in whole.text
    assert asked.page(key="k1", count=1).places, "keys are not masked there"


# ---- what goes wrong ----------------------------------------------------------------------------------


def changed(asked: Asked, partition: int, **changes: object) -> ClusterState:
    """Let the coordinator see another state of a partition of orders."""
    follower = asked.service.follower
    state = follower.state.fork()
    state.n += 1
    key = TopicPartition(state.topic_ids["orders"], PartitionIndex(partition))
    known = state.partitions[key]
    replication = msgspec.structs.replace(known.replication, **changes)
    state.partitions[key] = msgspec.structs.replace(known, replication=replication)
    follower.publish(Head(state, follower.head.entry_hash))
    return state


def test_lost_records_are_a_note_and_the_others_are_shown(cluster: Cluster) -> None:
    asked = Asked(cluster)
    changed(asked, 0, lost=(OffsetRange(Offset(4), Offset(9)),))
    page = asked.page(partition=0, order="oldest", count=500)
    assert len(page.places) == 37
    assert "partition 0: records [4, 9) were lost in an unclean election or given up as damaged" in page.text
    assert "were lost" not in asked.page(partition=0, count=5).text


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_an_object_that_is_gone_is_a_sentence_and_the_links_end(tmp_path: Path, order: str) -> None:
    init_cluster(str(tmp_path / "log"), stores={"a": "../a"})
    with sparklog.connect(str(tmp_path / "log")) as cluster:
        cluster.create_topic("orders", partitions=2)
        cluster.append("orders", rows(["kept"], 0))
        data = set((tmp_path / "a").rglob("*.arrow"))
        cluster.append("orders", rows(["gone"], 1))
        for path in set((tmp_path / "a").rglob("*.arrow")) - data:
            path.unlink()
        asked = Asked(cluster)
        page = asked.page(order=order)
        assert (page.status, page.places) == (200, [(0, 0)])
        assert "partition 1 can't be read further: DATA_LOSS" in page.text
        assert "next" not in page.links
        shutil.rmtree(tmp_path / "a")
        page = asked.page(order=order, find="kept")
        assert (page.status, page.places) == (200, [])


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_a_record_with_hostile_offsets_shows_no_memory_and_the_others_are_shown(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    encode = BatchEncoder.encode

    def spoilt(encoder: BatchEncoder, partition: PartitionIndex, batch: pa.RecordBatch) -> EncodedBatch:
        made = encode(encoder, partition, batch)
        message = bytearray(made.message)
        at = message.index(struct.pack("<3i", 0, 7, 14))  # the offsets of two values
        struct.pack_into("<3i", message, at, 0, 3000, 14)
        body = pa.py_buffer(bytes(message))
        return replace(made, message=body, crc32c=crc32c(body))

    with monkeypatch.context() as hostile:
        hostile.setattr(BatchEncoder, "encode", spoilt)
        cluster.append("orders", rows(["hostile", "hostile"], 1))
    page = Asked(cluster).page(order=order)
    assert page.status == 200
    assert "partition 1 can't be read further: CORRUPT_MESSAGE: " in page.text
    assert "offsets [0, 2)" in page.text
    assert {place for place in page.places if place[0] != 1} == {place for place in all_places(*SIZES) if place[0] != 1}
    assert [place for place in page.places if place[0] == 1] == []


def test_a_header_key_that_is_not_utf_8_is_shown_as_text(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = pa.array([[{"key": b"a\xff", "value": b"x"}], None], STORED_HEADERS).view(HEADERS_TYPE)
    with monkeypatch.context() as unchecked:
        unchecked.setattr("sparklog.client.plans.task_upload.check_header_keys", lambda rows, topic: None)
        cluster.append("orders", rows(["first", "second"], 1).append_column("headers", headers))
    asked = Asked(cluster)
    page = asked.page(partition=1)
    assert (page.status, page.places) == (200, [(1, 1), (1, 0)])
    assert "a\ufffd" in page.text
    lines = asked.answer("/topics/orders/messages", partition=1, format="jsonl").body.splitlines()
    assert json.loads(lines[-1])["headers"] == [{"key": "a\ufffd", "value": "x"}]


def test_a_read_that_is_refused_is_a_page_with_a_sentence(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_routes, "READS", 0)
    page = Asked(cluster).page()
    assert (page.status, page.places) == (503, [])
    assert "try again in some seconds" in page.text


def test_other_pages_are_answered_while_a_store_holds_up_a_read(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = threading.Event()
    monkeypatch.setattr(record_routes, "find_records", lambda *_: hold.wait(60))
    asked = Asked(cluster)

    async def work() -> None:
        waiting = asyncio.create_task(request(asked.app, "GET", "/topics/orders/messages"))
        await asyncio.sleep(0)
        for path in ("/", "/healthz", "/topics/orders"):
            assert (await request(asked.app, "GET", path)).status == 200
        assert not waiting.done()
        waiting.cancel()
        hold.set()

    asyncio.run(work())
