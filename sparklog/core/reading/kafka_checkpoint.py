"""The offsets of Spark's Kafka source in a checkpoint, as positions in the topics here that mirror those of Kafka.

    {"orders": {"0": 23, "1": 7}}

A record here has the offset that it has in Kafka, so a query that is started again with `format("sparklog")` continues
at exactly the next record. Source of the form: `JsonUtils.partitionOffsets` of Spark's connector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

from sparklog.core.errors import InvalidInput, OffsetOutOfRange
from sparklog.core.lookup import partition_of, topic_of
from sparklog.core.reading.positions import Position
from sparklog.core.reading.stream_positions import StreamPositions
from sparklog.core.state import ClusterState, Topic
from sparklog.core.types import Offset, PartitionIndex, Place

KafkaOffsets = Mapping[str, Mapping[str, int]]  # by topic and partition


def is_of_kafka(stored: object) -> TypeGuard[KafkaOffsets]:
    """True if these are offsets that Spark's Kafka source has written."""
    return (
        isinstance(stored, dict)
        and bool(stored)
        and all(
            isinstance(offsets, dict)
            and all(number.isdecimal() and isinstance(offset, int) for number, offset in offsets.items())
            for offsets in stored.values()
        )
    )


def from_kafka(state: ClusterState, stored: KafkaOffsets) -> StreamPositions:
    """Return the positions here of a stream that read Kafka up to these offsets.

    Raises UnknownTopicOrPartition if a topic or partition is not here, InvalidInput if a topic never mirrored one of
    Kafka, and OffsetOutOfRange if an offset is beyond the end here.
    """
    at: dict[Place, Position] = {}
    for name, offsets in stored.items():
        topic = topic_of(state, name, advice="; the checkpoint is of Kafka: mirror the topic first (docs/moving.md)")
        if topic.kafka_topic is None:
            raise InvalidInput(
                f"the checkpoint is of topic {name} in Kafka, and topic {name} here is no mirror of it, so the same "
                "offsets are other records: begin with a new checkpointLocation, and choose its startingOffsets"
            )
        for number, offset in offsets.items():
            at[name, int(number)] = _position(state, topic, int(number), offset)
    return StreamPositions(state.chain_id, at)


def _position(state: ClusterState, topic: Topic, number: int, offset: int) -> Position:
    partition = partition_of(state, topic, number)
    if not 0 <= offset <= partition.next_offset:
        raise OffsetOutOfRange(
            f"{topic.name}-{number}: the checkpoint is at offset {offset} of Kafka, and the log here ends at "
            f"{partition.next_offset}: run the mirror until it has caught up; if Kafka has no record from there on, "
            "because its last transaction was aborted, promote the topic with Kafka's end offsets"
        )
    epoch = partition.replication.leader_epoch
    return Position(state.chain_id, topic.topic_id, PartitionIndex(number), Offset(offset), epoch)
