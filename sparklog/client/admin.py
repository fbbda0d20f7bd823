"""The administration part of `Cluster`: Python programs list and change topics, stores and replicas with it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from sparklog.chain.commit.committer import DEFAULT_TIMEOUT_MS
from sparklog.client.connection import Connection
from sparklog.client.delete_records import all_done, delete_records, plan_deletions
from sparklog.client.stores.add_store import add_store, remove_store
from sparklog.core.commands import (
    AddPartitions,
    AlterCluster,
    AlterTopic,
    Command,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    FenceStore,
    MoveReplicas,
    PromoteTopic,
)
from sparklog.core.config.cluster_config import parse_cluster_config
from sparklog.core.config.topic_config import parse_topic_config
from sparklog.core.describe.replica_findings import min_isr_warning
from sparklog.core.describe.topic_rows import TopicDescription, describe_topic
from sparklog.core.lookup import partition_of, topic_of
from sparklog.core.placement.assignment import Assignment
from sparklog.core.placement.replica_plans import elections_of, moves_to, partitions_named, preferred_elections
from sparklog.core.records import CommandResult
from sparklog.core.state import ClusterState, Store, Topic
from sparklog.core.types import KafkaTopic, Offset, StoreId

log = logging.getLogger("sparklog")


class Admin:
    """Lists and changes topics, stores and replicas of one cluster, through the process's `connection` to it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    # ---- topics ---------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
        assignment: Sequence[Sequence[str]] | None = None,
        mirror_of: KafkaTopic | None = None,
    ) -> TopicDescription:
        """Create a topic. `assignment` sets the stores of each partition by hand, the preferred leader first.

        By default replicas are spread over zones, then evenly over stores. `partitions` and `replication_factor`
        default to the cluster's config. With `mirror_of`, the topic mirrors this Kafka topic until it is promoted: only
        appends with `keep_offsets` write to it. Returns the new topic's description. Raises TopicAlreadyExists,
        InvalidTopic, InvalidPartitions, InvalidReplicationFactor, InvalidReplicaAssignment, InvalidConfig.
        """
        settings = parse_topic_config(config or {})
        self.submit(CreateTopic(name, partitions, replication_factor, settings, by_hand(assignment), mirror_of))
        self._warn_of_min_isr(name)
        return self.describe(name)

    def topics(self) -> list[str]:
        """The names of all topics, in ascending order."""
        state = self.connection.newest_state()
        return sorted(state.topic_ids)

    def describe(self, name: str) -> TopicDescription:
        """Return a topic's partitions and config. Raises UnknownTopicOrPartition."""
        state = self.connection.newest_state()
        return describe_topic(state, name)

    def alter(self, name: str, *, config: Mapping[str, object]) -> None:
        """Set config keys of a topic. A value of None removes the key.

        Raises InvalidConfig, UnknownTopicOrPartition.
        """
        removed = tuple(key for key, value in config.items() if value is None)
        changed = parse_topic_config({key: value for key, value in config.items() if value is not None})
        self.submit(AlterTopic(self._topic(name).topic_id, changed, removed))
        self._warn_of_min_isr(name)

    def alter_cluster(self, config: Mapping[str, object]) -> None:
        """Set config keys of the cluster (docs/config.md). A value of None removes the key. Raises InvalidConfig."""
        removed = tuple(key for key, value in config.items() if value is None)
        changed = parse_cluster_config({key: value for key, value in config.items() if value is not None})
        self.submit(AlterCluster(changed, removed))

    def add_partitions(self, name: str, total: int, *, assignment: Sequence[Sequence[str]] | None = None) -> None:
        """Raise a topic's number of partitions to `total`. New records of a key may then go to another partition.

        `assignment` lists the stores of each new partition, the preferred leader first; by default sparklog chooses
        them. Raises InvalidPartitions, InvalidReplicationFactor, InvalidReplicaAssignment, UnknownTopicOrPartition.
        """
        self.submit(AddPartitions(self._topic(name).topic_id, total, by_hand(assignment)))

    def promote_topic(self, name: str, ends: Mapping[int, int] | None = None) -> None:
        """Turn a mirror topic into an ordinary one, permanently: the mirror job is fenced, and other writers may write.

        `ends` maps partitions to the offsets of their next records, at or above their next offsets; by default they
        continue there. Give Kafka's end offsets, and later records have the offsets that they would have in Kafka.
        Raises PolicyViolation (the topic is not mirrored), OffsetOutOfRange (an end is below the next offset),
        NoReplicaOnline, NotEnoughReplicas (of some partition; nothing was changed), UnknownTopicOrPartition.
        """
        state = self.connection.newest_state()
        self.submit(promotion_of(state, topic_of(state, name), ends or {}))

    def delete_topic(self, name: str) -> None:
        """Delete a topic at once. Maintenance jobs delete its objects once `file.delete.delay.ms` has passed.

        Raises UnknownTopicOrPartition.
        """
        self.submit(DeleteTopic(self._topic(name).topic_id))

    def delete_records(self, topic: str, offsets: Mapping[int, int]) -> dict[int, int]:
        """Delete the records of a topic below given offsets. `offsets` maps each partition to its offset.

        The offset -1 stands for the high watermark. Returns the new log start of each partition; a log start that is
        already higher stays. If any offset or partition is invalid, nothing is changed. Otherwise each partition is
        committed separately. If commits fail, raises the first error; its text says how many partitions are done. The
        same call may then be repeated. Raises OffsetOutOfRange, PolicyViolation (the topic has compaction without
        deletion), UnknownTopicOrPartition, InvalidInput (`offsets` is empty), and the errors of `submit`.
        """
        deletions = plan_deletions(self.connection, topic, offsets)
        return all_done(deletions, delete_records(self.connection, deletions))

    # ---- stores and replicas --------------------------------------------------------------------

    def stores(self) -> list[Store]:
        """The registered stores, in ascending order of their registration numbers."""
        state = self.connection.newest_state()
        return sorted(state.stores.values(), key=lambda store: store.registration)

    def add_store(self, store: str, url: str, *, zone: str | None = None) -> Store:
        """Register a new store, or register a fenced store again; see `client.stores.add_store`."""
        return add_store(self.connection, StoreId(store), url, zone)

    def fence_store(self, store: str) -> None:
        """Fence the store: until it is added again, no replica there is in sync or leads.

        Where it leads, another replica is elected if one may lead; otherwise the partition has no leader. Does nothing
        if the store is fenced already. Raises BrokerIdNotRegistered.
        """
        self.submit(FenceStore(StoreId(store)))

    def remove_store(self, store: str) -> None:
        """Remove the registration of a store that has no replicas.

        Raises BrokerIdNotRegistered, and Conflict if the store has a replica, is the only one that is not fenced, or is
        the last one that may have copies of the metadata.
        """
        remove_store(self.connection, StoreId(store))

    def move_replicas(self, topic: str, to: Sequence[str], *, partition: int | None = None) -> None:
        """Begin to move the replicas of a topic, or of one partition, to the stores `to`, the preferred leader first.

        The stores' agents copy the records; the old replicas are removed once the new ones are in sync. Begins either
        all of these moves or none. Raises InvalidReplicaAssignment, NotEnoughReplicas, PreferredLeaderNotAvailable,
        UnknownTopicOrPartition.
        """
        state = self.connection.newest_state()
        moves = moves_to(partitions_named(state, topic, partition), [StoreId(store) for store in to])
        if moves:
            self.submit(MoveReplicas(moves))

    def elect_leaders(
        self, topic: str, *, partition: int | None = None, store: str | None = None, unclean: bool = False
    ) -> None:
        """Make `store` (default: the preferred leader) the leader of `partition`, or of all partitions of the topic.

        Without `store`, a partition whose leader can't be reached gets any replica that may lead. With `unclean`, such
        a partition may get a leader that lacks committed records, which are lost: `store`, or without `store` the
        replica with the longest log, if no other may lead. A partition whose election is refused stays unchanged. If
        all are refused, raises the first error: ElectionNotNeeded, EligibleLeadersNotAvailable,
        PreferredLeaderNotAvailable, IneligibleReplica. Raises UnknownTopicOrPartition.
        """
        state = self.connection.newest_state()
        partitions = partitions_named(state, topic, partition)
        elections = (
            preferred_elections(state, partitions) if store is None else elections_of(StoreId(store), partitions)
        )
        if elections:
            self.submit(ElectLeaders(elections, unclean))

    # ---- inside ---------------------------------------------------------------------------------

    def submit(self, command: Command, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> CommandResult:
        """Commit one command. Raises the command's error, OutcomeUnknown, RequestTimedOut."""
        return self.connection.submit(command, timeout_ms)

    def _topic(self, name: str) -> Topic:
        state = self.connection.newest_state()
        return topic_of(state, name)

    def _warn_of_min_isr(self, name: str) -> None:
        """Log a warning if the topic's `min.insync.replicas` is greater than its number of replicas.

        `planned_change` words it, too, but from a decision before the commit: refusals must come from the committer.
        """
        state = self.connection.newest_state()
        topic = state.topic_named(name)
        if topic is None:  # deleted meanwhile
            return
        factor = len(state.partitions_of(topic)[0].replication.target)
        warning = min_isr_warning(name, state.topic_config(topic), factor)
        if warning is not None:
            log.warning("%s", warning)


def promotion_of(state: ClusterState, topic: Topic, ends: Mapping[int, int]) -> PromoteTopic:
    """Return the command that promotes a mirror topic. `ends`: see `Admin.promote_topic`.

    Raises UnknownTopicOrPartition.
    """
    partitions = {partition.partition: partition.next_offset for partition in state.partitions_of(topic)}
    for partition, end in ends.items():
        partitions[partition_of(state, topic, partition).partition] = Offset(end)
    return PromoteTopic(topic.topic_id, tuple(partitions.values()))


def by_hand(assignment: Sequence[Sequence[str]] | None) -> Assignment | None:
    """Convert a manual assignment (the stores of each partition) to the type that commands use; None stays None."""
    return None if assignment is None else tuple(tuple(StoreId(store) for store in stores) for stores in assignment)
