"""While one partition is read, the first reads of the next ones are under way, if their store answers slowly."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from sparklog.client.cluster import Cluster
from sparklog.client.consumer import fetches
from sparklog.client.consumer.consumer import Consumer
from sparklog.core.errors import StoreUnavailable
from sparklog.log.read import slices_ahead
from sparklog.storage.memory import MemoryStore
from tests.client.orders import P0, P1, P2, RECORDS, cluster
from tests.kit.log import fill

__all__ = ["cluster"]

READ_AHEAD = 3


@pytest.fixture(autouse=True)
def slow_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryStore, "read_ahead", READ_AHEAD)


def reader(cluster: Cluster, **options: object) -> Consumer:
    return cluster.consumer("orders", **{"auto_offset_reset": "earliest", **options})  # type: ignore[arg-type]


def rows(consumer: Consumer, most: int | None = None) -> list[str]:
    return [value.decode() for value in consumer.poll_table(max_records=most)["value"].to_pylist()]


def wanted(*ranges: tuple[int, int, int]) -> list[str]:
    """The values of (partition, start, end)."""
    return [f"{partition}-{at}" for partition, start, end in ranges for at in range(start, end)]


def reads(monkeypatch: pytest.MonkeyPatch, before: Callable[[str], object]) -> None:
    """Call this before each read of an object, with the name of the thread."""
    read = MemoryStore.get_ranges

    def noted(store: MemoryStore, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        before(threading.current_thread().name)
        return read(store, key, ranges)

    monkeypatch.setattr(MemoryStore, "get_ranges", noted)


def test_the_next_partitions_are_fetched_while_the_first_one_is_read(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = threading.Semaphore(0)
    come: list[bool] = []

    def wait_for_the_others(thread: str) -> None:
        if thread.startswith("sparklog-read-ahead"):
            ahead.release()
        elif not come:
            come.extend(ahead.acquire(timeout=20) for _ in range(2))

    with reader(cluster) as consumer:
        for start in (0, RECORDS):  # from the start, and again when there is more
            come.clear()
            with monkeypatch.context() as patch:
                reads(patch, wait_for_the_others)
                assert rows(consumer) == wanted(*((partition, start, start + RECORDS) for partition in range(3)))
            assert come == [True, True]
            for partition in range(3):
                fill(cluster, partition, RECORDS, first=start + RECORDS)


def test_what_is_fetched_ahead_takes_no_more_than_a_call_may(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    size_bytes = cluster.describe("orders").partitions[0].size_bytes
    begun: list[object] = []
    in_background = slices_ahead.in_background
    monkeypatch.setattr(slices_ahead, "in_background", lambda fetch: begun.append(fetch) or in_background(fetch))
    for most_bytes, most_begun in ((1, 0), (size_bytes, 1), (2 * size_bytes, 2)):
        begun.clear()
        with reader(cluster, fetch_max_bytes=most_bytes) as consumer:
            assert rows(consumer, 1) == ["0-0"]
            assert len(begun) == most_begun
            assert rows(consumer, 1) == ["1-0"]
            assert len(begun) <= max(2 * most_begun, 1), "the next ones, as memory is free again"


@pytest.mark.parametrize("at_once", [1, 2, None])
def test_open_reads_hold_a_bounded_number_of_bytes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, at_once: int | None
) -> None:
    """However many partitions there are, and however little of each a call takes."""
    monkeypatch.setattr(fetches, "MOST_OPEN_BYTES", 1)
    for partition in range(3):
        fill(cluster, partition, RECORDS, first=RECORDS)
    most_open, found = 0, []
    with reader(cluster, fetch_max_bytes=1 if at_once is None else 50 << 20) as consumer:
        while batch := rows(consumer, at_once):
            found += batch
            most_open = max(most_open, len(consumer._reading._fetches._open))
    assert sorted(found) == sorted(wanted(*((partition, 0, 2 * RECORDS) for partition in range(3))))
    assert most_open <= 2, "the present one, and what may be open beside it"


def test_beyond_that_a_read_is_only_of_what_the_call_wants(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    size_bytes = cluster.describe("orders").partitions[0].size_bytes
    for name in ("BYTES_AHEAD", "MOST_OPEN_BYTES"):
        monkeypatch.setattr(fetches, name, size_bytes)
    with reader(cluster) as consumer:
        consumer.poll()
        consumer.seek_to_beginning()
        consumer.pause(P1, P2)
        rows(consumer, 1)
        rows(consumer, 1)
        consumer.resume(P1, P2)
        begun = list(consumer._reading._fetches._open.values())
        assert len(begun) == 1
        for _ in range(6):
            rows(consumer, 1)
            assert list(consumer._reading._fetches._open.values()) == begun, "it goes on, others come to their ends"


def test_it_goes_on_from_where_it_is_whatever_was_fetched_ahead(cluster: Cluster) -> None:
    with reader(cluster) as consumer:
        assert rows(consumer, 2) == wanted((0, 0, 2))
        consumer.seek(P1, 3)
        consumer.pause(P2)
        assert sorted(rows(consumer)) == wanted((0, 2, RECORDS), (1, 3, RECORDS))
        consumer.resume(P2)
        assert consumer.poll_table(columns=["offset"])["offset"].to_pylist() == list(range(RECORDS))
        consumer.seek_to_beginning(P0)
        assert rows(consumer, 1) == ["0-0"]


def test_an_error_of_what_was_fetched_ahead_loses_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left to the turn of its partition, whose reader asks again."""

    def away_in_background(thread: str) -> None:
        if thread.startswith("sparklog-read-ahead"):
            raise StoreUnavailable("away")

    with reader(cluster) as consumer, monkeypatch.context() as patch:
        reads(patch, away_in_background)
        assert rows(consumer) == wanted((0, 0, RECORDS), (1, 0, RECORDS), (2, 0, RECORDS))
        assert consumer.lag() == 0
