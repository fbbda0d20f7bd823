"""The position of a stream in all of its partitions, as Spark keeps it in the offset log of a checkpoint.

    {"version": 1, "cluster": "9f…", "offsets": {"orders": {"0": 23, "1": 7}},
     "topic_ids": {"orders": 3}, "leader_epochs": {"orders": {"1": 2}}}

`offsets` has the form that Spark's Kafka source writes. The other fields show whether the cluster or a topic was
replaced by another one of the same name, and whether an election gave up records. `leader_epochs` leaves out partitions
at epoch 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sparklog.core.config.key import shown
from sparklog.core.errors import InvalidInput, UnsupportedVersion
from sparklog.core.reading.positions import Position
from sparklog.core.types import LeaderEpoch, Offset, PartitionIndex, Place, TopicId

VERSION: Final = 1


class StreamPositions(msgspec.Struct, frozen=True):
    """The next offset to read in each partition of a stream. The keys of `at` are topic name and partition number."""

    chain_id: str
    at: Mapping[Place, Position]


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    cluster: str
    offsets: dict[str, dict[int, int]]
    topic_ids: dict[str, int]
    leader_epochs: dict[str, dict[int, int]] = {}


def to_json(positions: StreamPositions) -> dict[str, Any]:
    """The positions as JSON, always in the same order because Spark compares it as text."""
    offsets: dict[str, dict[str, int]] = {}
    topic_ids: dict[str, int] = {}
    epochs: dict[str, dict[str, int]] = {}
    for (topic, partition), position in sorted(positions.at.items()):
        offsets.setdefault(topic, {})[str(partition)] = position.offset
        topic_ids[topic] = position.topic_id
        if position.leader_epoch:
            epochs.setdefault(topic, {})[str(partition)] = position.leader_epoch
    return {
        "version": VERSION,
        "cluster": positions.chain_id,
        "offsets": offsets,
        "topic_ids": topic_ids,
        "leader_epochs": epochs,
    }


def from_json(stored: object) -> StreamPositions:
    """Parse positions. Raises UnsupportedVersion if a newer version wrote them, InvalidInput if the form is wrong."""
    version = stored.get("version") if isinstance(stored, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise UnsupportedVersion(
            f"the offsets in this checkpoint are of version {version}, wanted at most {VERSION}: a newer sparklog "
            "wrote them, so run the query with that one"
        )
    try:
        read = msgspec.convert(stored, _Stored, strict=False)
        if read.version != VERSION or read.offsets.keys() != read.topic_ids.keys():
            raise ValueError("wanted version 1, and the id of each topic")
        at: dict[Place, Position] = {
            (topic, partition): Position(
                read.cluster,
                TopicId(read.topic_ids[topic]),
                PartitionIndex(partition),
                Offset(offset),
                LeaderEpoch(read.leader_epochs.get(topic, {}).get(partition, 0)),
            )
            for topic, by_partition in read.offsets.items()
            for partition, offset in by_partition.items()
        }
    except (msgspec.ValidationError, ValueError) as error:
        raise InvalidInput(
            f"wanted the offsets of a sparklog stream, found {shown(stored)} in the checkpoint ({error}): a query that "
            "read from another source begins with a new checkpointLocation, and startingOffsets says where"
        ) from None
    return StreamPositions(read.cluster, at)
