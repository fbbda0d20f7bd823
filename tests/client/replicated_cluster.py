"""A cluster whose stores are in memory: what is written to it, and what is on its stores and replicas."""

from __future__ import annotations

from sparklog.chain.commit.committer import new_command_id
from sparklog.client.cluster import Cluster
from sparklog.client.commits.commit_write import commit_append
from sparklog.client.plans.task_upload import upload_task_rows
from sparklog.client.plans.write_plan import Durability, TaskWritten, WritePlan, append_command, plan_write
from sparklog.core.commands import NewStore, RegisterStore, ReplicaReport, ReportReplicas
from sparklog.core.records import CommandResult
from sparklog.core.replication.partition import Replication
from sparklog.core.types import PartitionIndex, StoreId, TopicId
from sparklog.log.cluster_stores import Stores
from sparklog.storage.object_store import ObjectStore
from tests.core.replication.example_partition import ends, roles
from tests.kit.log import rows

TOPIC = TopicId(1)
P0 = PartitionIndex(0)
A, B, C = (StoreId(name) for name in "abc")
NOW_MS = 1_700_000_000_000


# ---- writes -------------------------------------------------------------------------------------------


def write(cluster: Cluster, *values: str) -> CommandResult:
    return cluster.append("t", rows(values))


def planned_write(cluster: Cluster, topic: str | None = "t", durability: Durability = Durability()) -> WritePlan:  # noqa: B008
    connection = cluster.connection
    state = connection.newest_state()
    return plan_write(
        state,
        connection.addresses(state),
        new_command_id(),
        topic=topic,
        compression=None,
        now_ms=NOW_MS,
        durability=durability,
    )


def uploaded(cluster: Cluster, *values: str, durability: Durability = Durability()) -> tuple[WritePlan, TaskWritten]:  # noqa: B008
    """A plan, and what one task wrote by it."""
    plan = planned_write(cluster, durability=durability)
    return plan, upload_task_rows(plan, rows(values).to_batches())


def commit(
    cluster: Cluster,
    plan: WritePlan,
    *written: TaskWritten,
    timeout_ms: int = 60_000,
    refusals_ms: int | None = None,
) -> CommandResult:
    command = append_command(plan, written)
    assert command is not None
    return commit_append(cluster.connection, plan, written, command, timeout_ms, refusals_ms=refusals_ms)


# ---- stores -------------------------------------------------------------------------------------------


def store(cluster: Cluster, name: str) -> ObjectStore:
    opened: Stores = cluster.connection.stores(cluster.connection.follower.state)
    return opened.get(StoreId(name))


def objects(cluster: Cluster, name: str) -> list[str]:
    """The keys of the data objects and indexes on a store."""
    opened = store(cluster, name)
    return sorted(listed.key for folder in ("append/", "topics/") for listed in opened.list_keys(folder))


def copy_all(cluster: Cluster, of: str, to: str) -> None:
    """Copy what the other store has, as its agent does."""
    there = set(objects(cluster, to))
    for key in objects(cluster, of):
        if key not in there:
            store(cluster, to).put_if_absent(key, bytes(store(cluster, of).get(key)))


def come_back(cluster: Cluster, name: str) -> None:
    """Register a store again, in the life that it had."""
    known = cluster.connection.follower.state.stores[StoreId(name)]
    cluster.submit(RegisterStore(NewStore(known.store, known.url, known.incarnation)))


# ---- replicas -----------------------------------------------------------------------------------------


def replication(cluster: Cluster, partition: int = 0) -> Replication:
    """What the process has read of a partition of the first topic."""
    state = cluster.connection.follower.state
    return state.partitions_of(state.topics[TOPIC])[partition].replication


def replicas(cluster: Cluster, partition: int = 0) -> str:
    """As a:abc a9 b5 c7."""
    value = replication(cluster, partition)
    return f"{roles(value)} {ends(value)}"


def report(cluster: Cluster, name: str) -> None:
    """Say, as the agent of a store does, that it holds the whole log of the first partition."""
    value = replication(cluster)
    said = ReplicaReport(TOPIC, P0, value.leader_epoch, value.version, value.next_offset)
    registration = cluster.connection.follower.state.stores[StoreId(name)].registration
    cluster.submit(ReportReplicas(StoreId(name), registration, (said,)))
