"""The sink without Spark: what identifies a micro-batch, and which of two runs of a query may write."""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

import sparklog
from sparklog.client.cluster import Cluster
from sparklog.core.commands import Election, ElectLeaders, FenceStore
from sparklog.core.errors import InvalidInput, InvalidProducerEpoch, OutOfOrderSequence, WriteLost
from sparklog.core.records import AppendedRange, CommandResult, LostRecords, LostVersion
from sparklog.core.state import ApplicationState, ClusterState
from sparklog.core.types import EntryNumber, Offset, PartitionIndex, StoreId, TopicId
from sparklog.options.streams import parse_stream_write_options
from sparklog.spark.read import offset_log
from sparklog.spark.write import stream_writer
from sparklog.spark.write.stream_writer import (
    BATCH_ID,
    QUERY_ID,
    RUN_ID,
    StreamTaskMessage,
    StreamWriter,
    _written,
    begin_stream_write,
)
from sparklog.storage.memory import MemoryStore
from tests.client.replicated_cluster import come_back
from tests.kit.log import values
from tests.spark.stream.driven_query import Context
from tests.spark.stream.driven_stream import memory_cluster

QUERY = "11111111-2222-3333-4444-555555555555"
A, B = StoreId("a"), StoreId("b")
SCHEMA = StructType([StructField("value", BinaryType())])


class Sink:
    """A query that writes to topic t, as Spark does it: a writer plans, tasks have copies, another one commits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.options = {"cluster": "/elsewhere", "topic": "t"}

    def begun(self) -> StreamWriter:
        return begin_stream_write(parse_stream_write_options(self.options), SCHEMA)

    def use_checkpoint(self, planned_ms: int) -> None:
        """Go on with a checkpoint in which micro-batch 0 was planned at that time."""
        store = MemoryStore(f"memory://{uuid.uuid4().hex}")
        store.put_if_absent("metadata", json.dumps({"id": QUERY}).encode())
        store.put_if_absent("offsets/0", b'v1\n{"batchTimestampMs":%d}\n{}' % planned_ms)
        self.options["checkpointLocation"] = store.url

    def tasks(
        self, writer: StreamWriter, run: str, batch_id: int, values: Sequence[Sequence[str]]
    ) -> list[StreamTaskMessage]:
        sent = []
        for task, rows in enumerate(values):
            context = Context({QUERY_ID: QUERY, BATCH_ID: str(batch_id), RUN_ID: run}, task)
            self.monkeypatch.setattr(stream_writer.TaskContext, "get", lambda context=context: context)
            batch = pa.record_batch({"value": pa.array([row.encode() for row in rows], pa.binary())})
            copy = pickle.loads(pickle.dumps(writer))
            sent.append(pickle.loads(pickle.dumps(copy.write(iter([batch] if rows else [])))))
        return sent

    def batch(self, run: str, batch_id: int, *values: Sequence[str]) -> list[StreamTaskMessage]:
        sent = self.tasks(self.begun(), run, batch_id, values)
        self.begun().commit(sent, batch_id)
        return sent


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with memory_cluster(monkeypatch) as made:
        made.create_topic("t", partitions=1)
        yield made


@pytest.fixture
def sink(log: Cluster, monkeypatch: pytest.MonkeyPatch) -> Sink:
    return Sink(monkeypatch)


@pytest.fixture
def on_two_stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with memory_cluster(monkeypatch, "ab") as made:
        made.create_topic("t", assignment=[["a", "b"]])
        yield made


# M: I-04
def test_a_micro_batch_is_written_once_whoever_replays_it_and_its_tasks_upload_nothing(
    log: Cluster, sink: Sink
) -> None:
    first = sink.batch("run 1", 0, ["a"], ["b"])
    assert [bool(message.plan) for message in first] == [True, False], "the plan travels once"
    written = log.connection.follower.state.n
    for run in ("run 1", "run 2"):
        replayed = sink.batch(run, 0, ["a"], ["b"])
        assert all(message.skipped for message in replayed)
    assert values(log) == ["a", "b"]
    assert log.connection.follower.state.n == written
    sink.batch("run 2", 1, ["c"], [])
    assert values(log) == ["a", "b", "c"]


def test_a_commit_that_comes_again_adds_nothing(log: Cluster, sink: Sink) -> None:
    sent = sink.tasks(sink.begun(), "run 1", 0, [["a"]])
    for _ in range(2):
        sink.begun().commit(sent, 0)
    assert values(log) == ["a"]


def test_of_two_runs_the_older_one_is_fenced_with_what_it_has_under_way_and_for_ever(log: Cluster, sink: Sink) -> None:
    sink.batch("old", 0, ["a"])
    under_way = sink.tasks(sink.begun(), "old", 1, [["lost"]])
    sink.batch("new", 1, ["b"])
    with pytest.raises(InvalidProducerEpoch, match="run old is fenced, because run new has written version 1 since"):
        sink.begun().commit(under_way, 1)
    for batch_id in (1, 2):
        with pytest.raises(InvalidProducerEpoch, match="two runs of one query are active"):
            sink.batch("old", batch_id, ["lost"])
    sink.batch("new", 2, ["c"])
    assert values(log) == ["a", "b", "c"]


def test_a_run_that_replays_what_the_older_one_has_under_way_adds_it_once(log: Cluster, sink: Sink) -> None:
    """The older driver is only slow: its commit lands after the newer run planned the same micro-batch."""
    sink.batch("old", 0, ["a"])
    slow = sink.tasks(sink.begun(), "old", 1, [["b"]])
    replay = sink.tasks(sink.begun(), "new", 1, [["b"]])
    sink.begun().commit(slow, 1)
    sink.begun().commit(replay, 1)
    sink.batch("new", 2, ["c"])
    assert values(log) == ["a", "b", "c"]


def test_a_micro_batch_that_was_lost_after_its_tasks_found_it_written_is_not_taken_for_written(
    log: Cluster, sink: Sink
) -> None:
    writer = sink.begun()
    writer.written = {QUERY: 3}
    sent = sink.tasks(writer, "run 1", 3, [["a"]])
    assert sent[0].skipped
    with pytest.raises(WriteLost, match="was already written when it was planned again, but is lost now"):
        sink.begun().commit(sent, 3)
    sink.batch("run 1", 3, ["a"])
    assert values(log) == ["a"]


def test_a_micro_batch_that_an_election_gave_up_meanwhile_is_not_taken_for_written(
    on_two_stores: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(monkeypatch)
    sink.batch("run 1", 0, ["a"])
    on_two_stores.submit(FenceStore(B))
    sink.batch("run 1", 1, ["b"])
    replayed = sink.tasks(sink.begun(), "run 2", 1, [["b"]])
    assert replayed[0].skipped
    writer = sink.begun()
    with sparklog.connect(on_two_stores.connection.url) as operator:  # a is lost, and b is all there is
        come_back(operator, "b")
        operator.submit(FenceStore(A))
        operator.submit(ElectLeaders((Election(TopicId(1), PartitionIndex(0), B),), unclean=True))
    with pytest.raises(WriteLost, match=r"micro-batch 1 of query .* was already written when it was planned again"):
        writer.commit(replayed, 1)
    with pytest.raises(WriteLost, match="was lost in an unclean election"):
        sink.batch("run 3", 1, ["b"])
    sink.batch("run 4", 1, ["b"])
    assert on_two_stores.read("t", partition=0, start=2)["value"].to_pylist() == [b"b"]


def test_a_checkpoint_that_was_set_back_is_noticed(log: Cluster, sink: Sink) -> None:
    """Spark repeats the last micro-batch only. Another one of an old number may have other records."""
    for batch_id, value in enumerate("abc"):
        sink.batch("run 1", batch_id, [value])
    for run in ("run 1", "run 2"):
        with pytest.raises(OutOfOrderSequence, match=r"wanted version 2 of .* or a later one, found version 1"):
            sink.batch(run, 1, ["b", "d"])
    sink.batch("run 2", 2, ["c"])
    sink.batch("run 2", 3, ["d"])
    assert values(log) == ["a", "b", "c", "d"]


# M: I-04
def test_a_checkpoint_that_was_set_back_by_one_micro_batch_or_copied_is_noticed(log: Cluster, sink: Sink) -> None:
    """Planned again, a micro-batch of the same number takes what has come since: it is no repeat of the first one."""
    sink.use_checkpoint(planned_ms=1)
    under_way = sink.tasks(sink.begun(), "run 1", 0, [["a"]])
    sink.use_checkpoint(planned_ms=2)
    planned_again = sink.tasks(sink.begun(), "run 2", 0, [["a", "b"]])
    sink.use_checkpoint(planned_ms=1)
    sink.begun().commit(under_way, 0)
    sink.batch("run 2", 0, ["a"])  # Spark repeats what is logged
    sink.use_checkpoint(planned_ms=2)
    with pytest.raises(
        OutOfOrderSequence, match=r"version 0 of .* was written in entry \d+, and is made of something else"
    ):
        sink.begun().commit(planned_again, 0)
    with pytest.raises(
        OutOfOrderSequence, match="the checkpoint of the query was set back, or another query uses a copy of it"
    ):
        sink.batch("run 2", 0, ["a", "b"])
    assert values(log) == ["a"]


def test_a_checkpoint_that_only_spark_can_read_is_named_once_and_keeps_nothing_out(
    log: Cluster, sink: Sink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(offset_log, "_UNREADABLE", set())
    missing = f"memory://{uuid.uuid4().hex}"
    for checkpoint in ("abfss://account/checkpoint", missing):
        sink.options["checkpointLocation"] = checkpoint
        sink.batch("run 1", 0, ["a"])
    sink.batch("run 1", 1, ["b"])
    assert values(log) == ["a", "b"]
    assert caplog.text.count("can't be read here, so it goes unnoticed if it is set back") == 2
    assert caplog.text.count(f"the checkpoint {missing} can't be read") == 1


def test_queries_do_not_disturb_each_other(log: Cluster, sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    sink.batch("run", 0, ["a"])
    monkeypatch.setattr("tests.spark.stream.test_stream_writer.QUERY", "another")
    sink.batch("run", 0, ["b"])
    assert values(log) == ["a", "b"]


def test_a_micro_batch_without_tasks_or_without_identity(log: Cluster, sink: Sink) -> None:
    sink.begun().commit([], 0)
    with pytest.raises(InvalidInput, match="found none from task 0"):
        sink.begun().commit([None], 0)
    with pytest.raises(InvalidInput, match=r"Spark gave no spark\.jobGroup\.id"):
        stream_writer.micro_batch_of({QUERY_ID: QUERY, BATCH_ID: "0"})
    sink.begun().abort([], 0)
    assert values(log) == []


def test_what_is_not_written_is_named_once(log: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    options = parse_stream_write_options({"cluster": "/c", "topic": "t", "kafka.linger.ms": "7", "queryName": "q"})
    for _ in range(2):
        begin_stream_write(options, StructType([*SCHEMA.fields, StructField("amount", BinaryType())]))
    assert caplog.text.count("columns that are not written: amount") == 1
    assert caplog.text.count("kafka.linger.ms") == 1
    assert "queryName" not in caplog.text


def test_a_writer_is_sent_to_tasks_without_secrets(log: Cluster) -> None:
    options = {"cluster": "/c", "topic": "t", "storage.local.secret_access_key": "hidden", "cluster.token": "hidden"}
    assert b"hidden" not in pickle.dumps(begin_stream_write(parse_stream_write_options(options), SCHEMA))


def test_a_micro_batch_that_was_lost_or_went_elsewhere_is_not_skipped() -> None:
    """Nor is the version of a job that is no streaming query."""
    lost = LostVersion(3, (LostRecords("t-0", Offset(0), Offset(1)),), is_whole=True)

    def known(topic: int, **more: Any) -> ApplicationState:
        range_ = AppendedRange(TopicId(topic), PartitionIndex(0), Offset(0), Offset(1), 1)
        return ApplicationState(3, CommandResult(EntryNumber(1), EntryNumber(0), 0, (range_,)), **more)

    state = ClusterState()
    state.applications.update(
        {
            "query": known(1, runs=("run",)),
            "lost": known(1, runs=("run",), lost=lost),
            "elsewhere": known(2, runs=("run",)),
            "job": known(1),
        }
    )
    assert _written(state, {TopicId(1)}) == {"query": 3}
    assert _written(state, None) == {"query": 3, "elsewhere": 3}
