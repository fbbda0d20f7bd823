"""Batches of one partition that keep their offsets become objects with one slice each, without holes between them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.client.plans.range_upload import RangeUpload
from sparklog.client.plans.write_plan import TaskWritten, append_command, plan_write
from sparklog.core.errors import InvalidInput, NoReplicaOnline, PolicyViolation
from sparklog.core.types import (
    KafkaTopic,
    NewSlice,
    Offset,
    PartitionIndex,
    TimestampSource,
    TopicId,
    TopicPartition,
)
from sparklog.log.batch import BatchEncoder
from sparklog.log.stored_schema import RAW, RAW_WITH_OFFSETS
from sparklog.log.write import range_writer
from sparklog.log.write.task_memory import LIMITS
from tests.servers.s3_servers import S3Server

CREATED, APPENDED = TimestampSource.CREATE_TIME, TimestampSource.APPEND_TIME_IN_COLUMN
Batch = tuple[list[int], TimestampSource]  # offsets


def new_cluster(*, mirrored: bool = True) -> Cluster:
    url = f"memory://{uuid.uuid4().hex}"
    init_cluster(url)
    cluster = sparklog.connect(url)
    cluster.create_topic("t", partitions=3, mirror_of=KafkaTopic("k", "t", "id") if mirrored else None)
    return cluster


def upload_of(cluster: Cluster, next_offset: int = 0) -> tuple[RangeUpload, Callable[[TaskWritten], None]]:
    """An upload to partition 2, and a function that commits it."""
    state = cluster.connection.newest_state()
    addresses = cluster.connection.addresses(state)
    command_id = uuid.uuid4().hex
    plan = plan_write(state, addresses, command_id, topic="t", compression=None, now_ms=1, keep_offsets=True)

    def commit(written: TaskWritten) -> None:
        command = append_command(plan, [written])
        assert command is not None
        cluster.submit(command)

    return RangeUpload(plan, PartitionIndex(2), Offset(next_offset)), commit


def add(upload: RangeUpload, offsets: list[int], source: TimestampSource, *, stored: bool) -> None:
    """Add a batch whose values are the offsets."""
    schema = RAW_WITH_OFFSETS if stored else RAW
    columns = {
        "key": pa.nulls(len(offsets), pa.binary()),
        "value": pa.array([b"%d" % offset for offset in offsets]),
        "headers": pa.nulls(len(offsets), RAW.arrow.field("headers").type),
        "timestamp": pa.array(offsets, pa.int64()).cast(RAW.arrow.field("timestamp").type),
        "offset": pa.array(offsets, pa.int64()),
    }
    rows = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema.arrow)
    place = TopicPartition(TopicId(1), PartitionIndex(2))
    upload.add(BatchEncoder("none", schema).encode(place, rows), Offset(offsets[0]), source)


def covered(slices: tuple[NewSlice, ...]) -> list[tuple[int, int]]:
    return [(each.offsets.start, each.offsets.end) for each in slices if each.offsets is not None]


def test_the_end_of_a_range_is_covered_if_its_last_object_stores_offsets() -> None:
    for stored, end in ((False, 3), (True, 9)):
        upload, commit = upload_of(cluster := new_cluster())
        add(upload, [0, 1, 2], CREATED, stored=stored)
        written = upload.finish(Offset(9), keyless=True)
        assert covered(written.slices) == [(0, end)]
        commit(written)
        assert cluster.read("t", partition=2)["offset"].to_pylist() == [0, 1, 2]


def test_a_change_of_the_kind_of_batches_begins_an_object() -> None:
    upload, _ = upload_of(new_cluster())
    add(upload, [0, 1], CREATED, stored=False)
    add(upload, [2], APPENDED, stored=False)
    add(upload, [5], APPENDED, stored=True)
    add(upload, [6], APPENDED, stored=True)
    written = upload.finish(Offset(7), keyless=True)
    assert covered(written.slices) == [(0, 2), (2, 3), (3, 7)]
    assert [each.timestamp_source for each in written.slices] == [CREATED, APPENDED, APPENDED]


@pytest.mark.parametrize(("offsets", "stored"), [([4], False), ([2], False), ([2], True)])
def test_batches_that_do_not_follow_are_refused(offsets: list[int], stored: bool) -> None:
    upload, _ = upload_of(new_cluster())
    add(upload, [0, 1, 2], CREATED, stored=False)
    with pytest.raises(InvalidInput, match=f"wanted records from offset 3 on, found {offsets[0]}"):
        add(upload, offsets, CREATED, stored=stored)
    upload.drop()


def test_a_topic_that_is_not_mirrored_is_refused() -> None:
    cluster = new_cluster(mirrored=False)
    with pytest.raises(PolicyViolation, match="is not mirrored"):
        upload_of(cluster)


def test_a_plan_is_checked_where_the_range_is_uploaded() -> None:
    state = (cluster := new_cluster()).connection.newest_state()
    addresses = cluster.connection.addresses(state)
    plan = plan_write(state, addresses, "id", topic="t", compression=None, now_ms=1, keep_offsets=True)

    def begin(**changes: object) -> RangeUpload:
        topics = {"t": msgspec.structs.replace(plan.topics["t"], **changes)}
        return RangeUpload(msgspec.structs.replace(plan, topics=topics), PartitionIndex(2), Offset(0))

    begin().drop()
    with pytest.raises(PolicyViolation):
        begin(mirror_of=None)
    with pytest.raises(NoReplicaOnline, match="t-2: no store"):
        begin(store_sets=((),))


def test_a_task_says_if_records_have_no_key() -> None:
    for keyless in (False, True):
        upload, _ = upload_of(new_cluster())
        add(upload, [0], CREATED, stored=False)
        assert upload.finish(Offset(1), keyless=keyless).keyless == ((TopicId(1),) if keyless else ())


def test_objects_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_writer, "LIMITS", replace(LIMITS, object_bytes=1))
    upload, _ = upload_of(new_cluster())
    for first in (0, 2):
        add(upload, [first, first + 1], CREATED, stored=False)
    assert covered(upload.finish(Offset(4), keyless=True).slices) == [(0, 2), (2, 4)]


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(1, 6), st.sampled_from([CREATED, APPENDED])), min_size=1),
    st.integers(0, 3),
)
def test_any_batches_are_readable_at_their_offsets(
    gaps: list[int], cuts: list[tuple[int, TimestampSource]], behind: int
) -> None:
    offsets, at = [], 0
    for gap in gaps:
        offsets.append(at + gap)
        at += gap + 1
    cluster = new_cluster()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_writer, "LIMITS", replace(LIMITS, object_bytes=3_000))
        upload, commit = upload_of(cluster)
        rest, stored, number, next_offset = offsets, False, 0, 0
        while rest:
            size, source = cuts[number % len(cuts)]
            number += 1
            batch = rest[:size]
            dense = [at for at, offset in enumerate(batch) if offset != next_offset + at]
            if not stored and dense:
                batch = batch[: dense[0]] or batch
                stored = batch[0] != next_offset
            add(upload, batch, source, stored=stored)
            next_offset, rest = batch[-1] + 1, rest[len(batch) :]
        written = upload.finish(Offset(offsets[-1] + 1 + behind), keyless=True)
    ranges = covered(written.slices)
    assert ranges[0][0] == 0
    assert all(before[1] == after[0] for before, after in pairwise(ranges))
    commit(written)
    rows = cluster.read("t", partition=2)
    assert rows["offset"].to_pylist() == offsets
    assert rows["value"].to_pylist() == [b"%d" % offset for offset in offsets]


@pytest.mark.parametrize("stores", [1, 2])
def test_each_batch_may_come_in_another_thread_also_to_s3(
    stores: int, s3proxy: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from a planner, which has a thread for each request."""
    for name, value in s3proxy.variables.items():
        monkeypatch.setenv(name, value)
    url = f"s3://{s3proxy.new_bucket()}/log"
    two = {"a": f"s3://{s3proxy.new_bucket()}/a", "b": f"file://{tmp_path}/b"}
    init_cluster(url, stores=two if stores == 2 else None)
    with sparklog.connect(url) as cluster, ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        cluster.create_topic("t", partitions=3, replication_factor=stores, mirror_of=KafkaTopic("k", "t", "id"))
        upload, commit = first.submit(upload_of, cluster).result()
        for number in range(6):
            offsets = [*range(number * 100, number * 100 + 100)]
            (first, second)[number % 2].submit(add, upload, offsets, CREATED, stored=number > 3).result()
        commit(second.submit(upload.finish, Offset(600), keyless=True).result())
        assert cluster.read("t", partition=2)["offset"].to_pylist() == [*range(600)]
