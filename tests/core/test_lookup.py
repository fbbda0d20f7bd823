"""Look-ups return what is there, or say what is there instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparklog.core.errors import BrokerIdNotRegistered, GroupIdNotFound, SparklogError, UnknownTopicOrPartition
from sparklog.core.lookup import (
    chosen_partitions,
    existing_group,
    existing_partition,
    existing_topic,
    partition_of,
    registered_store,
    topic_of,
    unknown_topic,
)
from sparklog.core.state import ClusterState
from sparklog.core.types import PartitionIndex, StoreId, TopicId, TopicPartition
from tests.core.decided_log import DecidedLog

STATE = DecidedLog().state  # topic 1 is `orders`
TOPIC = topic_of(STATE, "orders")
PLACE = TopicPartition(TOPIC.topic_id, PartitionIndex(0))


def test_what_is_there_is_found() -> None:
    assert existing_topic(STATE, TopicId(1)) is TOPIC
    assert existing_partition(STATE, PLACE) is partition_of(STATE, TOPIC, 0)
    assert chosen_partitions(STATE, TOPIC, ()) == STATE.partitions_of(TOPIC)
    assert chosen_partitions(STATE, TOPIC, [0]) == [partition_of(STATE, TOPIC, 0)]
    store = next(iter(STATE.stores))
    assert registered_store(STATE, store) is STATE.stores[store]


@pytest.mark.parametrize(
    ("look_up", "error", "text"),
    [
        (
            lambda state: topic_of(state, "order"),
            UnknownTopicOrPartition,
            "wanted topic 'order', the cluster has orders",
        ),
        (lambda state: topic_of(state, "quite another", advice="; create it"), UnknownTopicOrPartition, "; create it"),
        (lambda state: existing_topic(state, TopicId(9)), UnknownTopicOrPartition, "topic id 9 is not in the cluster"),
        (
            lambda state: partition_of(state, TOPIC, 99),
            UnknownTopicOrPartition,
            "wanted partition 99 of topic orders, it",
        ),
        (
            lambda state: existing_partition(state, TopicPartition(TopicId(9), PartitionIndex(0))),
            UnknownTopicOrPartition,
            "the topic was deleted, or created again",
        ),
        (lambda state: registered_store(state, StoreId("z")), BrokerIdNotRegistered, "wanted store 'z', the cluster"),
        (lambda state: existing_group(state, "g"), GroupIdNotFound, "wanted group g, found no group of this name"),
    ],
)
def test_what_is_not_there_is_an_error_that_says_what_is(
    look_up: Callable[[ClusterState], object], error: type[SparklogError], text: str
) -> None:
    with pytest.raises(error) as refused:
        look_up(STATE)
    assert text in str(refused.value)


def test_many_topics_are_shown_in_part() -> None:
    assert "and 2 more" in str(unknown_topic("x", [f"topic-{number:02}" for number in range(12)]))
