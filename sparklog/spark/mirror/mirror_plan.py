"""Decides what a mirror does: which topics it creates, and which offsets of Kafka it copies. Pure.

The position of a mirror is the next offset of each partition here. There is no other, so a mirror can be killed at any
point, and two at once write nothing twice: an append that does not begin at the next offset is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from sparklog.core.config.topic_config import parse_topic_config
from sparklog.core.config.topic_keys import TOPIC_KEYS
from sparklog.core.errors import (
    DataLoss,
    InconsistentTopicId,
    InvalidConfig,
    InvalidPartitions,
    OffsetOutOfRange,
    PolicyViolation,
)
from sparklog.core.state import Topic
from sparklog.core.types import KafkaTopic, Offset, TopicId
from sparklog.log.batch import SMALL_BATCH_BYTES

CARRIED: Final = ("cleanup.policy", "max.message.bytes", "message.timestamp.type", "retention.bytes", "retention.ms")
_OF_ONE_CLUSTER: Final = {  # keys whose values suit the brokers of one cluster, not the data of a topic
    "compression.type",  # what Kafka's producers chose says nothing about batches of Arrow
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "min.insync.replicas",
    "segment.bytes",
    "segment.ms",
    "unclean.leader.election.enable",
}


class KafkaPartition(msgspec.Struct, frozen=True):
    """The offsets that a partition in Kafka has: from its log start to its last stable offset (KIP-98)."""

    start: Offset
    end: Offset


class FoundTopic(msgspec.Struct, frozen=True):
    """A topic in Kafka. `config`: the effective values of its keys. `own`: the keys that were set for the topic."""

    id: KafkaTopic
    partitions: tuple[KafkaPartition, ...]
    config: Mapping[str, str]
    own: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self.id.topic


class BatchPurpose(msgspec.Struct, frozen=True):
    """The purpose of the batches of a task. In Java, it is the record of this name.

    `request`: of `spark/planner/row_requests.py`. `always_offsets`: all batches store offsets, not only those from the
    first empty offset on. The rest are properties of the topic here.
    """

    request: str
    topic_id: TopicId
    compression: str
    max_message_bytes: int
    needs_key: bool
    always_offsets: bool = False
    small_batch_bytes: int = SMALL_BATCH_BYTES


class KafkaRange(msgspec.Struct, frozen=True):
    """Offsets [base_offset, end) of a Kafka partition for a task, of which Kafka has those from `start` on.

    The task stops after `max_records`. `plan`: the name of the task's plan. In Java, it is the record of this name.
    """

    topic: str
    partition: int
    base_offset: Offset
    start: Offset
    end: Offset
    max_records: int
    plan: str
    purpose: BatchPurpose | None = None


def check_mirrors(found: FoundTopic, topic: Topic) -> None:
    """Raise an error unless a topic here is the mirror of the topic that was found in Kafka.

    PolicyViolation if it is no mirror, or not any more; InconsistentTopicId if it mirrors another topic;
    InvalidPartitions if it has more partitions.
    """
    if topic.promoted_from is not None:
        raise PolicyViolation(f"topic {topic.name} was promoted: it is no longer a mirror of {found.id}")
    if topic.mirror_of is None:
        raise PolicyViolation(
            f"topic {topic.name} exists here and is no mirror of {found.id}: delete the topic here to mirror that of "
            "Kafka, or leave that out"
        )
    if topic.mirror_of != found.id:
        raise InconsistentTopicId(
            f"topic {topic.name} mirrors {topic.mirror_of}, found {found.id}, which is another topic, perhaps created "
            f"again: promote {topic.name} to keep its records, or delete it to mirror the new topic from its start"
        )
    if topic.partitions > len(found.partitions):
        raise InvalidPartitions(
            f"topic {topic.name} has {topic.partitions} partitions, found {len(found.partitions)} in {found.id}: "
            "partitions are never removed, so this is not the cluster that was mirrored"
        )


def check_end(found: FoundTopic, partition: int, next_offset: Offset) -> None:
    """Raise OffsetOutOfRange if Kafka has fewer offsets than were copied. `next_offset`: that of the partition here."""
    end = found.partitions[partition].end
    if end < next_offset:
        raise OffsetOutOfRange(
            f"{found.name}-{partition}: wanted Kafka's end at or above the next offset {next_offset}, found {end}: "
            "Kafka has lost records that are here (an unclean election, or another cluster), and may give their "
            "offsets to others. Promote the topic to keep what is here, or delete it to mirror it again"
        )


def range_to_copy(
    found: FoundTopic,
    partition: int,
    next_offset: Offset,
    read: Offset,
    *,
    fail_on_data_loss: bool,
    max_records: int,
) -> KafkaRange | None:
    """Return the offsets of a partition that are due, or None.

    `next_offset`: that of the partition here. `read`: up to this offset, Kafka was found to have no more records than
    are here: it ends with markers of transactions, for example.

    Raises OffsetOutOfRange as `check_end`, and, with `fail_on_data_loss`, DataLoss if records were removed in Kafka
    before they were copied. Without it, their offsets stay empty.
    """
    check_end(found, partition, next_offset)
    start, end = found.partitions[partition].start, found.partitions[partition].end
    covered = max(next_offset, read)
    if 0 < covered < start and fail_on_data_loss:
        raise DataLoss(
            f"{found.name}-{partition}: Kafka's retention removed offsets [{covered}, {start}) before they were "
            "copied; --no-fail-on-data-loss leaves them empty"
        )
    first = max(start, covered)
    return (
        None
        if first >= end
        else KafkaRange(found.name, partition, next_offset, first, end, max_records, plan=found.name)
    )


def carried_config(found: FoundTopic) -> tuple[dict[str, str], list[str]]:
    """Return the config for the mirror of a topic, and a line for each key of the topic that is not carried over.

    Carried over are the keys of CARRIED with their effective values, and those that were set for the topic itself, if
    both clusters know them and they don't suit the brokers of one cluster.
    """
    config: dict[str, str] = {}
    left: list[str] = []
    for key in sorted(found.own.union(CARRIED).intersection(found.config)):
        value, reason = found.config[key], ""
        if key in TOPIC_KEYS and key not in _OF_ONE_CLUSTER:
            try:
                config |= parse_topic_config({key: value})
                continue
            except InvalidConfig as error:
                reason = f": {error.message}"
        left.append(f"{found.name}: {key}={value} is not carried over{reason}")
    return config, left
