"""The cost of a day: numbers in, report and advice out."""

from __future__ import annotations

import math

import msgspec
import pytest

from sparklog.core.cost.cost_report import CostReport, cost_report, work_lines
from sparklog.core.cost.prices import Prices, prices_of
from sparklog.core.cost.request_costs import ENTRY, NONE, PART_BYTES, PLAN, READ_SLICE, Requests, stored
from sparklog.core.cost.usage import EntryWork, Usage, WrittenObjects, written
from sparklog.core.errors import InvalidOption
from sparklog.core.types import EntryNumber, Holder, NewObject, ObjectKind, StoreId, TopicId, UploadId

DAY_MS = 86_400_000
PRICES = Prices("here", "today", 0.005, 0.0004, 0.023, 0.02, 0.09)
QUIET = Usage(
    from_ms=0,
    to_ms=DAY_MS,
    work=EntryWork(),
    sampled=0,
    stored_bytes={},
    metadata_bytes=0,
    copies=0,
    agents=0,
    coordinator_in_force=False,
    snapshot_every=1_000,
    fetch_wait_ms=500,
    rolled=True,
)


def busy(**changed: object) -> Usage:
    return msgspec.structs.replace(QUIET, **changed)


def report_of(usage: Usage) -> CostReport:
    return cost_report(usage, "here", PRICES)


def an_object(size_bytes: int, *stores: str) -> NewObject:
    return NewObject(
        kind=ObjectKind.APPEND,
        n0=EntryNumber(0),
        upload_id=UploadId("0" * 32),
        topic_id=TopicId(1),
        size_bytes=size_bytes,
        crc32c=0,
        index_size_bytes=100,
        index_crc32c=0,
        holders=tuple(Holder(StoreId(store), 0) for store in stores),
    )


def test_an_idle_cluster_costs_its_storage() -> None:
    report = report_of(busy(stored_bytes={StoreId("a"): 10 << 30}, metadata_bytes=20 << 30))
    assert (report.lines, report.requests, report.advice) == ((), NONE, ())
    assert report.usd_per_month == pytest.approx(30 * 0.023)


def test_an_object_of_more_than_a_part_is_sent_in_parts() -> None:
    assert stored(PART_BYTES) == Requests(puts=2, gets=1)
    assert stored(PART_BYTES + 1) == Requests(puts=3, posts=2, gets=1)


def test_an_object_counts_on_each_of_its_stores_and_its_bytes_between_their_zones() -> None:
    zones = {StoreId("a"): "z1", StoreId("b"): "z1", StoreId("c"): "z2"}
    found = written([an_object(900, "a", "b", "c")], 4, zones)
    assert found == WrittenObjects(1, 4, 1_000, 3_000, 1_000, stored(900).times(3))


def test_appends_of_a_day_cost_what_as_many_single_appends_cost() -> None:
    work = EntryWork(entries=5_000, planned=5_000, appended=WrittenObjects(requests=stored(1).times(5_000)))
    assert report_of(busy(work=work)).requests_usd == pytest.approx(
        5_000 * PRICES.of_requests(PLAN + stored(1) + ENTRY), rel=0.01
    )


def test_what_a_coordinator_commits_needs_no_planning_and_what_is_rolled_is_read_once() -> None:
    work = EntryWork(entries=10, planned=0, appended=WrittenObjects(slices=30))
    lines = work_lines(busy(work=work))
    assert lines["entries of the chain"] == ENTRY.times(10)
    assert lines["roll and compaction"] == READ_SLICE.times(30)
    assert work_lines(busy(work=work, rolled=False))["roll and compaction"] == NONE


def test_copies_of_the_chain_and_reads_as_given_are_counted() -> None:
    lines = work_lines(busy(work=EntryWork(entries=2_000), copies=2), reads_per_day=7)
    assert lines["copies of the chain"] == Requests(puts=4_000, gets=8_000)
    assert lines["snapshots of the chain"].puts == 2 * 3 * 5
    assert lines["reads, as given"] == Requests(gets=28)


def test_agents_look_at_the_chain_unless_a_coordinator_tells_them() -> None:
    usage = busy(agents=3)
    assert work_lines(usage)["agents that look for entries"] == Requests(gets=3 * 2 * 172_800)
    (words,) = report_of(usage).advice
    assert words.startswith("3 agents look at the chain every 500 ms, for up to 0.41 USD a day: run a coordinator")
    assert report_of(busy(agents=3, coordinator_in_force=True)).advice == ()


def test_bytes_between_zones_and_out_have_their_prices() -> None:
    usage = busy(work=EntryWork(appended=WrittenObjects(between_zones_bytes=10 << 30)))
    report = cost_report(usage, "here", PRICES, gib_out_per_day=2)
    assert report.transfer_usd == pytest.approx(10 * 0.02 + 2 * 0.09)
    assert "zone of the leader's store" in report.advice[0]


def test_small_objects_are_advised_to_grow_and_large_ones_are_not() -> None:
    def day(object_bytes: int) -> EntryWork:
        many = written([an_object(object_bytes - 100, "a")], 1, {}).times(100_000)
        return EntryWork(entries=100, appended=many)

    (words,) = report_of(busy(work=day(10_000))).advice
    assert "objects of appends have 9.8 KiB on average" in words
    assert "would save 1.04 USD of requests a day" in words
    assert report_of(busy(work=day(2 << 20))).advice == ()


def test_slices_without_a_roll_small_segments_copies_and_many_entries_are_advised_on() -> None:
    slices = EntryWork(appended=WrittenObjects(slices=2_000))
    assert "roll never ran" in report_of(busy(work=slices, rolled=False)).advice[0]
    segments = EntryWork(rewritten=WrittenObjects(objects=2_000, object_bytes=2_000_000))
    assert "segments have 1,000 B on average: raise segment.bytes" in report_of(busy(work=segments)).advice[0]
    copied = report_of(busy(work=EntryWork(entries=2_000), copies=1)).advice
    assert copied[0].startswith("metadata.copies is 1, for 0.01 USD a day")
    entries = report_of(busy(work=EntryWork(entries=200_000, planned=200_000))).advice
    assert "puts the appends of many writers into one entry" in entries[0]


def test_a_cluster_younger_than_a_day_is_said_to_be() -> None:
    assert "only 2 hours were counted" in report_of(busy(from_ms=DAY_MS - 7_200_000)).advice[0]


def test_an_unknown_provider_and_a_wrong_table_are_named() -> None:
    table = msgspec.to_builtins(PRICES)
    assert prices_of("here", {"here": table}, "p.toml") == PRICES
    with pytest.raises(
        InvalidOption, match=r"one of aws-s3 \(the tables of p.toml\), found 'aws'; did you mean aws-s3"
    ):
        prices_of("aws", {"aws-s3": table}, "p.toml")
    with pytest.raises(InvalidOption, match=r"\[here\] is not a table of prices: .*out_gib"):
        prices_of("here", {"here": {**table, "out_gib": "much"}}, "p.toml")


@pytest.mark.parametrize("price", [-0.01, math.nan, math.inf])
def test_a_price_is_a_number_from_0_on(price: float) -> None:
    with pytest.raises(InvalidOption, match="writes_per_1000"):
        prices_of("here", {"here": {**msgspec.to_builtins(PRICES), "writes_per_1000": price}}, "p.toml")
