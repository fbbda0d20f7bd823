"""The compaction job from outside: what readers, the store and the chain see. The shuffle runs in this process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pytest

from sparklog.core.commands import AllocateProducer, AlterTopic, FenceStore
from sparklog.core.errors import InvalidRecord, OutOfOrderSequence, SparklogError
from sparklog.core.maintenance.cleaner import Cleaner, Pass
from sparklog.core.types import ObjectKind, StoreId
from sparklog.maintenance.job_report import Compacted, JobReport, WorkOutcome
from sparklog.maintenance.rewrite import compaction_job
from tests.kit.log import new_cluster
from tests.maintenance.keyed_log import TRIMMED, DictShuffle, KeyedLog, keyed
from tests.maintenance.maintained_log import DAY_MS, MaintainedLog, maintained


@pytest.fixture
def log() -> Iterator[KeyedLog]:
    yield from keyed(maintained(f"memory://{uuid.uuid4().hex}"))


def compacted(report: JobReport) -> Compacted:
    (row,) = report.partitions
    assert row.outcome is WorkOutcome.DONE, report.to_json()
    assert row.compacted is not None
    return row.compacted


# ---- what stays -----------------------------------------------------------------------------------------


def test_the_last_record_of_each_key_stays_at_its_offset(log: KeyedLog) -> None:  # M: C-01 S-03
    log.create()
    log.segment("a1 b2 a3 c4")
    log.segment("b5 d6 a7")
    found = compacted(log.compact())
    assert log.text() == "3:c4 4:b5 5:d6 6:a7"
    assert (found.records_before, found.records_after, found.superseded) == (7, 4, 3)
    assert found.bytes_after < found.bytes_before
    log.check()
    log.append(("e", "8"))
    assert log.read()[-1] == (7, "e", "8"), "offsets go on where they were"
    assert log.compact(everything=False).partitions == (), "nothing was sealed since"


def test_what_is_not_sealed_is_neither_compacted_nor_looked_at(log: KeyedLog) -> None:  # M: C-02
    log.create()
    log.segment("a1 b2 a3")
    log.put("b4 b5")
    log.compact()
    assert log.text() == "1:b2 2:a3 3:b4 4:b5"


def test_records_without_a_key_from_before_the_policy_go(log: KeyedLog) -> None:  # M: C-04
    log.create(cleanup_policy="delete")
    log.append((None, "1"), ("a", "2"), (None, "3"), ("a", "4"))
    log.log.cluster.submit(AlterTopic(log.key.topic_id, {"cleanup.policy": "compact"}))
    log.roll()
    with pytest.raises(InvalidRecord):
        log.log.cluster.append("t", pa.table({"value": [b"no key"]}))
    found = compacted(log.compact())
    assert (log.text(), found.keyless, found.superseded) == ("3:a4", 2, 1)


def test_a_topic_that_is_not_compacted_is_left_alone(log: KeyedLog) -> None:
    log.create(cleanup_policy="delete")
    log.segment("a1 a2")
    assert log.compact().partitions == ()
    assert log.text() == "0:a1 1:a2"


def test_small_segments_are_joined_up_to_segment_bytes(log: KeyedLog) -> None:
    log.create(segment_bytes=3_000)
    for text in ("a1", "b2", "c3", " ".join(f"k{each}" for each in range(200))):
        log.segment(text)
    before = len(log.log.segments("t"))
    log.compact()
    assert len(log.log.segments("t")) < before
    log.check()


def test_append_times_stay_what_they_were(log: KeyedLog) -> None:
    log.create(message_timestamp_type="LogAppendTime")
    for text in ("a1 b2", "a3"):
        log.put(text)
        log.log.clock.at_ms += 1_000
    log.roll()
    before = log.log.cluster.read("t", partition=0, columns=["timestamp", "timestampType"]).slice(1)
    log.compact()
    assert log.text() == "1:b2 2:a3"
    assert log.log.cluster.read("t", partition=0, columns=["timestamp", "timestampType"]).equals(before)


# ---- stretches of which nothing is left ----------------------------------------------------------------


def test_a_segment_of_which_nothing_is_left_belongs_to_a_neighbour(log: KeyedLog) -> None:  # M: C-01 S-03
    """Both are full, so that they are not joined; of the second everything stays."""
    log.create(segment_bytes=700)
    log.segment("a1 b2 c3")
    log.segment("a4 b5 c6")
    found = compacted(log.compact())
    assert (found.records_after, found.superseded) == (3, 3)
    assert log.text() == "3:a4 4:b5 5:c6"
    segments = log.log.segments("t")
    assert (segments[0][0], segments[-1][1], segments[0][1] > 3) == (0, 6, True)
    log.check()


def test_the_last_tombstone_of_an_empty_log_stays(log: KeyedLog) -> None:  # M: C-03
    log.create(segment_bytes=700)
    for text in ("a1 b2", "a b", "c d e"):
        log.segment(text)
    for _ in range(2):
        log.compact()
    assert log.text() == "6:e", "a slice holds a record"
    log.segment("f1")
    for _ in range(3):
        log.compact()
        log.log.clock.at_ms += 1
    log.check()
    assert log.text() in ("7:f1", "6:e 7:f1")


def test_segments_that_lie_in_front_belong_to_the_first_with_records(log: KeyedLog) -> None:
    log.create(segment_bytes=700)
    for text in ("a1", "b2", "a3 b4", "c5 c6"):
        log.segment(text)
    log.compact()
    assert log.log.segments("t")[0][0] == 0
    assert log.text() == "2:a3 3:b4 5:c6"
    log.check()


# ---- when ----------------------------------------------------------------------------------------------


def test_young_segments_wait_for_min_compaction_lag_ms(log: KeyedLog) -> None:  # M: C-02
    log.create(min_compaction_lag_ms=DAY_MS)
    now_ms = log.log.clock.at_ms
    log.append(("a", "1"), ("a", "2"), timestamp_ms=now_ms - 2 * DAY_MS)
    log.roll()
    log.append(("a", "3"), ("a", "4"), timestamp_ms=now_ms)
    log.roll()
    log.append(("a", "5"), timestamp_ms=now_ms - 2 * DAY_MS)
    log.roll()
    log.compact()
    assert log.text() == "1:a2 2:a3 3:a4 4:a5", "the oldest young segment stops it, and its keys do not count"
    log.compact(now_ms=now_ms + DAY_MS)
    assert log.text() == "4:a5"


def test_few_new_bytes_wait_for_the_dirty_ratio(log: KeyedLog) -> None:  # M: C-02
    log.create(min_cleanable_dirty_ratio=0.5)
    log.segment(" ".join(f"{chr(97 + each)}1" for each in range(20)))
    assert log.compact(everything=False).partitions[0].reason == "100% is new (min.cleanable.dirty.ratio=0.5)"
    log.segment("a2")
    assert log.compact(everything=False).partitions == ()
    for _ in range(3):
        log.segment("a3")
    assert log.compact(everything=False).done.records == 20
    log.check()


def test_old_records_do_not_wait_for_the_dirty_ratio(log: KeyedLog) -> None:  # M: C-02
    log.create(min_cleanable_dirty_ratio=1, max_compaction_lag_ms=DAY_MS)
    log.segment("a1 a2")
    now_ms = log.log.clock.at_ms
    assert log.compact(everything=False, now_ms=now_ms + DAY_MS).partitions == ()
    report = log.compact(everything=False, now_ms=now_ms + DAY_MS + 1)
    assert report.partitions[0].reason.startswith("max.compaction.lag.ms")
    assert log.text() == "1:a2"


def test_a_compacted_topic_is_rolled_at_max_compaction_lag_ms(log: KeyedLog) -> None:  # M: C-02 S-06
    log.create(max_compaction_lag_ms=DAY_MS)
    log.put("a1")
    assert log.log.roll(everything=False).partitions == ()
    report = log.log.roll(everything=False, now_ms=log.log.clock.at_ms + DAY_MS)
    assert report.partitions[0].reason.startswith("max.compaction.lag.ms")


def test_nothing_new_is_nothing_to_do(log: KeyedLog) -> None:
    log.create()
    log.segment("a1 b2")
    log.compact()
    stored = log.log.stored()
    assert log.compact(everything=False).partitions == ()
    assert compacted(log.compact()).records_after == 2
    assert log.log.stored() == stored, "a segment of which everything stays is not written again"


# ---- tombstones ----------------------------------------------------------------------------------------


def test_a_tombstone_stays_for_its_delay_after_the_first_run_that_passes_it(log: KeyedLog) -> None:  # M: C-03
    log.create(delete_retention_ms=1_000)
    clock = log.log.clock
    log.segment("a1 b2 a")
    clock.at_ms += 5_000
    log.compact()
    assert log.text() == "1:b2 2:a", "the delay begins with the first run, however old it is"
    assert log.cleaner is not None
    assert [passed.to for passed in log.cleaner.passes] == [3]
    clock.at_ms += 999
    log.compact()
    assert log.text() == "1:b2 2:a"
    clock.at_ms += 1
    report = log.compact(everything=False)
    assert report.partitions[0].reason == "tombstones, delete.retention.ms=1000 (1 second)"
    assert compacted(report).tombstones == 1
    assert log.text() == "1:b2"
    assert log.cleaner == Cleaner(log.cleaner.position), "there is none to wait for"
    log.check()


def test_now_does_not_shorten_the_delay_of_a_tombstone(log: KeyedLog) -> None:  # M: C-03
    log.create(delete_retention_ms=1_000)
    log.segment("a1 b2 a")
    for _ in range(2):
        log.compact(now_ms=log.log.clock.at_ms + 365 * DAY_MS)
    assert log.text() == "1:b2 2:a"


def test_no_tombstone_goes_while_the_log_start_cuts_a_segment(log: KeyedLog) -> None:  # M: C-03
    """A segment that the log start cuts is not rewritten, so it still has the value that the tombstone deletes."""
    log.create(**TRIMMED, segment_bytes=700)
    log.segment("x1 a2 b3")
    log.segment("a b4")
    log.move_log_start(1)
    for _ in range(3):
        log.compact()
        log.log.clock.at_ms += 1
        log.check()
    assert log.text() == "1:a2 2:b3 3:a 4:b4"
    log.move_log_start(3)
    log.compact()
    assert log.text() == "4:b4"


def test_a_slice_that_was_cut_before_it_was_sealed_holds_nothing_up(log: KeyedLog) -> None:  # M: C-02 C-03 R-05
    """No roll seals it any more, because a swap replaces whole slices."""
    log.create(**TRIMMED, segment_bytes=700)
    log.put("x1 a2 b3")
    log.move_log_start(1)
    for text in ("a4 c5 b", "a6 c7 d8"):
        log.segment(text)
    assert log.text() == "1:a2 2:b3 3:a4 4:c5 5:b 6:a6 7:c7 8:d8"
    for _ in range(3):
        assert log.compact().exit_code == 0
        log.log.clock.at_ms += 1
        log.check()
    assert log.text() == "1:a2 2:b3 5:b 6:a6 7:c7 8:d8", "its tombstones stay as long as the slice does"
    log.move_log_start(3)
    for _ in range(2):
        log.compact()
        log.check()
    assert log.text() == "6:a6 7:c7 8:d8"


def test_a_young_segment_holds_up_what_follows_though_the_log_start_cuts_it(log: KeyedLog) -> None:  # M: C-02 R-05
    """Whoever reads within the lag has just read the young record, and is to see all that was written after it."""
    log.create(**TRIMMED, min_compaction_lag_ms=DAY_MS)
    now_ms = log.log.clock.at_ms
    for age, records in ((0, [("x", "1"), ("y", "2")]), (2, [("a", "3"), ("a", "4")])):
        log.append(*records, timestamp_ms=now_ms - age * DAY_MS)
        log.roll()
    log.move_log_start(1)
    log.compact()
    assert log.text() == "1:y2 2:a3 3:a4"
    log.compact(now_ms=now_ms + DAY_MS)
    assert log.text() == "1:y2 3:a4"


# ---- with other jobs -----------------------------------------------------------------------------------


def test_retention_takes_whole_segments_of_a_compacted_log_too(log: KeyedLog) -> None:  # M: C-01 R-01
    log.create(cleanup_policy="compact,delete", retention_ms=DAY_MS, segment_bytes=700)
    now_ms = log.log.clock.at_ms
    for age, records in ((2, [("a", "1"), ("b", "2"), ("a", "3")]), (0, [("b", "4"), ("c", "5")])):
        log.append(*records, timestamp_ms=now_ms - age * DAY_MS)
        log.roll()
    log.compact()
    assert log.text() == "2:a3 3:b4 4:c5"
    report = log.log.retention()
    assert (report.exit_code, report.done.records) == (0, 1)
    assert log.text() == "3:b4 4:c5"


def test_a_log_start_behind_the_cleaner_resets_it(log: KeyedLog) -> None:  # M: C-02
    log.create(**TRIMMED)
    log.segment("a1 b2")
    log.compact()
    log.segment("a3 b4")
    log.move_log_start(3)
    assert log.cleaner is None
    log.segment("b5")
    log.compact()
    log.check()


def test_a_plan_from_before_reads_the_rest_after_it(log: KeyedLog) -> None:  # M: S-09 C-05
    log.create(rewrite_delete_delay_ms=1_000)
    log.segment("a1 b2 a3")
    plan = log.log.planned("t")
    log.compact()
    assert log.log.read_plan(plan) == [b"1", b"2", b"3"], "its objects are still there"
    log.log.clock.at_ms += 1_000
    log.compact()
    assert log.log.stored() == log.log.named()
    assert log.log.read_plan(plan) == [b"2", b"3"]


def test_two_runs_at_once_do_the_work_once(log: KeyedLog) -> None:  # M: C-05
    log.create(segment_bytes=700)
    for text in ("a1 b2 a3", "b4 c5 a6", "c7 c8"):
        log.segment(text)
    inner: list[JobReport] = []
    report = log.compact(shuffle=DictShuffle(lambda: inner.append(log.compact())))
    assert [row.outcome for row in inner[0].partitions] == [WorkOutcome.DONE]
    assert [row.outcome for row in report.partitions] == [WorkOutcome.OVERTAKEN]
    assert report.exit_code == 0
    log.check()
    assert log.text() == "3:b4 5:a6 7:c8"
    state = log.log.cluster.connection.newest_state()
    kinds = {named.object.kind for named in state.objects if named.number not in state.retired}
    assert kinds == {ObjectKind.SEGMENT}


def test_a_run_that_ends_behind_another_one_does_not_move_its_cleaner(log: KeyedLog) -> None:  # M: C-02
    log.create(delete_retention_ms=1_000)
    log.segment("a1 b2")

    def other() -> None:
        log.segment("c b")
        log.compact()

    report = log.compact(shuffle=DictShuffle(other))
    assert [row.outcome for row in report.partitions] == [WorkOutcome.OVERTAKEN]
    assert log.cleaner is not None
    assert log.cleaner.passes == (Pass(log.cleaner.position, log.log.clock.at_ms),)
    log.check()


def test_a_swap_that_is_refused_does_not_move_the_cleaner(  # M: C-02 C-05
    log: KeyedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create(segment_bytes=700)
    for text in ("a1 b2 c1", "a3 b4"):
        log.segment(text)
    whole = compaction_job.swaps_of
    monkeypatch.setattr(
        compaction_job, "swaps_of", lambda *args: [msgspec.structs.replace(each, digest="") for each in whole(*args)]
    )
    report = log.compact()
    assert [row.outcome for row in report.partitions] == [WorkOutcome.OVERTAKEN]
    assert (log.cleaner, log.text()) == (None, "0:a1 1:b2 2:c1 3:a3 4:b4")


def test_a_partition_that_fails_stops_no_other_one(log: KeyedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.create()
    log.segment("a1 a2")
    topic = log.log.cluster.create_topic("u", config={"cleanup.policy": "compact"})
    assert topic
    log.log.cluster.append("u", pa.table({"key": [b"a", b"a"], "value": [b"1", b"2"]}))
    log.roll()
    (part,) = log.log.planned("t").slices
    key = next(key for key in log.log.stored() if part.object.object.upload_id in key and key.endswith(".arrow"))
    body = bytearray(log.log.store.get(key))
    body[part.slice.position + part.slice.length // 2] ^= 1
    log.log.store.delete(key)
    log.log.store.put_if_absent(key, bytes(body))

    class Raising(DictShuffle):
        def run(self, reads: list[bytes], rewrites: list[bytes]) -> list[bytes]:  # type: ignore[override]
            try:
                return super().run(reads, rewrites)
            except SparklogError as error:
                raise SparklogError(f"Spark could not compact: {error}") from error

    report = log.compact(shuffle=Raising())
    assert {row.topic: row.outcome for row in report.partitions} == {
        "t": WorkOutcome.FAILED,
        "u": WorkOutcome.DONE,
    }
    assert (report.exit_code, report.failed) == (1, 1)
    assert key in report.partitions[0].messages[0]


def test_a_dry_run_changes_nothing(log: KeyedLog) -> None:
    log.create()
    log.segment("a1 a2")
    report = log.compact(dry_run=True)
    assert (report.planned.objects, report.planned.records) == (1, 2)
    assert "100% is new" in log.log.said.getvalue()
    assert log.text() == "0:a1 1:a2"


def test_many_partitions_share_a_shuffle_or_not(log: KeyedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_job, "ROUND_STRETCHES", 2)
    monkeypatch.setattr(compaction_job, "READ_BYTES", 100)
    made: MaintainedLog = log.log
    made.cluster.create_topic("u", partitions=5, config={"cleanup.policy": "compact", "segment.bytes": 900})
    for _ in range(3):
        for partition in range(5):
            keys = [f"k{each % 4}".encode() for each in range(9)]
            rows = {"key": keys, "value": keys, "partition": pa.array([partition] * 9, pa.int32())}
            made.cluster.append("u", pa.table(rows))
        log.log.roll()
    report = log.compact()
    assert {row.outcome for row in report.partitions} == {WorkOutcome.DONE}
    for partition in range(5):
        found = made.cluster.read("u", partition=partition)
        assert sorted(zip(found["offset"].to_pylist(), found["key"].to_pylist(), strict=True)) == [
            (23, b"k1"),
            (24, b"k2"),
            (25, b"k3"),
            (26, b"k0"),
        ] or sorted(found["key"].to_pylist()) == [b"k0", b"k1", b"k2", b"k3"]


# ---- around a gap that an election left ----------------------------------------------------------------


def test_in_front_of_a_gap_a_record_stays_and_no_tombstone_goes_with_it() -> None:  # M: C-01 C-03 S-03
    """No slice covers the gap, so the slice in front of it keeps a record, which a tombstone behind it deletes."""
    with new_cluster("abc") as cluster:
        log = KeyedLog(MaintainedLog(cluster))
        config = {"delete.retention.ms": 0, "min.insync.replicas": 2, "cleanup.policy": "compact,delete"}
        cluster.create_topic("t", assignment=[["a", "b", "c"]], config=config)
        log.segment("a1 b2 c3")
        lost = pa.table({"key": [b"d"], "value": [b"4"]})
        assert cluster.append("t", lost, acks=1, replication="pull").ranges[0].end == 4
        log.rows.append((3, "lost", None))
        cluster.submit(FenceStore(StoreId("a")))
        log.segment("a5 b6 c")
        for _ in range(3):
            log.compact()
            log.log.clock.at_ms += 1
            assert log.text() == "2:c3 4:a5 5:b6 6:c"
            log.check()
        assert log.cleaner is not None
        assert log.cleaner.keeps_superseded
        log.move_log_start(3)
        for _ in range(2):  # the first run sees that nothing of it is left
            log.compact()
        assert log.text() == "4:a5 5:b6"


def test_a_repeat_of_a_producer_is_known_after_its_records_are_gone(log: KeyedLog) -> None:  # M: C-06 I-02
    log.create()
    cluster = log.log.cluster
    producer_id = cluster.submit(AllocateProducer()).producer_id
    assert producer_id is not None
    batches = [
        pa.table({"key": [b"a", b"b"], "value": [f"{each}".encode()] * 2, "partition": pa.array([0, 0], pa.int32())})
        for each in range(3)
    ]
    for at, rows in enumerate(batches):
        cluster.append("t", rows, producer=(producer_id, 0, 2 * at))
    log.rows = [(2 * at + row, key, str(at)) for at in range(3) for row, key in enumerate("ab")]
    log.roll()
    log.compact()
    assert log.text() == "4:a2 5:b2"
    again = [cluster.append("t", rows, producer=(producer_id, 0, 2 * at)) for at, rows in enumerate(batches)]
    assert [(part.start, part.end) for result in again for part in result.ranges] == [(0, 2), (2, 4), (4, 6)]
    with pytest.raises(OutOfOrderSequence):
        cluster.append("t", batches[0], producer=(producer_id, 0, 8))
    log.check()


# ---- while others act ----------------------------------------------------------------------------------


def test_a_lag_that_is_raised_behind_the_cleaner_leaves_what_is_clean_alone(log: KeyedLog) -> None:  # M: C-02
    log.create(delete_retention_ms=1_000, segment_bytes=700)
    log.segment("a1 b2 a")
    log.log.clock.at_ms += 10
    log.segment("c4 b")
    log.compact()
    before, text = log.cleaner, log.text()
    log.log.clock.at_ms += 2_000
    log.log.cluster.alter("t", config={"min.compaction.lag.ms": 2_005})
    report = log.compact()
    assert (report.exit_code, report.partitions) == (0, ())
    assert (log.cleaner, log.text()) == (before, text)
    log.log.cluster.alter("t", config={"min.compaction.lag.ms": 0})
    log.compact()
    assert log.text() == "3:c4"


def test_a_topic_that_is_not_compacted_any_more_keeps_what_a_late_run_would_drop(log: KeyedLog) -> None:  # M: C-05
    log.create()
    log.segment("a1 b2 a3")
    report = log.compact(shuffle=DictShuffle(lambda: log.log.cluster.alter("t", config={"cleanup.policy": "delete"})))
    assert [row.outcome for row in report.partitions] == [WorkOutcome.OVERTAKEN]
    assert "POLICY_VIOLATION: a rewrite of t-0 [0, 3) keeps 3 records" in report.partitions[0].messages[0]
    assert log.text() == "0:a1 1:b2 2:a3"
