"""`metadata=writes`: every write that is remembered comes once, whoever remembers it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster, connect
from sparklog.core.commands import RaiseFloor
from sparklog.spark.read import metadata_writes
from sparklog.spark.read.metadata_writes import Row, WritesToRead, plan_writes, rows_of_writes

ROWS = pa.table({"value": ["x", "y"], "partition": pa.array([0, 1], pa.int32())})


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    init_cluster(str(tmp_path / "c"))
    made = connect(str(tmp_path / "c"))
    made.create_topic("t", partitions=2)
    return made


def planned(cluster: Cluster) -> list[WritesToRead]:
    state = cluster.connection.newest_state()
    return plan_writes(state, cluster.connection.addresses(state))


def found(tasks: list[WritesToRead]) -> list[Row]:
    return [row for task in tasks for row in rows_of_writes(task)]


def test_tasks_share_the_entries_and_give_each_write_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(5):
        cluster.append("t", ROWS, write_id=f"w{at}", application=("job", at))
    monkeypatch.setattr(metadata_writes, "ENTRIES_PER_TASK", 2)
    tasks = planned(cluster)
    assert [list(each.commands) for each in tasks] == [[0, 1], [2, 3], [4, 5], [6]]
    rows = found(tasks)
    assert [(row[0], row[3], row[6]) for row in rows] == [(f"w{at}", at, part) for at in range(5) for part in (0, 1)]
    assert None not in {row[1] for row in rows}


def test_the_last_write_of_an_application_outlives_floor(cluster: Cluster) -> None:
    for at in range(3):
        cluster.append("t", ROWS, application=("job", at))
    state = cluster.connection.newest_state()
    floor = state.n + 1
    cluster.connection.committer.submit(cluster.connection.committer.begin(RaiseFloor(floor)))  # type: ignore[arg-type]
    rows = found(planned(cluster))
    assert [(row[1], row[2], row[3], row[4], row[6], row[7]) for row in rows] == [
        (None, "job", 2, "t", 0, 2),
        (None, "job", 2, "t", 1, 2),
    ]


def test_the_last_write_of_an_application_is_read_from_an_entry_that_is_read_anyway(cluster: Cluster) -> None:
    """It may be of a producer, and remembered by its version only."""
    cluster.append("t", ROWS, application=("job", 7))
    (task,) = planned(cluster)
    assert (task.applications, task.others) == ({("job", 7)}, ())
    forgotten = WritesToRead(task.addresses, task.topics, {n: [] for n in task.commands}, task.applications)
    assert found([forgotten]) == found([task])
    assert found([WritesToRead(task.addresses, task.topics, forgotten.commands)]) == []
