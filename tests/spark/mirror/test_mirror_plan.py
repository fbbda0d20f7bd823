"""The rules of a mirror: which offsets of Kafka are due, and which topics and config are taken."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import connect
from sparklog.core.errors import (
    DataLoss,
    InconsistentTopicId,
    InvalidPartitions,
    OffsetOutOfRange,
    PolicyViolation,
    SparklogError,
)
from sparklog.core.state import Topic
from sparklog.core.types import KafkaTopic, Offset
from sparklog.spark.mirror.mirror_plan import (
    FoundTopic,
    KafkaPartition,
    KafkaRange,
    carried_config,
    check_mirrors,
    range_to_copy,
)

ID = KafkaTopic("k", "t", "id")


def found(start: int = 0, end: int = 0, partitions: int = 1, **config: str) -> FoundTopic:
    named = {name.replace("_", "."): value for name, value in config.items()}
    of_each = KafkaPartition(Offset(start), Offset(end))
    return FoundTopic(ID, (of_each,) * partitions, named, frozenset(named))


def due(topic: FoundTopic, next_offset: int, read: int = 0, *, fail: bool = True) -> tuple[int, int, int] | None:
    """The range to copy: from, first, until."""
    range_ = range_to_copy(topic, 0, Offset(next_offset), Offset(read), fail_on_data_loss=fail, max_records=9)
    assert range_ is None or (isinstance(range_, KafkaRange) and range_.max_records == 9)
    return None if range_ is None else (range_.from_, range_.first, range_.until)


@pytest.mark.parametrize(
    ("start", "end", "next_offset", "read", "wanted"),
    [
        (0, 10, 0, 0, (0, 0, 10)),
        (0, 10, 4, 0, (4, 4, 10)),
        (0, 10, 10, 0, None),
        (7, 10, 0, 0, (0, 7, 10)),  # the first copy begins where Kafka's log does
        (7, 10, 7, 0, (7, 7, 10)),
        (0, 10, 4, 8, (4, 8, 10)),  # nothing was found up to 8
        (0, 10, 4, 10, None),
        (10, 10, 0, 0, None),
    ],
)
def test_the_offsets_behind_those_that_are_here_are_due(
    start: int, end: int, next_offset: int, read: int, wanted: tuple[int, int, int] | None
) -> None:
    assert due(found(start, end), next_offset, read) == wanted


def test_offsets_that_kafka_removed_are_a_loss_unless_that_is_accepted() -> None:
    with pytest.raises(DataLoss, match=r"removed offsets \[4, 7\) before they were copied"):
        due(found(7, 10), 4)
    assert due(found(7, 10), 4, fail=False) == (4, 7, 10)


def test_a_kafka_that_has_fewer_offsets_than_are_here_is_refused() -> None:
    for fail in (True, False):
        with pytest.raises(OffsetOutOfRange, match="at or above the next offset 11, found 10"):
            due(found(0, 10), 11, fail=fail)


def mirrored(partitions: int = 1, mirror_of: KafkaTopic | None = ID, *, promoted: bool = False) -> Topic:
    url = f"memory://{uuid.uuid4().hex}"
    init_cluster(url)
    with connect(url) as cluster:
        cluster.create_topic("t", partitions=partitions, mirror_of=mirror_of)
        if promoted:
            cluster.promote_topic("t")
        state = cluster.connection.newest_state()
        return state.topics[state.topic_ids["t"]]


@pytest.mark.parametrize(
    ("topic", "kind", "text"),
    [
        (lambda: mirrored(mirror_of=None), PolicyViolation, "exists and is not mirrored"),
        (lambda: mirrored(promoted=True), PolicyViolation, "was promoted"),
        (lambda: mirrored(mirror_of=KafkaTopic("k", "t", "other")), InconsistentTopicId, "created again"),
        (lambda: mirrored(mirror_of=KafkaTopic("other", "t", "id")), InconsistentTopicId, "mirrors t in Kafka cluster"),
        (lambda: mirrored(partitions=2), InvalidPartitions, "has 2 partitions, found 1"),
    ],
)
def test_a_topic_that_is_no_mirror_of_this_one_is_refused(
    topic: Callable[[], Topic], kind: type[SparklogError], text: str
) -> None:
    with pytest.raises(kind, match=text):
        check_mirrors(found(), topic())


def test_a_mirror_is_accepted_also_if_kafka_has_more_partitions() -> None:
    check_mirrors(found(partitions=3), mirrored())


def test_config_is_carried_over_if_both_know_it_and_it_is_about_the_topic() -> None:
    topic = found(retention_ms="5000", cleanup_policy="compact,delete", segment_ms="9", compression_type="gzip")
    assert carried_config(topic) == (
        {"cleanup.policy": "compact,delete", "retention.ms": "5000"},
        ["t: compression.type=gzip is not carried over", "t: segment.ms=9 is not carried over"],
    )


def test_values_that_are_kafkas_defaults_are_carried_over_only_where_they_decide_about_records() -> None:
    topic = FoundTopic(ID, (), {"retention.ms": "7", "delete.retention.ms": "8"})
    assert carried_config(topic) == ({"retention.ms": "7"}, [])
