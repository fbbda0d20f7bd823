"""The change of a partition's replicas in a record: the fields that differ, with their new values.

A record has the outcome of a transition and not its reason, so `apply` need not know the rule. For an append, a rewrite
and a new log start, `apply` computes the usual outcome itself: `appended_everywhere`, `rewritten_everywhere`,
`move_log_start`. Then the change has only what differs from that; usually nothing does, and the record has no change.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from sparklog.core.replication.epoch_history import EpochHistory
from sparklog.core.replication.partition import Replication
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange, PartitionIndex, StoreId, TopicId, TopicPartition


class PartitionChange(msgspec.Struct, frozen=True):
    """New values for fields of a partition's `Replication`. Unset fields stay as they are.

    The slices from `forgotten_from` on are forgotten, along with the sequences, results and application versions of
    their writes (rule E4). `next_offset` is set only by the promotion of a mirror topic.
    """

    topic_id: TopicId
    partition: PartitionIndex
    replicas: tuple[StoreId, ...] | UnsetType = UNSET
    leader: StoreId | UnsetType | None = UNSET
    leader_epoch: LeaderEpoch | UnsetType = UNSET
    version: int | UnsetType = UNSET
    isr: tuple[StoreId, ...] | UnsetType = UNSET
    log_ends: tuple[Offset, ...] | UnsetType = UNSET
    next_offset: Offset | UnsetType = UNSET
    high_watermark: Offset | UnsetType = UNSET
    epochs: EpochHistory | UnsetType = UNSET
    elr: tuple[StoreId, ...] | UnsetType = UNSET
    adding: tuple[StoreId, ...] | UnsetType = UNSET
    removing: tuple[StoreId, ...] | UnsetType = UNSET
    lost: tuple[OffsetRange, ...] | UnsetType = UNSET
    arrived: tuple[tuple[StoreId, Offset], ...] | UnsetType = UNSET
    forgotten_from: Offset | UnsetType = UNSET

    @property
    def topic_partition(self) -> TopicPartition:
        """The key of the partition."""
        return TopicPartition(self.topic_id, self.partition)


_FIELDS = tuple(name for name in Replication.__struct_fields__ if name in PartitionChange.__struct_fields__)


def change_from(
    before: Replication, after: Replication, of: TopicPartition, forgotten: OffsetRange | None = None
) -> PartitionChange | None:
    """Return the change from `before` to `after` in partition `of`; None if they are equal and nothing is `forgotten`.

    `forgotten`: offsets whose slices are forgotten, up to the end of the log.
    """
    if after == before and forgotten is None:
        return None
    differing = {name: getattr(after, name) for name in _FIELDS if getattr(after, name) != getattr(before, name)}
    forgotten_from = UNSET if forgotten is None else forgotten.start
    return PartitionChange(of.topic_id, of.partition, **differing, forgotten_from=forgotten_from)


def changed_by(change: PartitionChange, before: Replication) -> Replication:
    """Return `before` with the new values of the change."""
    changed = {name: value for name in _FIELDS if (value := getattr(change, name)) is not UNSET}
    return msgspec.structs.replace(before, **changed)
