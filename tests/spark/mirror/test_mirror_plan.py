"""Decisions of a mirror: whether a topic here is its own, what is due, which config it carries over."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sparklog.core.errors import (
    DataLoss,
    InconsistentTopicId,
    InvalidPartitions,
    OffsetOutOfRange,
    PolicyViolation,
    SparklogError,
)
from sparklog.core.state import Topic
from sparklog.core.types import KafkaTopic, Offset, TopicId
from sparklog.spark.mirror.mirror_plan import (
    FoundTopic,
    KafkaPartition,
    carried_config,
    check_end,
    check_mirrors,
    range_to_copy,
)

ID = KafkaTopic("cluster", "t", "id")


def found(start: int = 0, end: int = 0, partitions: int = 1, config: Mapping[str, str] | None = None) -> FoundTopic:
    """A topic in Kafka, whose config was set for it."""
    partition = KafkaPartition(Offset(start), Offset(end))
    return FoundTopic(ID, (partition,) * partitions, config or {}, frozenset(config or {}))


def here(partitions: int = 1, mirror_of: KafkaTopic | None = ID, promoted_from: KafkaTopic | None = None) -> Topic:
    return Topic(TopicId(1), "t", partitions, {}, 0, mirror_of=mirror_of, promoted_from=promoted_from)


def due(topic: FoundTopic, next_offset: int, read: int = 0, fail_on_data_loss: bool = True) -> tuple[int, ...] | None:
    """The range to copy: from, first, until."""
    range_ = range_to_copy(
        topic, 0, Offset(next_offset), Offset(read), fail_on_data_loss=fail_on_data_loss, max_records=5
    )
    return None if range_ is None else (range_.base_offset, range_.start, range_.end)


def test_a_topic_here_is_the_mirror_of_one_topic_that_has_as_many_partitions_or_more() -> None:
    check_mirrors(found(partitions=2), here(partitions=2))
    check_mirrors(found(partitions=3), here(partitions=2))
    others: list[tuple[Topic, type[SparklogError]]] = [
        (here(mirror_of=None), PolicyViolation),
        (here(mirror_of=None, promoted_from=ID), PolicyViolation),
        (here(mirror_of=KafkaTopic("other", "t", "id")), InconsistentTopicId),
        (here(mirror_of=KafkaTopic("cluster", "other", "id")), InconsistentTopicId),
        (here(mirror_of=KafkaTopic("cluster", "t", "other")), InconsistentTopicId),
        (here(partitions=3), InvalidPartitions),
    ]
    for topic, kind in others:
        with pytest.raises(kind):
            check_mirrors(found(partitions=2), topic)


def test_what_is_due_begins_at_the_next_offset_and_leaves_out_what_is_known_to_be_empty() -> None:
    assert due(found(0, 10), 0) == (0, 0, 10)
    assert due(found(0, 10), 4) == (4, 4, 10)
    assert due(found(0, 10), 4, read=6) == (4, 6, 10)
    assert due(found(0, 10), 10) is None
    assert due(found(0, 10), 9, read=10) is None
    assert due(found(3, 10), 0) == (0, 3, 10), "the mirror begins where Kafka's log does"
    assert due(found(10, 10), 0) is None


def test_removed_records_are_a_loss_unless_they_were_read_or_it_is_accepted() -> None:
    for next_offset, read in [(4, 0), (4, 6), (0, 6), (6, 4)]:
        with pytest.raises(DataLoss, match=rf"offsets \[{max(next_offset, read)}, 7\)"):
            due(found(7, 10), next_offset, read)
        assert due(found(7, 10), next_offset, read, fail_on_data_loss=False) == (next_offset, 7, 10)
    assert due(found(7, 10), 4, read=7) == (4, 7, 10)
    assert due(found(7, 10), 7) == (7, 7, 10)


def test_a_kafka_that_has_less_than_was_copied_has_lost_records() -> None:
    check_end(found(0, 5), 0, Offset(5))
    for accepted in (False, True):
        with pytest.raises(OffsetOutOfRange, match="next offset 6, found 5"):
            due(found(0, 5), 6, fail_on_data_loss=not accepted)


def test_a_config_that_is_not_legal_here_or_suits_only_the_brokers_there_is_listed() -> None:
    config = {"retention.ms": "5", "min.insync.replicas": "9", "max.message.bytes": "-7", "of.kafka": "x"}
    carried, left = carried_config(found(config=config))
    assert carried == {"retention.ms": "5"}
    assert [line.partition(" is not")[0] for line in left] == [
        "t: max.message.bytes=-7",
        "t: min.insync.replicas=9",
        "t: of.kafka=x",
    ]
