"""Positions of a consumer in each of its partitions: rebalances, resets, seeks, pauses and turns, without I/O.

    change = positions.change(share, generation)     how a new share differs from the present one
    positions.take(change)
    positions.begin(state, committed)                choose the start in new partitions
    for unread in positions.unread(state):           what can be read now, least recently read partitions first
        positions.has_read(unread.key, offset, …)    the caller has everything below this offset
    positions.to_commit()

A position is the end of the records that the caller was given, not of those that were fetched. So a commit never covers
a record that the caller has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from sparklog.core.errors import DataLoss, OffsetOutOfRange
from sparklog.core.groups.membership import CommittedOffset, GroupGeneration
from sparklog.core.lookup import existing_partition
from sparklog.core.reading.positions import Position, valid_up_to
from sparklog.core.state import ClusterState, Partition
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange, Place, TopicId, TopicPartition


class AutoOffsetReset(StrEnum):
    """Kafka's policy for a partition in which no offset was committed, or the consumer's position is not in the log."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"  # raise an error


@dataclass(frozen=True, slots=True)
class ShareChange:
    """A new share of the partitions, with the names of their topics, and its difference from the present share.

    A partition that the consumer keeps may be in both `revoked` and `assigned`: its position is chosen again.
    """

    share: Mapping[TopicPartition, str]
    generation: GroupGeneration | None
    revoked: tuple[TopicPartition, ...]
    assigned: tuple[TopicPartition, ...]


class Unread(msgspec.Struct, frozen=True):
    """The offsets of a partition that can be read now, from the consumer's position on; at least one."""

    key: TopicPartition
    topic: str
    offsets: OffsetRange

    def after(self, offset: Offset) -> Unread:
        """The part of these offsets from `offset` on, perhaps empty."""
        return Unread(self.key, self.topic, OffsetRange(offset, max(offset, self.offsets.end)))


@dataclass(slots=True)
class _HeldPartition:
    """A partition that the consumer holds. `offset` is its position, None until `begin` has chosen a start.

    `base` is the position after the last commit or seek, or at the start. The records from there to `offset` were given
    to the caller, and are not committed. `committed` is the offset of the last commit, or None.
    """

    topic: str
    offset: Offset | None = None
    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    committed: Offset | None = None
    base: tuple[Offset, LeaderEpoch] | None = None
    paused: bool = False


class ConsumerPositions:
    """The partitions of one consumer. `warnings` collects texts to log; the caller empties the list.

    The argument `known` is the number of partitions of each topic when the consumer subscribed. In partitions that were
    added later, the policy LATEST begins at the log start, so that no record since the subscription is left out.
    """

    def __init__(
        self, chain_id: str, reset: AutoOffsetReset, known: Mapping[TopicId, int], *, fail_on_data_loss: bool = True
    ) -> None:
        self.generation: GroupGeneration | None = None
        self.warnings: list[str] = []
        self._chain_id = chain_id
        self._reset = reset
        self._known = known
        self._fail_on_data_loss = fail_on_data_loss
        self._held: dict[TopicPartition, _HeldPartition] = {}  # least recently read first
        self._keys: dict[Place, TopicPartition] = {}

    # ---- its share ------------------------------------------------------------------------------

    def change(self, share: Mapping[TopicPartition, str], generation: GroupGeneration | None) -> ShareChange | None:
        """Return the difference between `share` and the present share; None if share and generation are the same.

        A partition in both shares keeps its position if `generation` is the present one or the next, because no other
        member can have read it. Otherwise it is revoked and assigned again, so that it begins at the committed offset.
        Without a group (`generation` is None), it always keeps its position.
        """
        if generation == self.generation and share.keys() == self._held.keys():
            return None
        is_next = generation is None or generation == self.generation or generation.follows(self.generation)
        kept = share.keys() & self._held.keys() if is_next else frozenset()
        revoked = tuple(key for key in sorted(self._held) if key not in kept)
        assigned = tuple(key for key in sorted(share) if key not in kept)
        return ShareChange(dict(share), generation, revoked, assigned)

    def take(self, change: ShareChange) -> None:
        """Make this change: give up the revoked partitions, and add the assigned ones."""
        for key in change.revoked:
            del self._keys[self._held.pop(key).topic, key.partition]
        for key in change.assigned:
            self._held[key] = _HeldPartition(change.share[key])
            self._keys[change.share[key], key.partition] = key
        self.generation = change.generation

    @property
    def share(self) -> dict[TopicPartition, str]:
        """The consumer's partitions in ascending order, with the names of their topics."""
        return {key: self._held[key].topic for key in sorted(self._held)}

    def key(self, place: Place) -> TopicPartition | None:
        """The partition with this topic name and index; None if the consumer does not have it."""
        return self._keys.get((place[0], place[1]))

    # ---- positions ------------------------------------------------------------------------------

    def begin(
        self, state: ClusterState, committed: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, Position]:
        """Choose a start where there is no position yet: the committed offset, else by the reset policy.

        Returns the positions chosen by LATEST, which depend on when the consumer started. A group should commit them at
        once. Otherwise a member that takes over before the first commit begins at the end that the log has by then, and
        the records in between are never read. Raises OffsetOutOfRange if nothing is committed and the policy is NONE.
        """
        at_end: dict[TopicPartition, Position] = {}
        for key, held in self._held.items():
            partition = state.partitions.get(key)
            if held.offset is not None or partition is None:
                continue
            row = committed.get(key)
            if row is not None:
                held.offset, held.leader_epoch, held.committed = row.offset, row.leader_epoch, row.offset
                held.base = row.offset, row.leader_epoch
                continue
            is_new = key.partition >= self._known.get(key.topic_id, 0)
            reason = "found no committed offset"
            held.offset = self._reset_to(partition, self._name(key), reason, from_start=is_new)
            held.leader_epoch = partition.replication.leader_epoch
            held.base = held.offset, held.leader_epoch
            if self._reset is AutoOffsetReset.LATEST:
                at_end[key] = self._position(key, held.offset, held.leader_epoch)
        return at_end

    def decide_again(self, keys: Collection[TopicPartition]) -> None:
        """Let `begin` choose again in these partitions: the group did not accept the start that was chosen."""
        for key in keys:
            self._held[key].offset = None

    @property
    def is_undecided(self) -> bool:
        """True if `begin` has to choose the start in some partition."""
        return any(held.offset is None for held in self._held.values())

    def position(self, key: TopicPartition) -> Position | None:
        """The consumer's position in a partition of its share; None if `begin` has not chosen it yet."""
        held = self._held[key]
        return None if held.offset is None else self._position(key, held.offset, held.leader_epoch)

    def has_read(self, key: TopicPartition, offset: Offset, leader_epoch: LeaderEpoch) -> None:
        """Note that the caller has every record below `offset`, as the log was under this leader epoch."""
        held = self._held[key]
        held.offset, held.leader_epoch = offset, leader_epoch

    def seek(self, state: ClusterState, targets: Mapping[TopicPartition, Callable[[Partition], int]]) -> None:
        """Move to new offsets: the functions in `targets` compute them from the partitions as they are in `state`.

        Raises UnknownTopicOrPartition, and OffsetOutOfRange for an offset below the log start or above the high
        watermark. After an error all positions are as before.
        """
        wanted = []
        for key, target in targets.items():
            partition = existing_partition(state, key)
            offset = target(partition)
            if not partition.log_start <= offset <= partition.high_watermark:
                raise OffsetOutOfRange(
                    f"{self._name(key)}: wanted to continue at offset {offset}, the log has [{partition.log_start}, "
                    f"{partition.high_watermark}); seek_to_beginning and seek_to_end go to its ends"
                )
            wanted.append((key, partition, Offset(offset)))
        for key, partition, offset in wanted:
            held = self._held[key]
            self._go(held, partition, offset)
            held.base = offset, held.leader_epoch

    def is_ahead(self, key: TopicPartition) -> bool:
        """True if the position is above that of the last commit, seek or start: records in between aren't committed."""
        held = self._held[key]
        return held.base is not None and held.offset is not None and held.offset > held.base[0]

    def go_back(self) -> None:
        """Go back to the last commit or seek in each partition, or else to where this consumer started."""
        for held in self._held.values():
            if held.base is not None and held.offset is not None:
                held.offset, held.leader_epoch = held.base

    def unread(self, state: ClusterState) -> Iterator[Unread]:
        """Yield the offsets that can be read now, least recently read partitions first.

        Deleted and paused partitions are left out, and those without a position. A position that is not in the log is
        reset by the policy. If the policy is NONE, OffsetOutOfRange is raised.

        If an unclean election gave up records that the consumer has read, DataLoss is raised. With the constructor's
        `fail_on_data_loss=False`, the position goes back to the first of these records instead. Raises
        InconsistentClusterId if the state is of another cluster, and UnknownLeaderEpoch if it is older than a position.
        """
        for key, held in list(self._held.items()):
            if held.paused or held.offset is None:
                continue
            partition = state.partitions.get(key)
            if partition is None:
                continue
            at = self._checked(state, key, held, held.offset, partition)
            if at < partition.high_watermark:
                yield Unread(key, held.topic, OffsetRange(at, partition.high_watermark))

    def had_turn(self, keys: Collection[TopicPartition]) -> None:
        """Note that these partitions were read last, so that `unread` yields all others before them."""
        for key in keys:
            self._held[key] = self._held.pop(key)

    def awaited(self) -> tuple[Position, ...]:
        """Return the positions at which the consumer waits for records.

        There is one for each partition, except paused ones and those in which `begin` has not chosen a start yet.
        """
        unpaused = (self.position(key) for key, held in self._held.items() if not held.paused)
        return tuple(position for position in unpaused if position is not None)

    # ---- pauses ---------------------------------------------------------------------------------

    def pause(self, key: TopicPartition, *, paused: bool = True) -> None:
        """Stop reading this partition; with `paused=False`, read it again."""
        self._held[key].paused = paused

    @property
    def paused(self) -> tuple[TopicPartition, ...]:
        """The partitions that are paused, in ascending order."""
        return tuple(key for key in sorted(self._held) if self._held[key].paused)

    # ---- commits --------------------------------------------------------------------------------

    def to_commit(self) -> dict[TopicPartition, Position]:
        """The positions that differ from the committed offsets."""
        positions = {}
        for key, held in self._held.items():
            position = self.position(key)
            if position is not None and position.offset != held.committed:
                positions[key] = position
        return positions

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note that these offsets were committed. Partitions that the consumer has given up since are ignored."""
        for key, offset in offsets.items():
            if key in self._held:
                held = self._held[key]
                held.committed, held.base = Offset(offset), (Offset(offset), held.leader_epoch)

    # ---- inside ---------------------------------------------------------------------------------

    def _checked(
        self, state: ClusterState, key: TopicPartition, held: _HeldPartition, at: Offset, partition: Partition
    ) -> Offset:
        """Return the consumer's position `at` in a partition if it is still valid, else a new position.

        In that case, also moves the consumer there and adds a warning. Raises the errors of `unread`, for example if
        the reset policy does not allow the move.
        """
        valid_to = valid_up_to(state, self._position(key, at, held.leader_epoch))
        if valid_to < at:
            loss = (
                f"{self._name(key)}: this consumer has read up to offset {at}, and an unclean election gave up records "
                f"from {valid_to} on"
            )
            if self._fail_on_data_loss:
                raise DataLoss(
                    f"{loss}; fail_on_data_loss=False, or a seek to {valid_to}, continues with the records that are "
                    "left"
                )
            self.warnings.append(f"{loss}: it continues at {valid_to}")
            self._reset_position(key, held, partition, valid_to)
            at = valid_to
        if not partition.log_start <= at <= partition.next_offset:
            reason = f"the position is {at}, the log has [{partition.log_start}, {partition.high_watermark})"
            to = self._reset_to(partition, self._name(key), reason)
            self.warnings.append(f"{self._name(key)}: {reason}: it continues at {to} (auto_offset_reset={self._reset})")
            self._reset_position(key, held, partition, to)
            at = to
        return at

    def _reset_to(self, partition: Partition, name: str, reason: str, *, from_start: bool = False) -> Offset:
        match self._reset:
            case AutoOffsetReset.EARLIEST:
                return partition.log_start
            case AutoOffsetReset.LATEST:
                return partition.log_start if from_start else partition.high_watermark
            case AutoOffsetReset.NONE:
                raise OffsetOutOfRange(
                    f"{name}: {reason}, and auto_offset_reset=none: seek, or set it to earliest or latest"
                )

    def _position(self, key: TopicPartition, offset: Offset, leader_epoch: LeaderEpoch) -> Position:
        return Position(self._chain_id, key.topic_id, key.partition, offset, leader_epoch)

    def _reset_position(self, key: TopicPartition, held: _HeldPartition, partition: Partition, to: Offset) -> None:
        """Go to `to`, which the caller of the consumer did not ask for.

        The skipped records were not given to the caller, and records from `to` on will be: so `base` moves along,
        unless there are records below `to` that were given to the caller and are not committed.
        """
        keeps_base = self.is_ahead(key) and held.base is not None and held.base[0] <= to
        self._go(held, partition, to)
        if not keeps_base:
            held.base = to, held.leader_epoch

    def _go(self, held: _HeldPartition, partition: Partition, to: Offset) -> None:
        held.offset, held.leader_epoch = to, partition.replication.leader_epoch

    def _name(self, key: TopicPartition) -> str:
        return f"{self._held[key].topic}-{key.partition}"
