"""Moves and elections of many partitions at once, for operators, and their effect on each partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from sparklog.core.commands import Election, ElectLeaders, Move
from sparklog.core.decide.changes import homes
from sparklog.core.decide.replicas import decide_elect_leaders
from sparklog.core.errors import NoReassignmentInProgress, SparklogError
from sparklog.core.lookup import partition_of, registered_store, topic_of
from sparklog.core.placement.assignment import moved_off
from sparklog.core.placement.counts import replica_counts
from sparklog.core.records import PartitionsChanged, Record
from sparklog.core.replication.partition import Replication
from sparklog.core.replication.partition_change import changed_by
from sparklog.core.state import ClusterState, Partition
from sparklog.core.types import OffsetRange, StoreId


class PartitionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A partition before and after a command. `refused`: the error that kept it unchanged, or None."""

    topic: str
    partition: int
    before: Replication
    after: Replication
    refused: SparklogError | None = None

    @property
    def lost_records(self) -> int:
        """The number of offsets below the high watermark that the command gives up."""
        return _length(self.after.lost) - _length(self.before.lost)


def partitions_named(state: ClusterState, topic: str | None, partition: int | None = None) -> list[Partition]:
    """Return this partition of the topic, or all partitions of the topic if `partition` is None.

    If `topic` is None, returns the partitions of all topics, ordered by topic name and number. Raises
    UnknownTopicOrPartition.
    """
    names = sorted(state.topic_ids) if topic is None else [topic]
    topics = [topic_of(state, name) for name in names]
    if partition is not None and topic is not None:
        return [partition_of(state, topics[0], partition)]
    return [partition for named in topics for partition in state.partitions_of(named)]


def moves_to(partitions: Iterable[Partition], to: Sequence[StoreId]) -> tuple[Move, ...]:
    """Return the moves of these partitions to the stores `to`, the preferred leader first.

    A partition that is on these stores in this order, or is moving there, needs no move.
    """
    return tuple(_move(partition, tuple(to)) for partition in partitions if partition.replication.target != tuple(to))


def moves_off(state: ClusterState, leaving: StoreId, partitions: Iterable[Partition]) -> tuple[Move, ...]:
    """Return the moves that take these partitions' replicas off the store `leaving`, to stores chosen by zone and load.

    Raises BrokerIdNotRegistered if the store is unknown, and InvalidReplicationFactor if there is no other store for a
    replica.
    """
    registered_store(state, leaving)
    concerned = [partition for partition in partitions if leaving in partition.replication.target]
    load = {store: on.replicas for store, on in replica_counts(state).stores.items()}
    targets = moved_off(leaving, [partition.replication.target for partition in concerned], homes(state), load)
    return tuple(_move(partition, target) for partition, target in zip(concerned, targets, strict=True))


def moves_back(partitions: Iterable[Partition]) -> tuple[Move, ...]:
    """The moves that cancel the moves under way. Raises NoReassignmentInProgress if no move is under way."""
    moving = [partition for partition in partitions if partition.replication.adding or partition.replication.removing]
    if not moving:
        raise NoReassignmentInProgress("wanted to cancel moves of replicas, found none under way there")
    return tuple(_move(partition, partition.replication.original) for partition in moving)


def preferred_elections(state: ClusterState, partitions: Iterable[Partition]) -> tuple[Election, ...]:
    """Return the elections that make the preferred leader of each partition, its first replica, lead again.

    A partition that its preferred leader already leads needs no election. If a partition has no leader, or its leader
    can't be reached, the election is open to every replica.
    """
    elections = []
    for partition in partitions:
        value = partition.replication
        if value.leader is None or not state.stores[value.leader].reachable:
            elections.append(Election(partition.topic_id, partition.partition))
        elif value.leader != value.target[0]:
            elections.append(Election(partition.topic_id, partition.partition, value.target[0]))
    return tuple(elections)


def elections_of(store: StoreId, partitions: Iterable[Partition]) -> tuple[Election, ...]:
    """Elections that make the store lead each of these partitions."""
    return tuple(Election(partition.topic_id, partition.partition, store) for partition in partitions)


def outcomes(state: ClusterState, records: Iterable[Record]) -> list[PartitionOutcome]:
    """Return each partition that these records change, as it is in `state`, and as it will be after the change.

    Does not change `state`. The result is ordered by topic name and partition number.
    """
    changes = [change for record in records if isinstance(record, PartitionsChanged) for change in record.changes]
    results = []
    for change in changes:
        before = state.partitions[change.topic_partition].replication
        results.append(
            PartitionOutcome(
                topic=state.topics[change.topic_id].name,
                partition=change.partition,
                before=before,
                after=changed_by(change, before),
            )
        )
    return sorted(results, key=lambda outcome: (outcome.topic, outcome.partition))


def outcomes_of_elections(
    state: ClusterState, elections: Iterable[Election], *, unclean: bool = False
) -> list[PartitionOutcome]:
    """Return the outcome of each election, in their order; a refused one has `refused` set. Does not change `state`.

    Each election is tried alone. Raises the error of an election in a partition that does not exist.
    """
    results = []
    for election in elections:
        try:
            records = decide_elect_leaders(state, ElectLeaders((election,), unclean))
        except SparklogError as error:
            partition = state.partition(election.topic_id, election.partition)
            if partition is None:
                raise
            name, value = state.topics[election.topic_id].name, partition.replication
            results.append(
                PartitionOutcome(topic=name, partition=election.partition, before=value, after=value, refused=error)
            )
        else:
            results += outcomes(state, records)
    return results


def _move(partition: Partition, to: tuple[StoreId, ...]) -> Move:
    return Move(partition.topic_id, partition.partition, to)


def _length(ranges: Iterable[OffsetRange]) -> int:
    return sum(range_.end - range_.start for range_ in ranges)
