"""Plans a write to several partitions and topics: planned once, uploaded by many tasks, committed by one command.

    plan_write (driver) -> upload_task_rows (each task, uploads) -> append_command, commit_append (driver) -> an entry

Plans and the results of tasks are plain values, which are sent between processes as bytes. Nothing is visible before
the commit. Objects that no commit names are orphans, which vacuum removes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from sparklog.core.commands import Append, Application, CommitOffsets, PartitionEpoch
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.config.timestamp_bounds import timestamp_bounds
from sparklog.core.decide.named_offsets import check_takes
from sparklog.core.lookup import topic_of
from sparklog.core.names.topic_names import check_not_internal
from sparklog.core.replication.partition import Replication
from sparklog.core.replication.replica_append import Acks
from sparklog.core.state import ClusterState
from sparklog.core.types import (
    CommandId,
    EntryNumber,
    Holder,
    KafkaTopic,
    LeaderEpoch,
    NewObject,
    NewSlice,
    Offset,
    PartitionIndex,
    StoreId,
    TopicId,
)
from sparklog.log.cluster_stores import StoreAddresses


class Durability(msgspec.Struct, frozen=True):
    """Settings of a write. `acks`: when it counts as done.

    `pull`: tasks upload only to the leaders' stores, from which agents fetch the records for the other replicas.
    """

    acks: Acks = Acks.ALL
    pull: bool = False


class PlannedTopic(msgspec.Struct, frozen=True, array_like=True):
    """A topic to write to, as it was when the write began. `epochs[p]` is the leader epoch of partition p.

    `store_sets`: the different sets of stores to which partitions are written. `set_of[p]`: the index of partition p's
    set in `store_sets`; `set_of` is empty if all partitions have the same set. `needs_key`: the topic is compacted.
    `oldest_us`, `newest_us`: limits of the records' timestamps, in microseconds; None: no limit. `mirror_of`: the Kafka
    topic that a mirror topic mirrors. `next_offsets[p]`: the next offset of its partition p; () for all other topics.
    """

    topic_id: TopicId
    name: str
    partitions: int
    epochs: tuple[LeaderEpoch, ...]
    store_sets: tuple[tuple[Holder, ...], ...]
    set_of: tuple[int, ...]
    max_message_bytes: int
    compression: str
    needs_key: bool
    oldest_us: int | None
    newest_us: int | None
    mirror_of: KafkaTopic | None = None
    next_offsets: tuple[Offset, ...] = ()

    def stores_of(self, partition: PartitionIndex) -> tuple[Holder, ...]:
        """The stores to which a partition's records are uploaded; empty if all stores of its replicas are fenced."""
        return self.store_sets[self.set_of[partition] if self.set_of else 0]


class WritePlan(msgspec.Struct, frozen=True):
    """The plan of a write: all that its tasks need. Every attempt to commit it has the same `n0` and `command_id`.

    If `topic` is None, each row names its topic. `incarnations`: the registered INCARNATION of each store.
    `lag_time_max_ms`: the total time that one store may delay a task. `catching_up`: stores that are in no ISR of these
    topics, but have replicas that are catching up; tasks write to them, too, but wait for them only briefly.
    """

    addresses: StoreAddresses
    chain_id: str
    n0: EntryNumber
    command_id: CommandId
    topics: dict[str, PlannedTopic]
    topic: str | None
    incarnations: dict[StoreId, str]
    lag_time_max_ms: int
    durability: Durability = Durability()
    catching_up: tuple[StoreId, ...] = ()


class TaskWritten(msgspec.Struct, frozen=True):
    """The uploads of one task. The `object_index` of a slice is an index into `objects`.

    `keyless`: the topics to which the task wrote records without a key. `not_taken`: for each store that should hold
    objects of the task but does not, the reason as a short text.
    """

    objects: tuple[NewObject, ...] = ()
    slices: tuple[NewSlice, ...] = ()
    keyless: tuple[TopicId, ...] = ()
    not_taken: dict[StoreId, str] = {}


def plan_write(
    state: ClusterState,
    addresses: StoreAddresses,
    command_id: CommandId,
    *,
    topic: str | None,
    compression: str | None,
    now_ms: int,
    durability: Durability = Durability(),  # noqa: B008 - a frozen value
    among: Collection[str] | None = None,
    keep_offsets: bool = False,
) -> WritePlan:
    """Plan a write to `topic`, or, if `topic` is None, to the topics that the rows name.

    `among`: the topics that rows may name; None: any. `compression` is used by topics whose config has none.
    `keep_offsets`: the records keep the offsets that the rows name. Raises UnknownTopicOrPartition, InvalidTopic (an
    internal topic), and PolicyViolation if a topic named here is mirrored, or not, unlike the write.
    """
    wanted = [topic] if topic is not None else among
    for name in wanted or ():
        check_not_internal(name)
    names = list(state.topic_ids) if wanted is None else [_named(state, name) for name in wanted]
    topics = {name: _planned(state, name, compression, now_ms, pull=durability.pull) for name in names}
    for name in wanted or ():
        check_takes(name, topics[name].mirror_of, named=keep_offsets)
    return WritePlan(
        addresses,
        state.chain_id,
        state.n0,
        command_id,
        topics,
        topic,
        {store.store: store.incarnation for store in state.stores.values()},
        effective_cluster(state.config).replica_lag_time_max_ms,
        durability,
        _catching_up(state, topics.values()),
    )


def append_command(
    plan: WritePlan,
    written: Sequence[TaskWritten],
    *,
    application: Application | None = None,
    label: str = "",
    consumed: CommitOffsets | None = None,
) -> Append | None:
    """The command that appends the uploads of all tasks, in the order of `written`; None if there is nothing to commit.

    `application` and `consumed` are committed even if there are no rows. The application's version then counts as
    written: a later write with the same version adds nothing, as in Delta.
    """
    objects: list[NewObject] = []
    slices: list[NewSlice] = []
    for of_task in written:
        slices += [
            msgspec.structs.replace(slice_, object_index=slice_.object_index + len(objects))
            for slice_ in of_task.slices
        ]
        objects += of_task.objects
    if not slices and application is None and consumed is None:
        return None
    by_id = {topic.topic_id: topic for topic in plan.topics.values()}
    touched = dict.fromkeys((slice_.topic_id, slice_.partition) for slice_ in slices)
    epochs = tuple(
        PartitionEpoch(topic_id, partition, by_id[topic_id].epochs[partition]) for topic_id, partition in touched
    )
    keyless = {topic_id for of_task in written for topic_id in of_task.keyless}
    acks, pull = plan.durability.acks, plan.durability.pull
    return Append(
        tuple(objects),
        tuple(slices),
        epochs,
        application,
        label,
        tuple(sorted(keyless)),
        acks,
        pull,
        # If the leader's store did not take the write, another replica may lead, in the entry of the write.
        take_over=acks is Acks.ALL and not pull and any(of_task.not_taken for of_task in written),
        consumed=consumed,
    )


def create_first(name: str) -> str:
    """The last part of an error text about the missing topic `name`. It says how to create the topic."""
    return f"; no write creates a topic: sparklog topic create {name}"


def _named(state: ClusterState, name: str) -> str:
    return topic_of(state, name, advice=create_first(name)).name


def _planned(state: ClusterState, name: str, compression: str | None, now_ms: int, *, pull: bool) -> PlannedTopic:
    topic = state.topics[state.topic_ids[name]]
    config = state.topic_config(topic)
    replications = [partition.replication for partition in state.partitions_of(topic)]
    live = frozenset(store.store for store in state.stores.values() if store.agent_up and not store.fenced)
    store_sets, set_of = _store_sets(replications, state.registrations(), live, pull=pull)
    return PlannedTopic(
        topic.topic_id,
        name,
        topic.partitions,
        tuple([value.leader_epoch for value in replications]),
        store_sets,
        set_of,
        config.max_message_bytes,
        config.compression_type or compression or "zstd",
        config.compact,
        *timestamp_bounds(config, now_ms),
        topic.mirror_of,
        () if topic.mirror_of is None else tuple(value.next_offset for value in replications),
    )


def _catching_up(state: ClusterState, topics: Iterable[PlannedTopic]) -> tuple[StoreId, ...]:
    """The stores in the topics' `store_sets` that are in no ISR of these topics, in ascending order.

    Empty if the `store_sets` have only one store: tasks must wait for that store in any case.
    """
    planned = {holder.store for topic in topics for holders in topic.store_sets for holder in holders}
    if len(planned) < 2:
        return ()
    in_sync: set[StoreId] = set()
    for topic in topics:
        for partition in state.partitions_of(state.topics[topic.topic_id]):
            in_sync.update(partition.replication.isr)
            if in_sync >= planned:
                return ()
    return tuple(sorted(planned - in_sync))


def _store_sets(
    replications: Sequence[Replication], registrations: Mapping[StoreId, int], live: Collection[StoreId], *, pull: bool
) -> tuple[tuple[tuple[Holder, ...], ...], tuple[int, ...]]:
    """Choose the stores to which each partition is written: `store_sets` and `set_of` of a PlannedTopic.

    A partition is written to its ISR and to its replicas on `live` stores; with `pull`, only to its leader. Without a
    leader, it is written to all its replicas on registered stores that are not fenced (with `pull`, to one of them), so
    that the next leader has the objects.
    """
    store_sets: dict[tuple[Holder, ...], int] = {}
    known: dict[tuple[StoreId, ...], int] = {}  # few, for many partitions
    set_of: list[int] = []
    for value in replications:
        leader = value.leader
        stores = value.replicas if leader is None else (leader,) if pull else value.isr
        if not pull and len(stores) < len(value.replicas):
            stores = tuple(store for store in value.replicas if store in stores or store in live)
        index = known.get(stores)
        if index is None:
            present = [store for store in sorted(stores) if store in registrations]
            holders = tuple(Holder(store, registrations[store]) for store in present[: 1 if pull else None])
            index = known[stores] = store_sets.setdefault(holders, len(store_sets))
        set_of.append(index)
    return tuple(store_sets), tuple(set_of) if len(store_sets) > 1 else ()
