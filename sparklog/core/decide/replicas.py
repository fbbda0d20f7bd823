"""Replicas: reports of agents, lagging replicas, elections and moves (KIP-455, KIP-460, KIP-497)."""

from __future__ import annotations

from sparklog.core.commands import (
    DropLagging,
    Election,
    ElectLeaders,
    LaggingReplicas,
    Move,
    MoveReplicas,
    ReplicaReport,
    ReportReplicas,
)
from sparklog.core.config.topic_config import TopicConfig
from sparklog.core.decide.changes import empty_end, held_end, named_end, of_each, reachable_stores, silent_stores
from sparklog.core.errors import InvalidReplicaAssignment, OffsetOutOfRange, StaleBrokerEpoch
from sparklog.core.lookup import registered_store
from sparklog.core.records import Record
from sparklog.core.replication.election import elect, elect_store
from sparklog.core.replication.isr import LogEndReport, drop_lagging, report
from sparklog.core.replication.partition import Replication, ReplicationChange
from sparklog.core.replication.reassignment import move
from sparklog.core.state import ClusterState
from sparklog.core.types import TopicPartition


def decide_report_replicas(state: ClusterState, command: ReportReplicas) -> tuple[Record, ...]:
    """Raise the log ends of a store's replicas as reported. A replica that has caught up joins the ISR.

    Raises StaleBrokerEpoch if the store has another registration, or is fenced.
    """
    store = registered_store(state, command.store)
    registrations, silent = state.registrations(), silent_stores(state)
    if registrations.get(store.store) != command.registration:
        raise StaleBrokerEpoch(
            f"store {store.store} is registered as {store.registration}{' and fenced' if store.fenced else ''}, its "
            f"agent reports for {command.registration}"
        )

    def reported(replica: ReplicaReport, before: Replication, config: TopicConfig) -> ReplicationChange:
        before.log_end(store.store)
        if not 0 <= replica.log_end <= before.next_offset:
            raise OffsetOutOfRange(
                f"store {store.store} reports a log end of {replica.log_end}, the next offset is {before.next_offset}"
            )
        end = named_end(state, _key(replica), held_end(state, _key(replica), replica.log_end), store.store)
        said = LogEndReport(store.store, command.registration, replica.leader_epoch, replica.version, end)
        return report(before, said, registrations, config.min_insync_replicas, silent=silent)

    return of_each(state, [(_key(replica), replica) for replica in command.replicas], reported)


def decide_drop_lagging(state: ClusterState, command: DropLagging) -> tuple[Record, ...]:
    """Remove lagging replicas from the ISR, except leaders and replicas that have caught up since."""

    def dropped(lagging: LaggingReplicas, before: Replication, config: TopicConfig) -> Replication:
        for store in lagging.stores:
            before.log_end(store)
        return drop_lagging(before, lagging.stores, lagging.leader_epoch, lagging.version, config.min_insync_replicas)

    return of_each(state, [(_key(lagging), lagging) for lagging in command.lagging], dropped)


def decide_elect_leaders(state: ClusterState, command: ElectLeaders) -> tuple[Record, ...]:
    """Elect leaders, and forget the slices that the new leaders lack."""
    reachable = reachable_stores(state)

    def elected(election: Election, before: Replication, config: TopicConfig) -> ReplicationChange:
        if election.store is None:
            return elect(before, reachable, config.min_insync_replicas, unclean=command.unclean)
        return elect_store(before, election.store, reachable, config.min_insync_replicas, unclean=command.unclean)

    return of_each(state, [(_key(election), election) for election in command.elections], elected)


def decide_move_replicas(state: ClusterState, command: MoveReplicas) -> tuple[Record, ...]:
    """Begin moves. The old replicas stay until the new ones are in sync."""
    usable, silent = list(state.registrations()), silent_stores(state)

    def moved(wanted: Move, before: Replication, config: TopicConfig) -> Replication:
        unknown = [store for store in wanted.replicas if store not in state.stores]
        if unknown:
            raise InvalidReplicaAssignment(f"wanted stores of {sorted(state.stores)}, found {unknown}")
        end = empty_end(state, _key(wanted))
        return move(before, wanted.replicas, usable, config.min_insync_replicas, end, silent=silent)

    return of_each(state, [(_key(wanted), wanted) for wanted in command.moves], moved, together=True)


def _key(named: ReplicaReport | LaggingReplicas | Election | Move) -> TopicPartition:
    return TopicPartition(named.topic_id, named.partition)
