"""Checks the offsets that an append to a mirror topic names.

A mirror topic has the records of a Kafka topic under Kafka's own offsets. An append says for each slice which range
of offsets it covers, and the range begins exactly at the next offset of its partition. So no record can be written
twice, and none can be left out because a later append was faster. Offsets of a range that have no record in Kafka
(compacted or aborted records, transaction markers) stay empty.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparklog.core.commands import Append
from sparklog.core.errors import InvalidInput, InvalidRequiredAcks, OffsetOutOfRange, PolicyViolation
from sparklog.core.replication.partition import Replication
from sparklog.core.replication.replica_append import Acks
from sparklog.core.state import ClusterState
from sparklog.core.types import KafkaTopic, Offset, TimestampSource, TopicPartition

_IN_COLUMN = (TimestampSource.CREATE_TIME, TimestampSource.APPEND_TIME_IN_COLUMN)


def check_takes(topic: str, mirror_of: KafkaTopic | None, *, named: bool) -> None:
    """Raise PolicyViolation unless a topic takes appends that name their offsets (`named`), or those that don't.

    `mirror_of`: the Kafka topic that it mirrors; None if it is not mirrored.
    """
    if mirror_of is not None and not named:
        raise PolicyViolation(
            f"topic {topic} mirrors {mirror_of}, so it takes only appends that name Kafka's offsets: to write other "
            f"records, promote it first (sparklog topic promote {topic})"
        )
    if mirror_of is None and named:
        raise PolicyViolation(
            f"topic {topic} is not mirrored, so it assigns offsets itself, found an append that names them: write "
            "without them; if it was mirrored, it has been promoted since (sparklog topic promote)"
        )


def check_named_offsets(
    state: ClusterState, command: Append, replicas_of: Mapping[TopicPartition, Replication]
) -> None:
    """Check the offsets that the slices name, if they name any. `replicas_of`: the partitions written to.

    Raises PolicyViolation if a topic is not mirrored but the append names offsets, or the reverse; OffsetOutOfRange if
    a slice does not begin at the next offset of its partition, or at the end of the slice before it;
    InvalidRequiredAcks unless the append is on all in-sync stores at once, because an election must not undo a part of
    the mirror, whose offsets can't be written again; InvalidInput for all else.
    """
    named = sum(slice_.offsets is not None for slice_ in command.slices)
    if named not in (0, len(command.slices)):
        raise InvalidInput(f"an append names offsets in all of its slices or in none, found {named} of them")
    for topic_id in dict.fromkeys(key.topic_id for key in replicas_of):
        check_takes(state.topics[topic_id].name, state.topics[topic_id].mirror_of, named=named > 0)
    if not named:
        return
    if command.acks is not Acks.ALL or command.pull:
        raise InvalidRequiredAcks(
            "an append to a mirror topic needs acks=all on every in-sync store, so that an election can't undo it; "
            f"found acks={command.acks.name.lower()}" + (" with replication=pull" if command.pull else "")
        )
    if command.fence is not None:
        raise InvalidInput("an append to a mirror topic is no transaction of a producer, found one with a fence")
    next_offsets: dict[TopicPartition, Offset] = {key: value.next_offset for key, value in replicas_of.items()}
    for slice_ in command.slices:
        assert slice_.offsets is not None
        key = TopicPartition(slice_.topic_id, slice_.partition)
        start, end = slice_.offsets.start, slice_.offsets.end
        place = f"{state.topics[key.topic_id].name}-{key.partition}"
        if start != next_offsets[key]:
            what = "written before" if start < next_offsets[key] else "beyond a hole"
            raise OffsetOutOfRange(
                f"{place}: wanted offsets from the next offset {next_offsets[key]} on, found [{start}, {end}), which "
                f"is {what}: continue in Kafka at the next offset of the partition"
            )
        if slice_.records > end - start:
            raise InvalidInput(
                f"{place}: wanted at most one record per offset, found {slice_.records:,} in [{start}, {end})"
            )
        if slice_.producer is not None:
            raise InvalidInput(f"{place}: an append to a mirror topic has no sequences, found {slice_.producer}")
        if slice_.timestamp_source not in _IN_COLUMN:
            raise InvalidInput(
                f"{place}: wanted the timestamps of a mirror topic in their column, found a slice of source "
                f"{slice_.timestamp_source!r}"
            )
        next_offsets[key] = end
