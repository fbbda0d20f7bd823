"""A mirror topic becomes an ordinary one: a leader epoch begins after the last offset of the mirror."""

from __future__ import annotations

import msgspec

from sparklog.core.describe.readable import counted
from sparklog.core.errors import NoReplicaOnline, NotEnoughReplicas, OffsetOutOfRange
from sparklog.core.replication.epoch_history import opened, truncated
from sparklog.core.replication.partition import Replication, settled
from sparklog.core.types import LeaderEpoch, Offset


def promoted(value: Replication, end: Offset, min_isr: int) -> Replication:
    """Return the replicas after the promotion: the same leader opens the next epoch at `end`, the new next offset.

    The offsets from the old next offset to `end` become a gap, which counts as held by every replica: one that had the
    whole log has it still. Raises OffsetOutOfRange if `end` is below the next offset, NoReplicaOnline if there is no
    leader, and NotEnoughReplicas if fewer replicas are in sync than a write needs.
    """
    if end < value.next_offset:
        raise OffsetOutOfRange(f"the end of a mirror is at or above the next offset {value.next_offset}, found {end}")
    if value.leader is None:
        raise NoReplicaOnline(f"the partition has no leader, its replicas are {list(value.replicas)}")
    if len(value.isr) < value.required_isr(min_isr):
        raise NotEnoughReplicas(
            f"a promotion needs {counted(value.required_isr(min_isr), 'store')} in sync (min.insync.replicas), found "
            f"{list(value.isr)}"
        )
    epoch = LeaderEpoch(value.leader_epoch + 1)
    after = msgspec.structs.replace(
        value,
        leader_epoch=epoch,
        next_offset=end,
        log_ends=tuple(end if log_end == value.next_offset else log_end for log_end in value.log_ends),
        epochs=opened(truncated(value.epochs, value.next_offset), epoch, end),
    )
    return settled(value, after, min_isr)
