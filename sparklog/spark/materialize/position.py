"""The position in a topic that a Delta table stores.

Each commit of the job carries two values. Delta's own transaction identifier (`txnAppId`, `txnVersion`) holds the
number of the step, and the user metadata of the commit holds a TablePosition with the same number. Step n + 1 is
planned from the position of step n. Delta refuses or skips a second step n + 1, whatever its offsets are, so two copies
of the job can't both add a record. An end offset could not serve as the version: a second copy that has seen more
records would plan a longer range with a greater end, and Delta would accept it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from sparklog.core.errors import Conflict
from sparklog.core.reading.positions import Position
from sparklog.core.types import LeaderEpoch, Offset, PartitionIndex, TopicId

_FIELD: Final = "sparklog.materialize"  # field of the JSON object in the user metadata of a commit


class Mode(StrEnum):
    """The contents of a table: every record (append), or only the newest record of each key (latest)."""

    APPEND = "append"  # a row for each record
    LATEST = "latest"  # a row for each key: its newest record, unless that is a tombstone


class PartitionEnd(msgspec.Struct, frozen=True, array_like=True):
    """The table's position in one partition: the table has the records below `offset`.

    `leader_epoch`: the partition's leader epoch when the step that ends at `offset` was planned.
    """

    partition: PartitionIndex
    offset: Offset
    leader_epoch: LeaderEpoch


class TablePosition(msgspec.Struct, frozen=True):
    """The position of a table after a commit of the job. `step` numbers the commits from 1; `run` is the run's id."""

    chain_id: str
    topic_id: TopicId
    topic: str
    mode: Mode
    step: int
    run: str
    ends: tuple[PartitionEnd, ...] = ()

    @property
    def app_id(self) -> str:
        """The `txnAppId` of the commits."""
        return app_id(self.chain_id, self.topic_id)

    def to_metadata(self) -> str:
        """This position as the user metadata of a commit."""
        return msgspec.json.encode({_FIELD: self}).decode()

    def of_partition(self, partition: PartitionIndex) -> Position | None:
        """The table's position in this partition, or None if no commit has named the partition yet."""
        for end in self.ends:
            if end.partition == partition:
                return Position(self.chain_id, self.topic_id, partition, end.offset, end.leader_epoch)
        return None


def app_id(chain_id: str, topic_id: TopicId) -> str:
    """The `txnAppId` of the commits that fill a table from this topic. Delta keeps the last step's number with it."""
    return f"sparklog/{chain_id}/{topic_id}"


def of_metadata(text: str | None) -> TablePosition | None:
    """The position in the user metadata of a commit; None if another program made the commit."""
    if text is None or _FIELD not in text:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, TablePosition]).get(_FIELD)
    except msgspec.DecodeError:
        return None


def check_same_source(position: TablePosition, topic: str, topic_id: TopicId, mode: Mode, table: str) -> None:
    """Raise Conflict if the table at `position` is filled from another topic than this one, or in another mode.

    A topic that was deleted and created again counts as another topic. `core.reading.positions.valid_up_to` checks that
    the chain is the same.
    """
    if position.topic != topic:
        raise Conflict(
            f"{table}: wanted a table for topic {topic}, found one that topic {position.topic} fills: name another "
            "table"
        )
    if position.topic_id != topic_id:
        raise Conflict(
            f"{table}: wanted a table for topic {topic} (id {topic_id}), found the records of an earlier topic of that "
            f"name (id {position.topic_id}), which was deleted: name another table, or drop this one"
        )
    if position.mode is not mode:
        raise Conflict(
            f"{table}: wanted a table filled with --mode {mode}, found one filled with --mode {position.mode}: name "
            "another table"
        )
