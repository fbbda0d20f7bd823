"""The cases of Spark's KafkaMicroBatchSourceSuite, without Spark: what each micro-batch has, over restarts."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from sparklog.client.cluster import Cluster
from sparklog.client.plans.stream_plan import newest_positions, next_positions
from sparklog.core.commands import MoveLogStart
from sparklog.core.errors import (
    DataLoss,
    InconsistentClusterId,
    InvalidInput,
    InvalidOption,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from sparklog.core.reading.stream_positions import StreamPositions, from_json
from sparklog.core.reading.trigger_limits import TriggerLimits
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange, PartitionIndex, TopicId, TopicPartition
from sparklog.spark.read.stream_reader import StreamReader
from sparklog.spark.schema import records_schema
from sparklog.spark.source import SparklogDataSource
from tests.client.mirrored_topic import MirroredTopic
from tests.spark.stream.driven_stream import DrivenStream, memory_cluster, send

MINUTE = 60_000


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Topic t of three partitions, empty."""
    with memory_cluster(monkeypatch) as made:
        made.create_topic("t", partitions=3)
        yield made


def stream(**options: object) -> DrivenStream:
    what = {} if {"assign", "subscribePattern"} & set(options) else {"subscribe": "t"}
    return DrivenStream({"startingOffsets": "earliest", **what, **options})


def partition_counts(rows: list[tuple[str, int, int]] | None) -> list[int]:
    assert rows is not None
    return [sum(row[1] == partition for row in rows) for partition in range(3)]


# ---- where a run begins ---------------------------------------------------------------------------


def test_a_first_run_begins_at_latest_and_a_restart_where_the_last_one_ended(log: Cluster) -> None:
    send(log, "t", 0, 5)
    query = stream(startingOffsets="latest")
    assert query.trigger() == []
    send(log, "t", 0, 2)
    query.stop()
    send(log, "t", 1, 1)
    assert query.trigger() == [("t", 0, 5), ("t", 0, 6), ("t", 1, 0)]
    assert query.trigger() is None


def test_latest_is_where_the_first_run_began_whenever_spark_asks(log: Cluster) -> None:
    """Spark asks for the end of the first micro-batch, and then once more where it begins."""
    query = stream(startingOffsets="latest")
    reader = query.begin()
    send(log, "t", 0, 2)
    end = reader.latestOffset(json.loads(query.start), reader.getDefaultReadLimit())
    assert query.read(json.dumps(reader.initialOffset()), json.dumps(end)) == [("t", 0, 0), ("t", 0, 1)]


def test_starting_offsets_and_times_count_only_in_the_first_run(log: Cluster) -> None:
    send(log, "t", 0, 5)
    query = stream(startingOffsets='{"t":{"0":3,"1":-1,"2":-2}}')
    assert query.trigger() == [("t", 0, 3), ("t", 0, 4)]
    query.stop()
    query.options["startingOffsets"] = "earliest"
    assert query.trigger() is None
    query.stop()
    query.options["startingTimestamp"] = 0
    send(log, "t", 0, 1)
    assert query.trigger() == [("t", 0, 5)]
    by_time = stream(startingTimestamp=2**50, startingOffsetsByTimestampStrategy="latest")
    assert by_time.trigger() == []


def test_a_new_partition_and_a_new_topic_start_at_earliest(log: Cluster) -> None:
    query = stream(subscribePattern="t.*", startingOffsets="latest")
    assert query.trigger() == []
    log.create_topic("t2", partitions=1)
    send(log, "t2", 0, 2)
    log.add_partitions("t", 4)
    send(log, "t", 3, 1)
    assert query.trigger() == [("t", 3, 0), ("t2", 0, 0), ("t2", 0, 1)]
    query.stop()
    log.create_topic("t3", partitions=1)
    send(log, "t3", 0, 1)
    assert query.trigger() == [("t3", 0, 0)]


def test_a_pattern_that_matches_nothing_yet_waits(log: Cluster) -> None:
    query = stream(subscribePattern="later.*")
    assert query.trigger() == []
    assert query.trigger() is None
    log.create_topic("later", partitions=1)
    send(log, "later", 0, 1)
    assert query.trigger() == [("later", 0, 0)]


# ---- limits ---------------------------------------------------------------------------------------


def test_a_limit_counts_no_offsets_without_records(log: Cluster) -> None:
    """A mirror that begins at a late offset in Kafka, and a promotion to a later end: no micro-batch is empty."""
    topic = MirroredTopic(log, name="m").create()
    topic.append([10**12, 10**12 + 1], end=10**13)
    topic.append(range(10**13, 10**13 + 5))
    query = stream(subscribe="m", maxOffsetsPerTrigger=3)
    assert [len(query.trigger() or []) for _ in range(3)] == [2 + 1, 3, 1]
    topic.promote({0: 10**15})
    assert query.trigger() == []
    assert query.trigger() is None
    topic.append_after(["a", "b", "c", "d"])
    assert [len(query.trigger() or []) for _ in range(2)] == [3, 1]


def test_a_limit_is_shared_in_proportion_to_backlog_and_kept_over_a_restart(log: Cluster) -> None:
    for partition, count in enumerate((100, 10, 1)):
        send(log, "t", partition, count)
    query = stream(maxOffsetsPerTrigger=10)
    assert partition_counts(query.trigger()) == [9, 1, 1]  # Kafka's: 100 : 10 : 1 of 10, and nobody starves
    assert partition_counts(query.trigger()) == [9, 1, 0]
    query.stop()
    assert partition_counts(query.trigger()) == [9, 1, 0]
    query.stop()
    query.options["maxOffsetsPerTrigger"] = 1000
    assert partition_counts(query.trigger()) == [73, 7, 0]
    assert query.trigger() is None


def test_bytes_limit_a_micro_batch_and_both_limits_hold_together(log: Cluster) -> None:
    for _ in range(4):
        send(log, "t", 0, 25)
        send(log, "t", 1, 25)
    state = log.connection.newest_state()
    slices = state.slices.find(TopicPartition(TopicId(1), PartitionIndex(0)), OffsetRange(Offset(0), Offset(100)))
    slice_bytes = max(slice_.length for slice_ in slices)
    query = stream(maxBytesPerTrigger=2 * slice_bytes + 2)
    first = partition_counts(query.trigger())
    assert all(20 <= count <= 30 for count in first[:2]), "a slice of each"
    assert sum(first) + sum(query.rest()) == 200
    both = stream(maxBytesPerTrigger=2 * slice_bytes, maxOffsetsPerTrigger=8)
    assert partition_counts(both.trigger()) == [4, 4, 0]
    assert set(stream(maxBytesPerTrigger=1).rest()) == {2}, "every partition moves on"


def test_a_micro_batch_waits_for_its_least_offsets_or_the_longest_delay(log: Cluster) -> None:
    query = stream(minOffsetsPerTrigger=15, maxTriggerDelay="5m", maxOffsetsPerTrigger=20)
    send(log, "t", 0, 3)
    first = query.trigger()
    assert first is not None
    assert len(first) == 3, "the first one never waits"
    send(log, "t", 0, 14)
    assert query.trigger() is None
    send(log, "t", 1, 1)
    rows = query.trigger()
    assert rows is not None
    assert len(rows) == 15
    send(log, "t", 0, 1)
    query.clock.at_ms += 5 * MINUTE - 1
    assert query.trigger() is None
    query.clock.at_ms += 1
    assert query.trigger() == [("t", 0, 17)]
    send(log, "t", 0, 40)
    rows = query.trigger()
    assert rows is not None
    assert len(rows) == 20


def test_each_run_begins_without_waiting_even_with_nothing(log: Cluster) -> None:
    """As `delayBatch` of the connector, whose time begins at 0: the first look of a run is never too early."""
    query = stream(minOffsetsPerTrigger=15, maxTriggerDelay="5m")
    assert query.trigger() == [], "nothing is there yet, and the delay counts from now on"
    send(log, "t", 0, 2)
    assert query.trigger() is None
    query.stop()
    assert query.trigger() == [("t", 0, 0), ("t", 0, 1)], "a restart"
    query.clock.at_ms += 5 * MINUTE
    assert query.trigger() is None, "nothing to read, and the delay counts anew"
    send(log, "t", 0, 14)
    assert query.trigger() is None
    query.clock.at_ms += 5 * MINUTE
    assert len(query.trigger() or ()) == 14


def test_trigger_once_takes_everything_whatever_the_limits(log: Cluster) -> None:
    send(log, "t", 0, 30)
    query = stream(maxOffsetsPerTrigger=4, minOffsetsPerTrigger=2)
    rows = query.trigger(once=True)
    assert rows is not None
    assert len(rows) == 30
    assert query.begin().getDefaultReadLimit() == ReadMaxRows(4)
    assert stream().begin().getDefaultReadLimit() == ReadAllAvailable()


# ---- AvailableNow ---------------------------------------------------------------------------------


def test_available_now_reads_up_to_what_was_there_at_its_start_within_the_limits(log: Cluster) -> None:
    send(log, "t", 0, 10)
    query = stream(maxOffsetsPerTrigger=4, minOffsetsPerTrigger=4)
    query.available_now = True
    assert partition_counts(query.trigger()) == [4, 0, 0]
    send(log, "t", 0, 5)
    send(log, "t", 1, 5)
    log.add_partitions("t", 4)
    send(log, "t", 3, 5)
    assert query.rest() == [4, 2], "the rest of ten, and no waiting for the least"
    query.stop()
    assert sum(query.rest()) == 15


def test_available_now_ends_if_partitions_of_its_target_vanish(log: Cluster) -> None:
    log.create_topic("t2", partitions=1)
    send(log, "t", 0, 8)
    send(log, "t2", 0, 8)
    query = stream(subscribePattern="t.*", maxOffsetsPerTrigger=8, failOnDataLoss="false")
    query.available_now = True
    assert [len(query.trigger() or ())] == [8]
    log.delete_topic("t2")
    assert query.rest() == [4]


@pytest.mark.parametrize(("partitions", "records"), [(2, 8), (3, 5)])
def test_available_now_fails_if_a_topic_of_its_target_is_another_one(
    log: Cluster, partitions: int, records: int
) -> None:
    send(log, "t", 0, 8)
    for fails in ("true", "false"):
        query = stream(maxOffsetsPerTrigger=4, failOnDataLoss=fails)
        query.available_now = True
        assert partition_counts(query.trigger()) == [4, 0, 0]
        log.delete_topic("t")
        log.create_topic("t", partitions=partitions)
        send(log, "t", 0, records)
        if fails == "true":
            with pytest.raises(
                DataLoss, match="t-0: the stream is at offset 4, the topic was deleted and created again"
            ):
                query.trigger()
        else:
            assert query.rest() == [0], "the other topic is no part of the target"


def test_available_now_ends_if_retention_overtakes_its_target(log: Cluster) -> None:
    send(log, "t", 0, 8)
    send(log, "t", 1, 8)
    query = stream(maxOffsetsPerTrigger=4, failOnDataLoss="false")
    query.available_now = True
    assert partition_counts(query.trigger()) == [2, 2, 0]
    send(log, "t", 0, 8)
    log.submit(MoveLogStart(log.describe("t").topic_id, PartitionIndex(0), Offset(14)))
    assert query.rest() == [4, 2]


# ---- what is gone ---------------------------------------------------------------------------------


def test_a_topic_deleted_and_created_again_is_noticed(log: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    send(log, "t", 0, 5)
    query = stream()
    assert len(query.trigger() or ()) == 5
    log.delete_topic("t")
    log.create_topic("t", partitions=1)
    send(log, "t", 0, 9)
    with pytest.raises(DataLoss, match=r"t-0: the stream is at offset 5, the topic was deleted and created again"):
        query.trigger()
    query.stop()
    query.options["failOnDataLoss"] = "false"
    assert query.trigger() == [("t", 0, offset) for offset in range(9)]
    assert "was deleted and created again" in caplog.text
    assert query.trigger() is None


def test_a_subscribed_topic_that_is_gone_fails_or_is_left_out_until_it_is_back(
    log: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    log.create_topic("u", partitions=1)
    send(log, "t", 0, 1)
    query = stream(subscribe="t,u")
    assert len(query.trigger() or ()) == 1
    log.delete_topic("u")
    with pytest.raises(DataLoss, match="u-0: the stream is at offset 0, the topic was deleted; failOnDataLoss=false"):
        query.trigger()
    query.stop()
    query.options["failOnDataLoss"] = "false"
    assert query.trigger() == []
    assert query.trigger() is None
    query.stop()
    send(log, "t", 0, 1)
    assert query.trigger() == [("t", 0, 1)]
    assert "u: there is no such topic" in caplog.text
    log.create_topic("u", partitions=1)
    send(log, "u", 0, 1)
    assert query.trigger() == [("u", 0, 0)]
    log.delete_topic("u")
    query.stop()
    del query.offsets[-1], query.options["failOnDataLoss"]
    with pytest.raises(UnknownTopicOrPartition, match="wanted topic 'u', the cluster has t"):
        query.trigger()  # a new run that names a topic which it has no position in


def test_records_that_retention_took_before_they_were_read_fail_or_are_left_out(log: Cluster) -> None:
    send(log, "t", 0, 3)
    query = stream(maxOffsetsPerTrigger=2)
    assert len(query.trigger() or ()) == 2
    send(log, "t", 0, 3)
    log.submit(MoveLogStart(log.describe("t").topic_id, PartitionIndex(0), Offset(3)))
    with pytest.raises(DataLoss, match="t-0: the stream is at offset 2, the log starts at 3"):
        query.trigger()
    query.stop()
    query.options["failOnDataLoss"] = "false"
    assert query.trigger() == [("t", 0, 3), ("t", 0, 4)]


def test_a_position_beyond_the_log_is_noticed_and_does_not_wait_until_the_log_is_there(log: Cluster) -> None:
    send(log, "t", 0, 5)
    query = stream()
    assert len(query.trigger() or ()) == 5
    query.stop()
    query.offsets[-1] = query.offsets[-1].replace('"0": 5', '"0": 500')
    send(log, "t", 0, 2)
    with pytest.raises(DataLoss, match="t-0: the stream is at offset 500, the log ends at 7"):
        query.trigger()
    query.stop()
    query.options["failOnDataLoss"] = "false"
    assert query.trigger() == [], "what is there may have been read"
    send(log, "t", 0, 1)
    assert query.trigger() == [("t", 0, 7)]


def test_a_new_partition_whose_first_records_are_gone_is_noticed(log: Cluster) -> None:
    query = stream(subscribePattern=".*", startingOffsets="latest")
    assert query.trigger() == []
    log.create_topic("u", partitions=1)
    send(log, "u", 0, 4)
    log.submit(MoveLogStart(log.describe("u").topic_id, PartitionIndex(0), Offset(4)))
    send(log, "u", 0, 1)
    with pytest.raises(DataLoss, match="u-0: is new to the stream, and its log starts at 4, not at 0"):
        query.trigger()
    query.stop()
    query.options["failOnDataLoss"] = "false"
    assert query.trigger() == [("u", 0, 4)]


def test_a_micro_batch_planned_before_its_topic_went_is_read_as_far_as_it_is_there(log: Cluster) -> None:
    send(log, "t", 0, 2)
    query = stream()
    reader = query.begin()
    end = json.dumps(reader.latestOffset(json.loads(query.start), reader.getDefaultReadLimit()))
    log.delete_topic("t")
    with pytest.raises(DataLoss, match=r"t-0: wanted offsets \[0, 2\), the topic was deleted"):
        query.read(query.start, end)
    query.options["failOnDataLoss"] = "false"
    start, query.reader = query.start, None
    query.offsets = [end]
    query.begin()
    assert query.read(start, end) == []


def test_a_checkpoint_of_another_topic_cluster_or_version_is_refused(
    log: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create_topic("u", partitions=1)
    query = stream()
    query.trigger()
    query.stop()
    query.options["subscribe"] = "u"
    with pytest.raises(DataLoss, match="t-0: the checkpoint is at offset 0, and the query no longer subscribes to it"):
        query.trigger()
    (kept,) = query.offsets
    query.stop()
    query.offsets = [json.dumps({**json.loads(kept), "version": 2})]
    with pytest.raises(UnsupportedVersion, match="version 2"):
        query.trigger()
    query.offsets = ['{"t": {"0": 4}}']
    with pytest.raises(InvalidInput, match="is of topic t in Kafka, and topic t here is no mirror of it"):
        query.trigger()
    query.offsets = ['{"t": 4}']
    with pytest.raises(InvalidInput, match="wanted the offsets of a sparklog stream"):
        query.trigger()
    query.offsets = [kept]
    with memory_cluster(monkeypatch) as other:
        other.create_topic("u", partitions=1)
        with pytest.raises(InconsistentClusterId, match="it is another one, or it was deleted and created again"):
            query.trigger()


def test_a_named_topic_that_does_not_exist_is_an_error_in_the_first_run(log: Cluster) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="wanted topic 'nope'"):
        stream(subscribe="nope").trigger()
    with pytest.raises(InvalidOption, match="startingOffsets: wanted every partition that is read"):
        stream(startingOffsets='{"t":{"0":0}}').trigger()


# ---- what Spark sees ------------------------------------------------------------------------------


def test_a_position_changes_only_where_records_were_read(log: Cluster) -> None:
    """An election alone makes no micro-batch: Spark compares positions as text."""
    send(log, "t", 0, 1)
    query = stream()
    query.trigger()
    start = from_json(json.loads(query.start))
    send(log, "t", 0, 1)
    state = log.connection.newest_state()
    newest = newest_positions(state, query.begin().options.read, start)
    after_election = StreamPositions(
        newest.chain_id,
        {place: replace(position, leader_epoch=LeaderEpoch(1)) for place, position in newest.at.items()},
    )
    end = next_positions(state, start, after_election, TriggerLimits())
    changed = {place for place, position in end.at.items() if position != start.at[place]}
    assert changed == {("t", 0)}
    assert end.at["t", PartitionIndex(0)].leader_epoch == 1


def test_spark_without_read_limits_gets_the_same_micro_batches(log: Cluster) -> None:
    """Spark 4.0 and 4.1 call latestOffset without arguments, and after a restart partitions(seen, seen) before."""
    send(log, "t", 0, 10)
    query = stream(maxOffsetsPerTrigger=4)
    reader = query.begin()
    first = reader.latestOffset()
    assert len(query.read(query.start, json.dumps(first))) == 4
    query.offsets.append(json.dumps(first))
    reader = query.begin()
    second = reader.latestOffset()
    assert [row[2] for row in query.read(json.dumps(first), json.dumps(second))] == [4, 5, 6, 7]


def test_progress_knows_how_far_behind_the_stream_is(log: Cluster) -> None:
    send(log, "t", 0, 10)
    query = stream(maxOffsetsPerTrigger=4)
    reader = query.begin()
    assert reader.reportLatestOffset() is None
    query.trigger()
    newest = reader.reportLatestOffset()
    assert newest is not None
    assert newest["offsets"] == {"t": {"0": 10, "1": 0, "2": 0}}
    assert json.loads(query.start)["offsets"] == {"t": {"0": 4, "1": 0, "2": 0}}


def test_a_reader_and_its_source_are_sent_to_tasks_without_secrets() -> None:
    options = {"cluster": "/c", "subscribe": "t", "storage.a.secret_access_key": "hidden", "cluster.token": "hidden"}
    source = SparklogDataSource(CaseInsensitiveDict(options))
    reader = source.streamReader(records_schema(["value", "offset"]))
    assert isinstance(reader, StreamReader)
    sent = pickle.dumps((reader, source))
    assert b"hidden" not in sent
    assert pickle.loads(sent)[0].columns == ("value", "offset")
