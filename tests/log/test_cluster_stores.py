"""Which store a reader asks first: the nearest, and never for long one that is dead (KIP-392)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future

import msgspec
import pyarrow as pa
import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.commands import AgentDown, AgentUp
from sparklog.core.errors import Damaged, InvalidInput, KeyNotFound, StoreAccessDenied, StoreUnavailable
from sparklog.core.reading.plan import SliceToRead
from sparklog.core.types import StoreId
from sparklog.host.recent_failures import FAILED_FOR_MS, RecentFailures
from sparklog.log.cluster_stores import StoreAddresses, Stores
from sparklog.log.read.first_holder import first_answer
from sparklog.log.read.scan import scan
from sparklog.storage.memory import MemoryStore
from sparklog.storage.object_store import ObjectStore
from tests.kit.hand_clock import HandClock
from tests.log.written_log import WrittenLog, empty_store, parts_of, write

ZONES = {StoreId("a"): "north", StoreId("b"): "south", StoreId("c"): "south"}


@pytest.fixture
def log() -> WrittenLog:
    return write(empty_store(), [pa.record_batch({"value": [b"v"] * 9})], 1)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def stores(clock: HandClock, zone: str = "", zones: dict[StoreId, str] = ZONES) -> Stores:
    urls = {each: f"memory://order-{each}" for each in ZONES}
    return Stores(StoreAddresses("memory://order", urls, zones=zones, zone=zone), RecentFailures(clock.monotonic_ms))


def held_by(log: WrittenLog, holders: str) -> SliceToRead:
    return msgspec.structs.replace(parts_of(log)[0], stores=tuple(StoreId(each) for each in holders))


def order(stores: Stores, log: WrittenLog, holders: str) -> str:
    return "".join(stores.holding(held_by(log, holders)))


def test_stores_of_the_readers_zone_come_first_and_otherwise_the_plans_order_counts(
    log: WrittenLog, clock: HandClock
) -> None:
    for zone, holders, asked in (
        ("", "acb", "acb"),
        ("south", "acb", "cba"),
        ("north", "bca", "abc"),
        ("elsewhere", "bca", "bca"),
        ("south", "ad", "a"),
    ):
        assert order(stores(clock, zone), log, holders) == asked


def test_the_zone_of_the_process_takes_precedence(
    log: WrittenLog, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKLOG_ZONE", "south")
    assert order(stores(clock, "north"), log, "abc") == "bca"
    monkeypatch.setenv("SPARKLOG_ZONE", "")
    assert order(stores(clock, "north"), log, "cba") == "acb"


def test_a_store_without_a_zone_is_near_nobody(log: WrittenLog, clock: HandClock) -> None:
    assert order(stores(clock, "", {StoreId("b"): ""}), log, "abc") == "abc"


@pytest.mark.parametrize("error", [StoreUnavailable, StoreAccessDenied, InvalidInput])
def test_a_store_that_failed_is_asked_last_for_a_while(
    log: WrittenLog, clock: HandClock, error: type[StoreUnavailable]
) -> None:
    asked = stores(clock, "north")
    asked.note_failure(StoreId("a"), error("not now"))
    assert order(asked, log, "abc") == "bca"
    clock.at_ms += FAILED_FOR_MS - 1
    assert order(asked, log, "abc") == "bca"
    clock.at_ms += 1
    assert order(asked, log, "abc") == "abc"


@pytest.mark.parametrize("error", [KeyNotFound, Damaged])
def test_an_object_that_is_missing_or_damaged_is_not_a_failure_of_its_store(
    log: WrittenLog, clock: HandClock, error: type[KeyNotFound]
) -> None:
    asked = stores(clock)
    asked.note_failure(StoreId("a"), error("not here"))
    assert order(asked, log, "abc") == "abc"


def test_a_dead_store_is_remembered_by_all_readers_of_a_process_until_it_may_be_back(
    log: WrittenLog, clock: HandClock
) -> None:
    calls: list[str] = []

    def ask(store: ObjectStore, key: str) -> str:
        calls.append(store.url[-1])
        if store.url.endswith("a"):
            raise StoreUnavailable("no answer")
        return store.url[-1]

    first = stores(clock)
    second = first.at(msgspec.structs.replace(first.addresses, zone="north"))
    for reader in (first, second):
        assert first_answer(reader, held_by(log, "ab"), "orders", parts_of(log)[0].slice.start, ask) == "b"
    assert calls == ["a", "b", "b"]


def test_a_store_that_cannot_be_opened_is_asked_last_too(log: WrittenLog, clock: HandClock) -> None:
    urls = {StoreId("a"): "nowhere://a", StoreId("b"): "memory://order-b"}
    asked = Stores(StoreAddresses("memory://order", urls), RecentFailures(clock.monotonic_ms))
    first_answer(asked, held_by(log, "ab"), "orders", parts_of(log)[0].slice.start, lambda store, key: store)
    assert order(asked, log, "ab") == "ba"


def test_stores_that_keep_their_address_stay_open(clock: HandClock) -> None:
    before = stores(clock)
    a, b = before.get(StoreId("a")), before.get(StoreId("b"))
    urls = {StoreId("a"): before.addresses.urls[StoreId("a")], StoreId("b"): "memory://elsewhere"}
    after = before.at(msgspec.structs.replace(before.addresses, urls=urls))
    assert after.get(StoreId("a")) is a
    assert after.get(StoreId("b")) is not b
    other_zone = before.at(msgspec.structs.replace(before.addresses, zone="north"))
    assert other_zone.get(StoreId("c")) is before.get(StoreId("c"))


# ---- scans of a cluster -------------------------------------------------------------------------------


@pytest.fixture(params=[0, 3], ids=["at once", "ahead"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Topic t: twenty slices on a (north, the leader), b and c (south)."""
    monkeypatch.setattr(MemoryStore, "read_ahead", request.param)
    root = uuid.uuid4().hex
    init_cluster(f"memory://{root}")
    with sparklog.connect(f"memory://{root}") as made:
        for name, zone in ZONES.items():
            made.add_store(name, f"memory://{root}-{name}", zone=zone)
        made.create_topic("t", assignment=[["a", "b", "c"]])
        for number in range(20):
            made.append("t", pa.table({"value": [str(number)]}))
        yield made


class Hanging(Future[object]):
    """Never done."""

    def result(self, timeout: float | None = None) -> object:
        raise AssertionError("the reader would wait for ever")


class Reads:
    """Which stores were read from, by the last letter of their address; `dead` ones do not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, dead: str = "") -> None:
        self.of: list[str] = []
        get_ranges = MemoryStore.get_ranges

        def noted(store: MemoryStore, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
            self.of.append(store.url[-1])
            if store.url[-1] in dead:
                raise StoreUnavailable("no answer")
            return get_ranges(store, key, ranges)

        monkeypatch.setattr(MemoryStore, "get_ranges", noted)


def read_all(cluster: Cluster) -> None:
    cluster.connection._stores = None  # as in a process that begins in its zone
    found = cluster.read("t", partition=0)
    assert found["value"].to_pylist() == [str(number).encode() for number in range(20)]


@pytest.mark.parametrize(("zone", "asked"), [("", "a"), ("north", "a"), ("south", "b"), ("elsewhere", "a")])
def test_records_come_from_the_readers_zone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, zone: str, asked: str
) -> None:
    monkeypatch.setenv("SPARKLOG_ZONE", zone)
    reads = Reads(monkeypatch)
    read_all(cluster)
    assert set(reads.of) == {asked}


def test_a_store_whose_agent_is_silent_is_near_nobody(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKLOG_ZONE", "south")
    reads = Reads(monkeypatch)
    state = cluster.connection.newest_state()
    registration = state.stores[StoreId("b")].registration
    cluster.submit(AgentDown(StoreId("b"), registration))
    read_all(cluster)
    assert set(reads.of) == {"c"}
    cluster.submit(AgentUp(StoreId("b"), registration))
    reads.of.clear()
    read_all(cluster)
    assert set(reads.of) == {"b"}


def test_a_dead_nearest_store_costs_a_scan_the_reads_that_were_under_way_and_no_more(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKLOG_ZONE", "south")
    reads = Reads(monkeypatch, dead="b")
    read_all(cluster)
    under_way = 1 if MemoryStore.read_ahead == 0 else 8
    assert reads.of.count("b") <= under_way
    reads.of.clear()
    read_all(cluster)
    assert set(reads.of) == {"c"}


def test_a_slice_whose_first_reads_hang_is_not_waited_for_once_its_store_has_failed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that hangs, as `read_ahead` sees it: fetches that never end."""
    monkeypatch.setattr("sparklog.log.read.slices_ahead.in_background", lambda fetch: Hanging())
    state = cluster.connection.newest_state()
    stores = cluster.connection.stores(state)
    plan = cluster._plan(state, "t", 0, None, None)
    stores = stores.at(msgspec.structs.replace(stores.addresses, zone="north"))
    stores.note_failure(StoreId("a"), StoreUnavailable("no answer"))
    monkeypatch.setattr(Stores, "holding", lambda stores, part: list(part.stores))  # the fetches go to a
    found = scan(plan, stores, ["value"], cluster.connection.replan)
    assert sum(batch.num_rows for batch in found) == 20
