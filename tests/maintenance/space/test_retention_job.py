"""The retention job from outside: by time and by bytes, delays, late readers, failures of one partition."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from sparklog.core.errors import DataLoss, StoreReadOnly
from sparklog.core.maintenance import retired_objects
from sparklog.core.tables.column_blocks import Column
from sparklog.maintenance import job_frame
from sparklog.maintenance.job_report import WorkOutcome
from sparklog.storage.memory import MemoryStore
from tests.kit.hand_clock import START_MS
from tests.maintenance.maintained_log import DAY_MS, MaintainedLog, maintained


@pytest.fixture
def log() -> Iterator[MaintainedLog]:
    yield from maintained(f"memory://{uuid.uuid4().hex}")


def test_segments_older_than_retention_ms_go_whole_and_oldest_first(log: MaintainedLog) -> None:  # M: R-01 R-03
    log.topic("t", retention_ms=10 * DAY_MS)
    for day in range(6):
        log.append("t", 0, 10, timestamp_ms=START_MS + day * DAY_MS)
        if day % 2:
            log.roll()
    assert log.segments("t") == [(0, 20), (20, 40), (40, 60)]
    at_ms = START_MS + 11 * DAY_MS
    assert log.retention(now_ms=at_ms).planned.objects == 0, "the youngest record of the first segment is not older"
    report = log.retention(now_ms=at_ms + 1)
    assert (report.done.objects, report.done.records, log.log_start("t")) == (1, 20, 20)
    log.check()
    log.retention(now_ms=START_MS + 100 * DAY_MS)
    assert log.log_start("t") == 60, "everything may go, up to the high watermark"
    log.append("t", 0, 1)
    log.check()


def test_retention_bytes_keeps_at_least_the_limit(log: MaintainedLog) -> None:  # M: R-02
    log.topic("t", retention_bytes=2_500)
    for _ in range(5):
        log.append("t", 0, 1, 1_000)
    log.retention()
    assert 0 < log.log_start("t") < 5
    assert log.cluster.describe("t").size_bytes >= 2_500
    log.check()


def test_a_slice_not_yet_rolled_counts_as_a_segment(log: MaintainedLog) -> None:  # M: R-03
    log.topic("t", 2, retention_ms=DAY_MS, file_delete_delay_ms=0)
    for partition in (0, 1):
        log.append("t", partition, 5, timestamp_ms=START_MS - 2 * DAY_MS)
    log.append("t", 0, 5)
    report = log.retention()
    assert (log.log_start("t", 0), log.log_start("t", 1)) == (5, 5)
    assert report.deletion.done.objects == 2
    assert log.stored() == log.named()
    log.check()


def test_an_object_that_another_partition_still_needs_stays(log: MaintainedLog) -> None:  # M: R-03
    import pyarrow as pa

    log.topic("t", 2, retention_ms=DAY_MS, file_delete_delay_ms=0)
    times = pa.array([0, START_MS * 1000], pa.timestamp("us", "UTC"))
    values = [b"old", b"new"]
    log.cluster.append("t", pa.table({"value": values, "partition": pa.array([0, 1], pa.int32()), "timestamp": times}))
    log.model = {("t", 0): [b"old"], ("t", 1): [b"new"]}
    assert log.retention().deletion.done.objects == 0
    assert log.log_start("t", 0) == 1
    assert len(log.stored()) == 2
    log.check()


def test_objects_go_after_the_delay_and_late_readers_are_told(log: MaintainedLog) -> None:  # M: R-04 S-09
    log.topic("t", retention_ms=DAY_MS, file_delete_delay_ms=60_000)
    log.append("t", 0, 10, timestamp_ms=0)
    log.append("t", 0, 10)
    plan = log.planned("t")
    log.retention()
    assert log.read_plan(plan) == log.model["t", 0], "a scan planned before goes on inside the delay"
    log.clock.at_ms += 59_999
    assert log.retention().deletion.done.objects == 0
    log.clock.at_ms += 1
    assert log.retention().deletion.done.objects == 1
    with pytest.raises(DataLoss, match=r"\[0, 10\) were removed by retention"):
        log.read_plan(plan)
    assert log.read_plan(plan, fail_on_data_loss=False) == log.model["t", 0][10:]
    assert log.stored() == log.named()


# M: R-04
def test_without_the_delay_check_a_reader_inside_the_delay_would_lose_records(
    log: MaintainedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above with the guard taken out: it can see the fault."""

    def at_once(state: object, clock_ms: int, topics: object = None) -> Column:
        return retired_objects.due_for_deletion(state, 2**62, topics)  # type: ignore[arg-type]

    monkeypatch.setattr(job_frame, "due_for_deletion", at_once)
    log.topic("t", retention_ms=DAY_MS, file_delete_delay_ms=60_000)
    log.append("t", 0, 10, timestamp_ms=0)
    plan = log.planned("t")
    log.retention()
    with pytest.raises(DataLoss):
        log.read_plan(plan)


def test_objects_of_a_deleted_topic_go_after_the_delay(log: MaintainedLog) -> None:  # M: R-04
    log.topic("t", file_delete_delay_ms=60_000)
    log.append("t", 0, 10)
    log.roll()
    log.append("t", 0, 10)
    log.cluster.delete_topic("t")
    log.retention()
    assert len(log.stored()) == 6
    log.clock.at_ms += 3_600_000
    log.retention()
    assert log.stored() == set()
    assert log.retired() == 0


def test_now_in_the_past_deletes_nothing_that_is_not_old_by_then(log: MaintainedLog) -> None:
    log.topic("t", retention_ms=365 * DAY_MS, file_delete_delay_ms=0)
    january_2013, january_2014 = 1_357_000_000_000, 1_388_600_000_000
    log.append("t", 0, 10, timestamp_ms=january_2013)
    log.append("t", 0, 10, timestamp_ms=january_2013 + 40 * DAY_MS)
    report = log.retention(now_ms=january_2014 + DAY_MS)
    assert log.log_start("t") == 10
    assert report.deletion.done.objects == 1, "the delay is told by the clock of now, and it was 0"
    assert report.floor == 0
    log.check()


def test_a_dry_run_shows_what_would_go(log: MaintainedLog) -> None:  # M: R-06
    log.topic("t", retention_ms=DAY_MS)
    log.append("t", 0, 10, timestamp_ms=0)
    before = [each.key for each in log.store.list_keys("")]
    report = log.retention(dry_run=True)
    assert [each.key for each in log.store.list_keys("")] == before
    assert (report.dry_run, report.planned.records, report.exit_code) == (True, 10, 0)
    assert [each.outcome for each in report.partitions] == [WorkOutcome.PLANNED]
    assert "log start 0 -> 10" in log.said.getvalue()


def test_an_object_that_can_not_be_deleted_is_reported_and_tried_again(
    log: MaintainedLog, monkeypatch: pytest.MonkeyPatch
) -> None:  # M: R-06
    log.topic("t", 3, retention_ms=DAY_MS, file_delete_delay_ms=0)
    for partition in range(3):
        log.append("t", partition, 10, timestamp_ms=0)
    stuck = sorted(each for each in log.stored() if each.endswith(".index"))[1]
    delete = MemoryStore.delete

    def refusing(store: MemoryStore, key: str) -> None:
        if key == stuck:
            raise StoreReadOnly(f"{key} is kept")
        delete(store, key)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "delete", refusing)
        report = log.retention()
    assert (report.exit_code, report.deletion.failed, report.deletion.done.objects) == (1, 1, 2)
    assert "is kept" in report.deletion.messages[0]
    state = log.cluster.connection.newest_state()
    assert [each.failed_partitions for each in state.jobs.values() if each.job == "retention"] == [1]
    assert [each.outcome for each in report.partitions] == [WorkOutcome.DONE] * 3
    assert log.stored() == {stuck}
    assert log.retired() == 1
    assert log.retention().exit_code == 0
    assert log.stored() == set()


# M: I-02
def test_floor_follows_the_age_of_entries_and_silent_producers_go(log: MaintainedLog) -> None:
    log.topic("t")
    producer_id, _ = log.cluster.allocate_producer()
    log.append("t", 0, 1)
    log.clock.at_ms += 6 * DAY_MS
    log.append("t", 0, 1)
    state = log.cluster.connection.newest_state()
    last_old = state.n - 1
    assert log.retention().floor == 0
    log.clock.at_ms += DAY_MS + 1
    assert log.retention().floor == last_old
    state = log.cluster.connection.newest_state()
    assert state.floor == last_old
    assert producer_id in state.producers, "as yet only this clock says that so much time has passed"
    log.busy()
    log.retention()
    assert producer_id not in log.cluster.connection.newest_state().producers
