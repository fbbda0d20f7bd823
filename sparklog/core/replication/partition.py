"""The replicas of one partition as a value, and `settled`, which settles a change: ELR, HW and version."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from sparklog.core.errors import FencedLeaderEpoch, InvalidUpdateVersion, NotLeaderOrFollower, UnknownLeaderEpoch
from sparklog.core.replication.epoch_history import EpochHistory
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange, StoreId


class Replication(msgspec.Struct, frozen=True, array_like=True):
    """The replicas of a partition: their stores, their leader and its epoch, and how much of the log each replica has.

    `replicas` are in order of preference for the lead, the preferred leader first. During a move, they are the replicas
    after the move, in their new order, followed by those that are `removing`. `log_ends[i]` is the LEO of
    `replicas[i]`: the end of the contiguous part of the log that this store holds; a gap in the offsets counts as held.
    `next_offset` is the end of the log: the offset of the next record. `leader` is None while no replica may lead.
    `isr` and `elr` are in the order of `replicas`. `version` rises at every swap, truncation, loss, assignment or ISR
    change. `lost` are ranges below HW: given up by an unclean election, or by an operator because they were damaged.
    Reading them raises DataLoss. `arrived` are replicas that a move added, each with the partition's next offset at
    that time, until they have everything below that offset.
    """

    replicas: tuple[StoreId, ...]
    leader: StoreId | None
    leader_epoch: LeaderEpoch
    version: int
    isr: tuple[StoreId, ...]
    log_ends: tuple[Offset, ...]
    next_offset: Offset
    high_watermark: Offset
    log_start: Offset
    epochs: EpochHistory
    elr: tuple[StoreId, ...] = ()
    adding: tuple[StoreId, ...] = ()
    removing: tuple[StoreId, ...] = ()
    lost: tuple[OffsetRange, ...] = ()
    arrived: tuple[tuple[StoreId, Offset], ...] = ()

    def log_end(self, store: StoreId) -> Offset:
        """The LEO of the replica on this store. Raises NotLeaderOrFollower if the store has no replica."""
        if store not in self.replicas:
            raise NotLeaderOrFollower(
                f"store {store} has no replica of the partition, its replicas are on {list(self.replicas)}"
            )
        return self.log_ends[self.replicas.index(store)]

    @property
    def original(self) -> tuple[StoreId, ...]:
        """The replicas without those that a move adds: to cancel the move is to return to them."""
        return tuple(store for store in self.replicas if store not in self.adding) if self.adding else self.replicas

    @property
    def target(self) -> tuple[StoreId, ...]:
        """The replicas without those that a move removes: the replicas after the move."""
        return tuple(store for store in self.replicas if store not in self.removing) if self.removing else self.replicas

    @property
    def whole(self) -> list[StoreId]:
        """The replicas that have every committed record: each may lead without a loss (rule E1)."""
        return [store for store, end in zip(self.replicas, self.log_ends, strict=True) if end >= self.high_watermark]

    def required_isr(self, min_isr: int) -> int:
        """Return the ISR size that HW needs to move, and that writes with `acks=all` need.

        It is `min_isr`, but at most the number of replicas. Replicas that a move adds don't count until the move is
        done, so a move neither stops writes nor weakens them.
        """
        return min(min_isr, len(self.replicas) - len(self.adding))


class ReplicationChange(msgspec.Struct, frozen=True):
    """The replicas after a change that may include an election.

    `forgotten`: the offsets whose slices the election removes from the log, or None (rule E4).
    """

    after: Replication
    forgotten: OffsetRange | None = None


def created(replicas: tuple[StoreId, ...]) -> Replication:
    """The replicas of a new, empty partition: the first of them leads, and all are in sync."""
    zero, epoch = Offset(0), LeaderEpoch(0)
    return Replication(
        replicas, replicas[0], epoch, 0, replicas, (zero,) * len(replicas), zero, zero, zero, ((epoch, zero),)
    )


def settled(
    before: Replication,
    changed: Replication,
    min_isr: int,
    *,
    ineligible: Collection[StoreId] = (),
    rewritten: bool = False,
) -> Replication:
    """Settle `changed`: return it with the ELR, HW and version that follow from its ISR and LEOs, and from `before`.

    Every change ends here: appends and the agents' reports through `settled_ending_moves`, elections and others
    directly. The exceptions are `appended_everywhere` and, in rewrites.py, `rewritten_everywhere`, `move_log_start` and
    `without`.

    `ineligible` stores may have lost records, so they can't be in the ELR. With `rewritten`, the version rises even if
    neither the ISR nor the replicas changed.
    """
    isr = tuple(store for store in changed.replicas if store in changed.isr)
    if len(isr) >= changed.required_isr(min_isr):  # below that size HW stays (rule H1), and there is an ELR (rule E2)
        elr: tuple[StoreId, ...] = ()
        high_watermark = max(before.high_watermark, min(_ends_of(changed, isr)))
    else:
        had_everything = {*before.isr, *before.elr}.difference(isr, ineligible)
        elr = tuple(store for store in changed.replicas if store in had_everything)
        high_watermark = before.high_watermark
    newer = rewritten or isr != before.isr or _assignment(changed) != _assignment(before)
    return msgspec.structs.replace(
        changed,
        isr=isr,
        elr=elr,
        high_watermark=high_watermark,
        version=before.version + newer,
        arrived=still_arriving(changed),
    )


def still_arriving(value: Replication) -> tuple[tuple[StoreId, Offset], ...]:
    """Return the entries of `arrived` whose replicas still lack records from before a move added them."""
    return tuple((store, end) for store, end in value.arrived if store in value.replicas and value.log_end(store) < end)


def with_log_ends(value: Replication, log_ends: dict[StoreId, Offset]) -> Replication:
    """Return `value` with new LEOs for some of its replicas."""
    ends = tuple(log_ends.get(store, end) for store, end in zip(value.replicas, value.log_ends, strict=True))
    return msgspec.structs.replace(value, log_ends=ends)


def check_epoch(value: Replication, epoch: LeaderEpoch) -> None:
    """Raise FencedLeaderEpoch or UnknownLeaderEpoch if a request began under a different leader epoch (rule F1)."""
    if epoch < value.leader_epoch:
        raise FencedLeaderEpoch(f"it was begun under epoch {epoch}, the partition is at epoch {value.leader_epoch}")
    if epoch > value.leader_epoch:
        raise UnknownLeaderEpoch(f"it was begun under epoch {epoch}, the partition is at epoch {value.leader_epoch}")


def check_view(value: Replication, epoch: LeaderEpoch, version: int) -> None:
    """Refuse a request that was planned at a different leader epoch or version of the partition (rule F1).

    Raises FencedLeaderEpoch, UnknownLeaderEpoch, InvalidUpdateVersion.
    """
    check_epoch(value, epoch)
    if version != value.version:
        raise InvalidUpdateVersion(f"it was planned on version {version}, the partition is at version {value.version}")


def _ends_of(value: Replication, stores: Collection[StoreId]) -> list[Offset]:
    return [end for store, end in zip(value.replicas, value.log_ends, strict=True) if store in stores]


def _assignment(value: Replication) -> tuple[tuple[StoreId, ...], ...]:
    return value.replicas, value.adding, value.removing
