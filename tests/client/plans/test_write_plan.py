"""A write in its steps: what tasks upload under which names, what one command makes of it, which rows are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from sparklog.client.cluster import Cluster
from sparklog.client.plans import task_upload
from sparklog.client.plans.task_upload import producer_slices, upload_task_rows
from sparklog.client.plans.write_plan import Durability, TaskWritten, WritePlan, append_command
from sparklog.core.commands import Append, Application, FenceStore, Submission
from sparklog.core.config.key import LONG_MAX
from sparklog.core.errors import (
    InvalidInput,
    InvalidRecord,
    Landed,
    NoReplicaOnline,
    SparklogError,
    UnknownTopicOrPartition,
)
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import PartitionIndex, StoreId, UploadId
from tests.client import replicated_cluster
from tests.client.replicated_cluster import NOW_MS
from tests.core.decided_log import DecidedLog
from tests.kit.log import new_cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topic "t" with two partitions."""
    with new_cluster() as made:
        made.create_topic("t", partitions=2)
        yield made


def planned(cluster: Cluster, topic: str | None = "t", **how: Any) -> WritePlan:
    """The plan as a task gets it: through bytes."""
    plan = replicated_cluster.planned_write(cluster, topic, **how)
    return msgspec.msgpack.decode(msgspec.msgpack.encode(plan), type=WritePlan)


def rows(*values: str, **more: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.string()), **more})


def names(written: TaskWritten) -> set[UploadId]:
    return {each.upload_id for each in written.objects}


def commit(cluster: Cluster, plan: WritePlan, *written: TaskWritten) -> None:
    command = append_command(plan, written)
    assert command is not None
    cluster.connection.committer.submit(Submission(plan.command_id, plan.n0, command), 10_000)


def values(cluster: Cluster, partition: int = 0) -> list[bytes]:
    found: list[bytes] = cluster.read("t", partition=partition)["value"].to_pylist()
    return found


# ---- attempts of one task -----------------------------------------------------------------------------


# M: I-03
def test_each_attempt_of_a_task_uploads_under_names_of_its_own(cluster: Cluster) -> None:
    plan = planned(cluster)
    late, first = (upload_task_rows(plan, [rows("a", partition=[0])]) for _ in range(2))
    assert not names(late) & names(first)
    commit(cluster, plan, first)
    assert values(cluster) == [b"a"]


# M: I-03
def test_without_names_of_its_own_a_tasks_second_attempt_could_not_upload(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt was lost after its upload; nobody can tell its object from one that somebody committed."""
    monkeypatch.setattr(task_upload, "new_upload_id", lambda: UploadId("ab" * 16))
    plan = planned(cluster)
    upload_task_rows(plan, [rows("a", partition=[0])])
    with pytest.raises(SparklogError, match="ab" * 16):
        upload_task_rows(plan, [rows("b", partition=[0])])


def test_one_command_holds_the_tasks_in_their_order(cluster: Cluster) -> None:
    plan = planned(cluster)
    written = [upload_task_rows(plan, [rows(f"{task}", partition=[0])], sticky=task) for task in range(3)]
    commit(cluster, plan, written[2], TaskWritten(), written[0], written[1])
    assert values(cluster) == [b"2", b"0", b"1"]


def test_nothing_written_is_no_command_but_for_an_applications_version(cluster: Cluster) -> None:
    plan = planned(cluster)
    nothing = upload_task_rows(plan, [rows()])
    assert (nothing, append_command(plan, [nothing])) == (TaskWritten(), None)
    version = Application("a", 1)
    assert append_command(plan, [nothing], application=version) == Append((), (), (), version)


# ---- rows ---------------------------------------------------------------------------------------------


def test_a_topic_that_is_not_there_is_told_with_those_that_are(cluster: Cluster) -> None:
    cluster.create_topic("orders", partitions=1)
    with pytest.raises(UnknownTopicOrPartition, match=r"wanted topic 'order', .*orders, t.*did you mean orders"):
        planned(cluster, "order")
    with pytest.raises(UnknownTopicOrPartition, match=r"; no write creates a topic: sparklog topic create elsewhere$"):
        planned(cluster, "elsewhere")
    plan = planned(cluster, None)
    with pytest.raises(UnknownTopicOrPartition, match=r"a row names topic 'order', the cluster had orders, t"):
        upload_task_rows(plan, [rows("a", topic=["order"])])
    with pytest.raises(UnknownTopicOrPartition, match=r"; no write creates a topic: sparklog topic create elsewhere$"):
        upload_task_rows(plan, [rows("a", topic=["elsewhere"])])
    with pytest.raises(InvalidInput, match="no topic given"):
        upload_task_rows(plan, [rows("a")])


def test_the_topic_of_the_plan_goes_before_that_of_the_rows(cluster: Cluster) -> None:
    plan = planned(cluster)
    commit(cluster, plan, upload_task_rows(plan, [rows("a", topic=["elsewhere"], partition=[1])]))
    assert values(cluster, 1) == [b"a"]


# M: C-04
def test_a_compacted_topic_takes_no_record_without_a_key(cluster: Cluster) -> None:
    cluster.create_topic("last", partitions=1, config={"cleanup.policy": "compact"})
    plan = planned(cluster, "last")
    with pytest.raises(InvalidRecord, match="found 1 without in a batch of 2"):
        upload_task_rows(plan, [rows("a", "b", key=["k", None])])
    assert upload_task_rows(plan, [rows("a", "b", key=["k", "l"])]).objects


# M: C-04
def test_a_topic_that_became_compacted_meanwhile_takes_no_record_without_a_key(cluster: Cluster) -> None:
    cluster.create_topic("other", partitions=1)
    plan = planned(cluster, None)
    given = [rows("a", "b", key=["k", None], topic=["t"] * 2), rows("c", topic=["other"])]
    without, other = (upload_task_rows(plan, [each]) for each in given)
    keyed = upload_task_rows(plan, [rows("a", key=["k"], topic=["t"], partition=[0])])
    cluster.alter("t", config={"cleanup.policy": "compact"})
    with pytest.raises(InvalidRecord, match="topic t is compacted, so each record needs a key") as refused:
        commit(cluster, plan, without, other)
    assert refused.value.landed is Landed.NO
    commit(cluster, planned(cluster, None), keyed, other)
    assert values(cluster) == [b"a"]


@pytest.mark.parametrize("limit_ms", [LONG_MAX - 1, 9 * 10**18, (1 << 63) // 1000])
def test_a_limit_that_no_timestamp_can_pass_is_none(cluster: Cluster, limit_ms: int) -> None:
    """Kafka takes such limits too; the plan travels to tasks in 64 bit."""
    config = {f"message.timestamp.{which}.max.ms": limit_ms for which in ("before", "after")}
    cluster.create_topic("timed", partitions=1, config=config)
    topic = planned(cluster, "timed").topics["timed"]
    assert topic.newest_us is None
    assert topic.oldest_us == (None if limit_ms > 10**17 else (NOW_MS - limit_ms) * 1000)


@pytest.mark.parametrize(
    ("at_ms", "error"),
    [(NOW_MS - 1_000, None), (NOW_MS - 1_001, "from .* on"), (NOW_MS + 500, None), (NOW_MS + 501, "up to")],
)
def test_timestamps_outside_of_what_the_topic_takes_are_refused(
    cluster: Cluster, at_ms: int, error: str | None
) -> None:
    config = {"message.timestamp.before.max.ms": 1_000, "message.timestamp.after.max.ms": 500}
    cluster.create_topic("timed", partitions=1, config=config)
    plan = planned(cluster, "timed")
    times = pa.array([NOW_MS * 1000, at_ms * 1000, None], pa.timestamp("us", "UTC"))
    if error is None:
        assert upload_task_rows(plan, [rows("a", "b", "c", timestamp=times)]).slices[0].records == 3
    else:
        with pytest.raises(InvalidRecord, match=f"timed takes timestamps {error}"):
            upload_task_rows(plan, [rows("a", "b", "c", timestamp=times)])
    assert upload_task_rows(plan, [rows("a", timestamp=pa.array([None], pa.timestamp("us", "UTC")))]).objects


# ---- producers ----------------------------------------------------------------------------------------


def test_slices_are_numbered_one_after_the_other_also_over_the_last_sequence() -> None:
    log = DecidedLog()
    found = producer_slices([log.part(2), log.part(3)], (7, 1, (1 << 31) - 1))
    spans = [each.producer for each in found]
    assert [(each.first_sequence, each.last_sequence) for each in spans if each] == [((1 << 31) - 1, 0), (1, 3)]
    with pytest.raises(InvalidInput, match="goes to one partition"):
        producer_slices([log.part(1, 0), log.part(1, 1)], (7, 1, 0))


# ---- stores -------------------------------------------------------------------------------------------


@pytest.fixture
def spread() -> Iterator[Cluster]:
    """Topic "t" with five partitions of two replicas each, over five stores."""
    with new_cluster("abcde") as made:
        made.create_topic("t", assignment=[["a", "b"], ["b", "a"], ["c", "d"], ["e", "a"], ["d", "c"]])
        yield made


def holders_of(plan: WritePlan, partition: int) -> str:
    return "".join(holder.store for holder in plan.topics["t"].stores_of(PartitionIndex(partition)))


def stored(cluster: Cluster, name: str) -> list[str]:
    return [key for key in replicated_cluster.objects(cluster, name) if key.endswith(".arrow")]


# M: S-01
def test_each_partition_goes_to_its_own_stores_and_those_with_the_same_share_an_object(spread: Cluster) -> None:
    plan = planned(spread)
    assert [holders_of(plan, partition) for partition in range(5)] == ["ab", "ab", "cd", "ae", "cd"]
    written = upload_task_rows(plan, [rows(*"01234", partition=[0, 1, 2, 3, 4])])
    assert len(written.objects) == 3
    commit(spread, plan, written)
    assert [values(spread, partition) for partition in range(5)] == [[b"0"], [b"1"], [b"2"], [b"3"], [b"4"]]
    assert {name: len(stored(spread, name)) for name in "abcde"} == {"a": 2, "b": 1, "c": 1, "d": 1, "e": 1}


def test_a_pulled_write_goes_to_the_leaders(spread: Cluster) -> None:
    plan = planned(spread, durability=Durability(Acks.LEADER, pull=True))
    assert [holders_of(plan, partition) for partition in range(5)] == ["a", "b", "c", "e", "d"]


def test_a_partition_without_a_leader_goes_to_those_of_its_stores_that_are_there(spread: Cluster) -> None:
    for name in "ba":
        spread.submit(FenceStore(StoreId(name)))
    plan = planned(spread)
    assert [holders_of(plan, partition) for partition in range(5)] == ["", "", "cd", "e", "cd"]
    with pytest.raises(NoReplicaOnline, match="t-1: no store of its replicas could be reached when this write began"):
        upload_task_rows(plan, [rows("a", partition=[1])])
    assert upload_task_rows(plan, [rows("a", partition=[3])]).objects


def test_a_plan_names_few_sets_of_stores_for_many_partitions(spread: Cluster) -> None:
    spread.create_topic("wide", partitions=1_000, replication_factor=2)
    topic = planned(spread, "wide").topics["wide"]
    assert len(topic.store_sets) <= 10
    assert len(topic.set_of) == 1_000
    assert planned(spread, "t").lag_time_max_ms == 30_000
    spread.create_topic("one", assignment=[["a", "b"]] * 3)
    assert planned(spread, "one").topics["one"].set_of == ()
