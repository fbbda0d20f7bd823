"""A consumer by itself: what it reads, in which order, where it goes on, how it waits, and what it refuses."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import sparklog
from sparklog.client.cluster import Cluster
from sparklog.client.consumer import fetches
from sparklog.client.consumer.consumer import Consumer
from sparklog.client.consumer.consumer_record import ConsumerRecord
from sparklog.client.consumer.listener import RebalanceListener
from sparklog.core.commands import MoveLogStart
from sparklog.core.errors import (
    DataLoss,
    InvalidGroupId,
    InvalidInput,
    InvalidOption,
    OffsetOutOfRange,
    StoreUnavailable,
    UnknownTopicOrPartition,
    Wakeup,
)
from sparklog.core.types import Offset, PartitionIndex, TopicId
from sparklog.host.clock import SystemClock
from sparklog.log.kafka_columns import READ_SCHEMA
from sparklog.log.stored_schema import HEADERS
from tests.client import replicated_cluster
from tests.client.compacting import KEPT, mixed_log
from tests.client.interfered_stores import tick
from tests.kit.log import fill, new_cluster

P0, P1 = ("orders", 0), ("orders", 1)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topic orders with two partitions: 0-0 to 0-3, and 1-0 to 1-2."""
    with new_cluster() as made:
        made.create_topic("orders", partitions=2)
        fill(made, 0, 4)
        fill(made, 1, 3)
        yield made


def other(cluster: Cluster) -> Cluster:
    """The cluster in another process."""
    return sparklog.connect(cluster.connection.url)


def consumer(cluster: Cluster, *topics: str, **options: object) -> Consumer:
    return cluster.consumer(*(topics or ("orders",)), **{"auto_offset_reset": "earliest", **options})  # type: ignore[arg-type]


def values(found: dict[tuple[str, int], list[ConsumerRecord]]) -> list[str]:
    return [(record.value or b"").decode() for records in found.values() for record in records]


def all_values(reader: Consumer) -> list[str]:
    """Everything that can be read now."""
    found: list[str] = []
    while more := values(reader.poll()):
        found += more
    return found


# ---- what it reads --------------------------------------------------------------------------------------


def test_records_come_whole_and_in_the_order_of_their_partition(cluster: Cluster) -> None:
    stamp = pa.array([1_700_000_000_000_999], pa.timestamp("us", "UTC"))
    headers = pa.array([[{"key": "h", "value": b"x"}, {"key": "i", "value": None}]], HEADERS)
    rows = pa.table({"key": ["k"], "value": [None], "timestamp": stamp, "headers": headers})
    cluster.append("orders", rows.append_column("partition", pa.array([1], pa.int32())))
    with consumer(cluster) as reader:
        found = reader.poll()
    assert {place: [record.offset for record in records] for place, records in found.items()} == {
        P0: [0, 1, 2, 3],
        P1: [0, 1, 2, 3],
    }
    assert found[P0][1].value == b"0-1"
    assert found[P0][1].headers == ()
    last = found[P1][3]
    assert (last.topic, last.partition, last.key, last.value) == ("orders", 1, b"k", None)
    assert last.headers == (("h", b"x"), ("i", None))
    assert (last.timestamp_us, last.timestamp_ms, last.timestamp_type) == (1_700_000_000_000_999, 1_700_000_000_000, 0)


def test_a_call_hands_out_at_most_so_many_and_partitions_take_turns(cluster: Cluster) -> None:
    with consumer(cluster, max_poll_records=3) as reader:
        assert values(reader.poll()) == ["0-0", "0-1", "0-2"]
        assert values(reader.poll(max_records=2)) == ["1-0", "1-1"]
        assert values(reader.poll()) == ["0-3", "1-2"]
        assert reader.poll() == {}
        assert (reader.position(P0), reader.position(P1), reader.lag()) == (4, 3, 0)


def test_the_bytes_of_a_call_are_limited_too(cluster: Cluster) -> None:
    with consumer(cluster, fetch_max_bytes=1) as reader:
        assert [reader.poll_table().num_rows for _ in range(3)] == [4, 3, 0]


def test_tables_have_the_read_schema_and_what_cluster_read_has(cluster: Cluster) -> None:
    with consumer(cluster) as reader:
        table = reader.poll_table()
        assert table.schema == READ_SCHEMA
        for partition in (0, 1):
            own = table.filter(pa.compute.equal(table["partition"], partition))
            wanted = cluster.read("orders", partition=partition, include_headers=True)
            assert own.equals(wanted.select(READ_SCHEMA.names))
        empty = reader.poll_table()
        assert (empty.num_rows, empty.schema) == (0, READ_SCHEMA)
        assert reader.poll_table(max_records=1).num_rows == 0


def test_a_table_has_only_the_columns_that_are_wanted(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed_log(cluster)
    with consumer(cluster, "t") as reader:
        whole = reader.poll_table()
        for columns in (["value"], ["offset", "key"], ["timestamp", "topic", "headers"]):
            reader.seek(("t", 0), 0)
            assert reader.poll_table(max_records=4, columns=columns).equals(whole.slice(0, 4).select(columns))
            assert reader.poll_table(max_records=1).equals(whole.slice(4, 1)), "the next call wants others"
        for columns in ([], ["values"], ["key", "key"], "value", [1], ["key", None]):
            with pytest.raises(InvalidInput, match="column"):
                reader.poll_table(columns=columns)  # type: ignore[arg-type]
        assert reader.poll_table()["offset"].to_pylist() == KEPT[5:]


def test_what_the_chain_says_by_itself_is_not_read_from_objects(cluster: Cluster) -> None:
    store = replicated_cluster.store(cluster, str(cluster.stores()[0].store))
    for listed in store.list_keys("append/"):
        store.delete(listed.key)
    with consumer(cluster) as reader:
        table = reader.poll_table(columns=["partition", "offset"])
        assert table.to_pydict() == {"partition": [0] * 4 + [1] * 3, "offset": [0, 1, 2, 3, 0, 1, 2]}


def test_a_first_read_fetches_no_more_than_the_call_wants(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that seeks from place to place does not fetch ahead each time; one that goes on does."""
    for first in (4, 5, 6):
        fill(cluster, 0, 1, first=first)
    planned: list[tuple[int, int]] = []
    plan = fetches.plan_range

    def noted(*args: object, **options: object) -> object:
        found = plan(*args, **options)  # type: ignore[arg-type]
        planned.append((found.start, found.end))
        return found

    monkeypatch.setattr(fetches, "plan_range", noted)
    with consumer(cluster) as reader:
        reader.assign([P0])
        for start in (1, 5):
            reader.seek(P0, start)
            assert values(reader.poll(max_records=1)) == [f"0-{start}"]
        assert values(reader.poll(max_records=1)) == ["0-6"]
        reader.seek_to_beginning()
        assert len(values(reader.poll(max_records=2)) + values(reader.poll(max_records=1))) == 3
        assert values(reader.poll()) == ["0-3", "0-4", "0-5", "0-6"]
    assert planned == [(1, 2), (5, 6), (6, 7), (0, 2), (2, 7)]


def test_a_long_log_is_read_in_pieces_and_compacted_offsets_are_passed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetches, "SLICES_PER_PLAN", 1)
    mixed_log(cluster)
    with consumer(cluster, "t", max_poll_records=4) as reader:
        assert all_values(reader) == [f"v{offset}" for offset in KEPT]
        assert reader.position(("t", 0)) == 60
    with consumer(cluster, "t") as reader:
        assert reader.poll_table().num_rows == len(KEPT)


def test_the_iterator_hands_out_one_by_one_and_ends_after_its_timeout(cluster: Cluster) -> None:
    tick(cluster)
    with consumer(cluster, consumer_timeout_ms=1_000) as reader:
        seen = []
        for record in reader:
            seen.append(record.value)
            assert reader.position((record.topic, record.partition)) == record.offset + 1
        assert len(seen) == 7
        fill(cluster, 0, 1, first=4)
        assert [record.value for record in reader] == [b"0-4"]


def test_a_loop_that_was_left_goes_on_behind_its_last_record(cluster: Cluster) -> None:
    with consumer(cluster, consumer_timeout_ms=1) as reader:
        for record in reader:
            if record.value == b"0-1":
                break
        assert sorted(values(reader.poll())) == ["0-2", "0-3", "1-0", "1-1", "1-2"]
    with consumer(cluster, consumer_timeout_ms=1, max_poll_records=2) as reader:
        reader.assign([P0])
        reader.poll(max_records=1)
        for record in reader:  # of 0-1 and 0-2, which were fetched together
            if record.value == b"0-1":
                break
        assert all_values(reader) == ["0-2", "0-3"]


def test_a_seek_in_a_loop_is_followed_at_once(cluster: Cluster) -> None:
    tick(cluster)
    seen = []
    with consumer(cluster, consumer_timeout_ms=1) as reader:
        reader.poll(max_records=1)
        reader.pause(P1)
        for record in reader:
            seen.append(record.offset)
            if seen == [1, 2]:
                reader.seek(P0, 0)
    assert seen == [1, 2, 0, 1, 2, 3]


def test_what_another_call_has_handed_out_is_not_handed_out_by_the_loop_around_it(cluster: Cluster) -> None:
    tick(cluster)
    with consumer(cluster, consumer_timeout_ms=1) as reader:
        seen = []
        for record in reader:
            seen.append((record.value or b"").decode())
            if len(seen) == 2:
                seen += values(reader.poll(max_records=3))
    assert sorted(seen) == ["0-0", "0-1", "0-2", "0-3", "1-0", "1-1", "1-2"]


def test_partitions_and_topics_that_come_later_are_read_from_their_start(cluster: Cluster) -> None:
    with cluster.consumer(pattern="o.*", auto_offset_reset="latest") as reader:
        assert reader.poll() == {}
        cluster.add_partitions("orders", 3)
        cluster.create_topic("other")
        cluster.create_topic("another")
        fill(cluster, 2, 2)
        fill(cluster, 0, 1, topic="other")
        assert sorted(all_values(reader)) == ["0-0", "2-0", "2-1"]
        assert reader.assignment() == (("orders", 0), ("orders", 1), ("orders", 2), ("other", 0))
        cluster.delete_topic("orders")
        assert reader.poll() == {}
        assert reader.assignment() == (("other", 0),)


def test_a_topic_that_is_created_again_is_another_one(cluster: Cluster) -> None:
    with consumer(cluster) as reader, cluster.consumer(auto_offset_reset="earliest") as assigned:
        assigned.assign([P0])
        reader.poll()
        cluster.delete_topic("orders")
        cluster.create_topic("orders")
        fill(cluster, 0, 1)
        assert all_values(reader) == ["0-0"]
        with pytest.raises(UnknownTopicOrPartition, match="orders-0: the topic was deleted and created again"):
            assigned.poll()


def test_it_can_read_something_else(cluster: Cluster) -> None:
    cluster.create_topic("more")
    fill(cluster, 0, 2, topic="more")
    with consumer(cluster) as reader:
        reader.poll(max_records=1)
        reader.assign([("more", 0)])
        assert reader.assignment() == (("more", 0),)
        assert values(reader.poll()) == ["0-0", "0-1"]
        reader.subscribe(["orders", "more"])
        assert len(all_values(reader)) == 9
        reader.unsubscribe()
        assert reader.assignment() == ()


def test_a_listener_hears_what_comes_and_goes(cluster: Cluster) -> None:
    class Listener(RebalanceListener):
        def __init__(self) -> None:
            self.said: list[str] = []

        def on_partitions_revoked(self, partitions: object) -> None:
            self.said.append(f"- {partitions} at {reader.position(P0)}")

        def on_partitions_assigned(self, partitions: object) -> None:
            self.said.append(f"+ {partitions}")
            if len(self.said) == 1:
                reader.seek(P0, 3)

    listener = Listener()
    with consumer(cluster, listener=listener) as reader:
        assert sorted(values(reader.poll())) == ["0-3", "1-0", "1-1", "1-2"]
        cluster.add_partitions("orders", 3)
        reader.poll()
    assert listener.said == [
        "+ [('orders', 0), ('orders', 1)]",
        "+ [('orders', 2)]",
        "- [('orders', 0), ('orders', 1), ('orders', 2)] at 4",
    ]


# ---- where it goes on -----------------------------------------------------------------------------------


def test_seeks_and_pauses(cluster: Cluster) -> None:
    with consumer(cluster) as reader:
        all_values(reader)
        reader.seek(P0, 2)
        assert (reader.position(P0), reader.lag(P0), reader.lag()) == (2, 2, 2)
        reader.pause(P0)
        assert (reader.poll(), reader.paused()) == ({}, (P0,))
        reader.resume(P0)
        assert values(reader.poll()) == ["0-2", "0-3"]
        reader.seek_to_beginning(P1)
        assert values(reader.poll()) == ["1-0", "1-1", "1-2"]
        reader.seek_to_beginning()
        assert len(values(reader.poll(max_records=2))) == 2
        reader.seek_to_end()
        assert (reader.poll(), reader.lag()) == ({}, 0)
    with cluster.consumer("orders") as reader:
        assert reader.poll() == {}, "latest is Kafka's default"


def test_what_retention_took_is_passed_with_a_warning_or_is_an_error(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    readers = {
        reset: cluster.consumer(auto_offset_reset=reset, max_poll_records=1) for reset in ("earliest", "latest", "none")
    }
    for reader in readers.values():
        reader.assign([P0])
        reader.seek(P0, 0)
        assert values(reader.poll()) == ["0-0"]
    cluster.submit(MoveLogStart(TopicId(1), PartitionIndex(0), Offset(3)))
    with caplog.at_level(logging.WARNING, "sparklog"):
        assert values(readers["earliest"].poll(max_records=9)) == ["0-3"]
        assert readers["latest"].poll() == {}
    assert [record.getMessage() for record in caplog.records] == [
        "orders-0: the position is 1, the log has [3, 4): it continues at 3 (auto_offset_reset=earliest)",
        "orders-0: the position is 1, the log has [3, 4): it continues at 4 (auto_offset_reset=latest)",
    ]
    with pytest.raises(OffsetOutOfRange, match="auto_offset_reset=none"):
        readers["none"].poll()
    readers["none"].seek(P0, 3)
    assert values(readers["none"].poll()) == ["0-3"]


def test_objects_that_retention_deletes_under_an_open_read_are_passed_as_well(cluster: Cluster) -> None:
    store = replicated_cluster.store(cluster, str(cluster.stores()[0].store))
    before = {listed.key for listed in store.list_keys("append/")}
    fill(cluster, 0, 2, first=4)
    deleted = {listed.key for listed in store.list_keys("append/")} - before
    fill(cluster, 0, 1, first=6)
    with cluster.consumer(auto_offset_reset="earliest", max_poll_records=4) as reader, other(cluster) as retention:
        reader.assign([P0])
        assert values(reader.poll()) == ["0-0", "0-1", "0-2", "0-3"]
        retention.submit(MoveLogStart(TopicId(1), PartitionIndex(0), Offset(6)))
        for key in deleted:
            store.delete(key)
        assert all_values(reader) == ["0-6"]


# M: L-05
def test_records_that_were_given_up_are_a_loss_after_those_before_them() -> None:
    with new_cluster("abc") as cluster:
        cluster.create_topic("t", assignment=["abc"], config={"retention.ms": -1})
        replicated_cluster.write(cluster, "0", "1")
        for store in "bc":
            cluster.fence_store(store)
        replicated_cluster.write(cluster, "2", "3")
        place = ("t", 0)
        with consumer(cluster, "t", max_poll_records=3) as ahead:
            assert values(ahead.poll()) == ["0", "1", "2"]
            cluster.fence_store("a")
            replicated_cluster.come_back(cluster, "b")
            cluster.elect_leaders("t", unclean=True)
            replicated_cluster.write(cluster, "4")
            with pytest.raises(DataLoss, match="has read up to offset 3, and an unclean election gave up records"):
                ahead.poll()
            ahead.seek(place, 4)
            assert values(ahead.poll()) == ["4"]
        with consumer(cluster, "t") as behind:
            assert values(behind.poll()) == ["0", "1"]
            with pytest.raises(DataLoss, match=r"records \[2, 4\) were lost"):
                behind.poll()
        with consumer(cluster, "t", fail_on_data_loss=False) as careless:
            assert all_values(careless) == ["0", "1", "4"]


def test_a_read_does_not_go_on_with_what_an_election_gave_up() -> None:
    with new_cluster("abc") as cluster:
        cluster.create_topic("t", assignment=["abc"], config={"retention.ms": -1})
        replicated_cluster.write(cluster, "0", "1")
        for store in "bc":
            cluster.fence_store(store)
        replicated_cluster.write(cluster, "2", "3")
        with consumer(cluster, "t", max_poll_records=1) as reader:
            assert [values(reader.poll()) for _ in range(2)] == [["0"], ["1"]]  # of a read that would go on with 2
            cluster.fence_store("a")
            replicated_cluster.come_back(cluster, "b")
            cluster.elect_leaders("t", unclean=True)
            with pytest.raises(DataLoss, match=r"records \[2, 4\) were lost"):
                reader.poll()


def test_an_error_of_a_store_loses_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read before it is handed out first."""
    fill(cluster, 0, 2, first=4)
    store = replicated_cluster.store(cluster, str(cluster.stores()[0].store))
    reads, read = [0], type(store).get_ranges

    def away_from_the_third_on(own: object, key: str, ranges: object) -> object:
        reads[0] += 1
        if reads[0] >= 3:
            raise StoreUnavailable("away")
        return read(own, key, ranges)  # type: ignore[arg-type]

    with consumer(cluster) as reader:
        with monkeypatch.context() as patch:
            patch.setattr(type(store), "get_ranges", away_from_the_third_on)
            first = values(reader.poll())
            for _ in range(2):
                with pytest.raises(StoreUnavailable):
                    reader.poll()
        assert first
        assert sorted(first + all_values(reader)) == [f"0-{at}" for at in range(6)] + [f"1-{at}" for at in range(3)]


# ---- waiting --------------------------------------------------------------------------------------------


def test_it_waits_without_reading_anything_and_is_woken_by_records(cluster: Cluster) -> None:  # M: P-10
    with other(cluster) as writer, consumer(cluster) as reader:
        all_values(reader)
        clock = tick(cluster, *[lambda: None] * 9, lambda: fill(writer, 0, 1, first=4))
        reader._reading._clock = clock
        assert values(reader.poll(60_000)) == ["0-4"]
        assert clock.at_ms < 10 * 200
        before = clock.at_ms
        assert reader.poll(60_000) == {}
        assert 60_000 <= clock.at_ms - before < 61_000


def test_another_thread_wakes_it_up(cluster: Cluster) -> None:
    with consumer(cluster) as reader:
        all_values(reader)
        clock = tick(cluster, lambda: None, reader.wakeup)
        reader._reading._clock = clock
        with pytest.raises(Wakeup):
            reader.poll(3_600_000)
        assert clock.at_ms < 1_000
        fill(cluster, 0, 1, first=4)
        reader.wakeup()
        with pytest.raises(Wakeup):
            next(iter(reader))
        assert values(reader.poll()) == ["0-4"]


def test_it_is_for_one_thread_at_a_time(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    waits, goes_on = threading.Event(), threading.Event()

    def pause(*_: object) -> None:
        waits.set()
        goes_on.wait(30)

    monkeypatch.setattr(SystemClock, "pause", pause)
    reader = consumer(cluster)
    all_values(reader)
    woken: list[BaseException] = []

    def poll() -> None:
        try:
            reader.poll(3_600_000)
        except Wakeup as error:
            woken.append(error)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        assert waits.wait(30)
        for call in (reader.poll, reader.close, reader.seek_to_end, lambda: next(iter(reader))):
            with pytest.raises(InvalidInput, match="another thread is in a call of this consumer"):
                call()  # type: ignore[operator]
    finally:
        reader.wakeup()
        goes_on.set()
        thread.join()
    assert len(woken) == 1
    reader.close()


# ---- what it refuses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"auto_offset_reset": "begin"}, "auto_offset_reset: wanted earliest, latest, none, found 'begin'"),
        ({"max_poll_records": 0}, "max_poll_records: wanted an integer from 1 on, found 0"),
        ({"fetch_max_bytes": -1}, "fetch_max_bytes"),
        ({"consumer_timeout_ms": 0}, "consumer_timeout_ms"),
        ({"enable_auto_commit": "yes"}, "enable_auto_commit: wanted True or False, found 'yes'"),
        ({"enable_auto_commit": True}, "without a group there is nothing to commit to"),
        ({"heartbeat_interval_ms": 45_000}, "is not below session_timeout_ms=45000"),
        ({"max_poll_record": 1}, "no option 'max_poll_record'; did you mean max_poll_records?"),
    ],
)
def test_bad_options_are_refused(cluster: Cluster, options: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidOption, match=said.replace("?", r"\?")):
        cluster.consumer("orders", **options)  # type: ignore[arg-type]


def test_what_contradicts_itself_or_is_not_there_is_refused(cluster: Cluster) -> None:
    bad: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: cluster.consumer("nowhere"), UnknownTopicOrPartition, "wanted topic 'nowhere'"),
        (lambda: cluster.consumer("orders", pattern="o.*"), InvalidInput, "topics or to a pattern"),
        (lambda: cluster.consumer(pattern="("), InvalidInput, "wanted a regular expression"),
        (lambda: cluster.consumer("orders", group=" "), InvalidGroupId, "wanted a group id"),
        (lambda: cluster.consumer(listener=RebalanceListener()), InvalidInput, "belongs to a subscription"),
        (lambda: cluster.consumer().poll(), InvalidInput, "reads nothing yet"),
        (lambda: cluster.consumer().assign([]), InvalidInput, "at least one partition"),
        (lambda: cluster.consumer().assign([("orders", 2)]), UnknownTopicOrPartition, "wanted partition 2"),
        (lambda: cluster.consumer("orders").seek(P0, 0), InvalidInput, "it has none: the first poll takes them"),
        (lambda: cluster.consumer("orders").poll(max_records=0), InvalidOption, "max_records"),
    ]
    for call, error, said in bad:
        with pytest.raises(error, match=said):
            call()
    with consumer(cluster) as reader:
        reader.poll(max_records=1)
        inside: list[tuple[Callable[[], object], type[Exception], str]] = [
            (lambda: reader.seek(P0, 5), OffsetOutOfRange, r"wanted to continue at offset 5, the log has \[0, 4\)"),
            (lambda: reader.seek(P0, -1), OffsetOutOfRange, "offset -1"),
            (lambda: reader.seek(("orders", 2), 0), InvalidInput, r"found \('orders', 2\); it has orders-0, orders-1"),
            (lambda: reader.pause(("more", 0)), InvalidInput, "it has orders-0, orders-1"),
            (reader.commit, InvalidGroupId, "no group"),
            (lambda: reader.committed(P0), InvalidGroupId, "no group"),
            (lambda: reader.subscribe(), InvalidInput, "found no topic"),
        ]
        for call, error, said in inside:
            with pytest.raises(error, match=said):
                call()
        assert (reader.position(P0), len(all_values(reader))) == (1, 6), "nothing has changed"
    reader.close()
    with pytest.raises(InvalidInput, match="closed"):
        reader.poll()
