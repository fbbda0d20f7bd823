"""What a consumer can be asked about the log, its subscription and itself; and what objects show of themselves."""

from __future__ import annotations

import re
from collections import namedtuple
from types import SimpleNamespace

import pytest

from sparklog.client.cluster import Cluster
from sparklog.core.errors import InvalidInput, UnknownTopicOrPartition
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.space.retention_job import run_retention
from sparklog.maintenance.verify.verify_job import run_verify
from tests.client.orders import P0, P1, cluster, consumer, settle, values

__all__ = ["cluster"]


def test_a_consumer_knows_topics_and_partitions_that_are_not_its_own(cluster: Cluster) -> None:
    cluster.create_topic("more", partitions=2)
    reader = cluster.consumer("more")
    assert reader.topics() == ["more", "orders"]
    assert reader.partitions_for_topic("orders") == {0, 1, 2}
    assert reader.partitions_for_topic("nope") is None
    cluster.delete_records("orders", {1: 4})
    assert reader.beginning_offsets([P0, P1]) == {P0: 0, P1: 4}
    assert reader.end_offsets([P0, P1, ("more", 1)]) == {P0: 6, P1: 6, ("more", 1): 0}
    with pytest.raises(UnknownTopicOrPartition):
        reader.end_offsets([("orders", 3)])


def test_names_and_partitions_in_the_shapes_of_other_clients_are_answered(cluster: Cluster) -> None:
    """A TopicPartition of kafka-python is a named pair; confluent-kafka's is an object, its topics are a list."""
    pair = namedtuple("pair", ["topic", "partition"])("orders", 0)  # type: ignore[arg-type]
    reader = cluster.consumer(auto_offset_reset="earliest")
    reader.assign([pair])
    reader.poll()
    reader.seek(pair, 2)
    assert reader.position(pair) == 2
    assert reader.end_offsets([pair]) == reader.end_offsets([P0]) == {P0: 6}
    wrong = SimpleNamespace(topic="orders", partition=0)
    for call in (
        lambda: reader.assign([wrong]),  # type: ignore[list-item]
        lambda: reader.seek(wrong, 0),  # type: ignore[arg-type]
        lambda: reader.end_offsets([wrong]),  # type: ignore[list-item]
        lambda: reader.offsets_for_times({"orders": 0}),  # type: ignore[dict-item]
        lambda: reader.assign(["orders"]),  # type: ignore[list-item]
    ):
        with pytest.raises(InvalidInput, match="wanted a pair of a topic's name and a number"):
            call()
    with pytest.raises(InvalidInput, match="takes names one by one"):
        cluster.consumer(["orders"])  # type: ignore[arg-type]


def test_a_consumer_finds_offsets_by_time(cluster: Cluster) -> None:
    cluster.create_topic("timed", partitions=2)
    with cluster.producer() as producer:
        for at in (1000, 2000, 3000):
            producer.send("timed", "x", partition=0, timestamp_ms=at)
    place, empty = ("timed", 0), ("timed", 1)
    reader = cluster.consumer()
    assert reader.offsets_for_times({place: 1500, empty: 0}) == {place: 1, empty: None}
    assert reader.offsets_for_times({place: 3001}) == {place: None}


def test_a_subscription_is_names_also_if_it_was_a_pattern(cluster: Cluster) -> None:
    reader = cluster.consumer(pattern="ord.*")
    assert reader.subscription() == ("orders",)
    cluster.create_topic("ordinary")
    reader.poll()
    assert reader.subscription() == ("orders", "ordinary")
    reader.assign([P0])
    assert reader.subscription() == ()
    reader.unsubscribe()
    assert reader.subscription() == ()


def test_metrics_count_what_was_read_and_committed(cluster: Cluster) -> None:
    reader = consumer(cluster)
    settle(reader)
    assert reader.metrics()["records_lag"] == 18
    assert len(values(reader, 10)) == 10
    reader.commit()
    found = reader.metrics()
    assert found["bytes_consumed_total"] > 0
    del found["bytes_consumed_total"]
    assert found == {
        "assigned_partitions": 3,
        "records_consumed_total": 10,
        "fetch_total": 1,
        "records_lag": 8,
        "records_lag_max": 6,
        "commit_total": 1,
        "failed_commit_total": 0,
        "rebalance_total": 1,
    }


def test_what_a_shell_shows_first_is_one_short_line(cluster: Cluster) -> None:
    long = "t" * 249
    topic = cluster.create_topic(long, partitions=3)
    with cluster.producer() as producer, cluster.consumer(long, "orders", group="g" * 249) as reader:
        reader.poll()
        group = cluster.describe_group("g" * 249)
        with producer.transaction() as transaction:
            transaction.send("orders", b"v")
            is_open = repr(transaction)
        n = cluster.connection.follower.state.n
        shown = [cluster, topic, cluster.describe("orders"), producer, reader, cluster.consumer()]
        more = [*cluster.stores(), group, transaction, transaction.result, producer.transaction()]
        texts, more_texts = [repr(each) for each in shown], [repr(each) for each in more]
    url = cluster.connection.url
    texts += [repr(job(url)) for job in (run_roll, run_retention, run_verify)] + [repr(run_roll(url, dry_run=True))]
    assert all(len(text) < 100 and "\n" not in text for text in [*texts, *more_texts, is_open])
    assert re.fullmatch(r"<Store \w+, \.>", more_texts[0])
    assert re.fullmatch(r"<Group g{80,}…>", more_texts[-4])
    assert is_open == "<Transaction open, 1 record>"
    assert more_texts[-3:] == [
        f"<Transaction committed in entry {n}, 1 record>",
        f"<CommandResult entry {n}, 1 record in 1 partition>",
        "<Transaction not begun, 0 records>",
    ]
    assert repr(cluster.describe("orders")).startswith("<Topic orders, 3 partitions, 19 records, ")
    assert texts[0].startswith(f"<Cluster {url}, 2 topics, entry ")
    assert texts[3].startswith("<Producer ")
    assert "acks=all, 0 records waiting>" in texts[3]
    assert texts[5] == "<Consumer no group, has 0 partitions, no subscription>"
    assert texts[6].startswith("<roll done: ")
    assert texts[-1].startswith("<roll planned: ")
