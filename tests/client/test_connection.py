"""The connection that all of a process share, and what a fork does to it."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

import sparklog
from sparklog.client import connection
from sparklog.client.bootstrap import init_cluster
from sparklog.core.errors import InconsistentClusterId, SparklogError, UnknownLeaderEpoch
from sparklog.core.lookup import topic_of
from sparklog.core.reading.plan import plan_range
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange
from tests.client.shared_connections import forget_shared

FOUND = 7


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_connects_though_another_thread_of_the_parent_was_connecting(tmp_path: Path) -> None:
    init_cluster(str(tmp_path))
    with connection._shared_lock:  # as another thread may hold it just then
        child = os.fork()
        if not child:
            can = connection._shared_lock.acquire(blocking=False)
            if can:
                connection._shared_lock.release()
                connection.shared(str(tmp_path))
            os._exit(FOUND if can else 1)
    forget_shared()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == FOUND


# M: F-01
@pytest.mark.parametrize("below", ["nothing", "an older copy"])
def test_nothing_is_acknowledged_while_the_disk_of_the_metadata_is_unmounted(tmp_path: Path, below: str) -> None:
    """An entry below the mount point would be lost, and the next one on the disk would leave a gap in the chain."""
    meta, disk = tmp_path / "meta", tmp_path / "disk"
    init_cluster(str(meta), stores={"a": str(tmp_path / "a")})
    rows = pa.table({"value": ["v"]})
    with sparklog.connect(str(meta)) as cluster, sparklog.connect(str(meta)) as reader:
        cluster.create_topic("t")
        shutil.copytree(meta, tmp_path / "older")
        cluster.append("t", rows)
        reader.read("t", partition=0)
        meta.rename(disk)
        if below == "nothing":
            meta.mkdir()
        else:
            (tmp_path / "older").rename(meta)
        before = sorted(path for path in meta.rglob("*") if path.is_file())
        for writer in (cluster, reader):  # the second one has written nothing before
            with pytest.raises(SparklogError, match=r"mount its disk if it is not mounted|could not be written"):
                writer.append("t", rows, timeout_ms=300)
            if below == "nothing":
                with pytest.raises(SparklogError, match="mount its disk if it is not mounted"):
                    writer.read("t", partition=0)
        assert sorted(path for path in meta.rglob("*") if path.is_file()) == before
        shutil.rmtree(meta)
        disk.rename(meta)
        cluster.append("t", rows)
    with sparklog.connect(str(meta)) as cluster:
        assert cluster.read("t", partition=0).num_rows == 2


def test_a_range_of_another_cluster_or_of_a_later_state_is_not_planned_again() -> None:
    urls = [f"memory://{uuid.uuid4().hex}" for _ in range(2)]
    for url in urls:
        init_cluster(url)
    with sparklog.connect(urls[0]) as planner, sparklog.connect(urls[1]) as other:
        for each in (planner, other):
            each.create_topic("t", partitions=1)
            each.append("t", pa.table({"value": ["v"]}))
        state = planner.connection.newest_state()
        plan = plan_range(state, topic_of(state, "t"), 0, OffsetRange(Offset(0), Offset(1)))
        assert planner.connection.replan(plan, Offset(0)) == plan
        with pytest.raises(InconsistentClusterId, match="deleted and created again"):
            other.connection.replan(plan, Offset(0))
        with pytest.raises(UnknownLeaderEpoch):
            planner.connection.replan(replace(plan, leader_epoch=LeaderEpoch(1)), Offset(0))
