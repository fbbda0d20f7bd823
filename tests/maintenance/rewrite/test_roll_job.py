"""The roll job from outside: what readers, the store and the chain see."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from sparklog.core.decide import maintenance
from sparklog.core.errors import SparklogError, UnknownTopicOrPartition
from sparklog.core.types import ObjectKind
from sparklog.maintenance.job_report import JobReport, WorkOutcome
from sparklog.maintenance.rewrite import roll_job
from sparklog.storage.keys import parse_data_key
from tests.maintenance.maintained_log import DAY_MS, MaintainedLog, maintained


@pytest.fixture
def log() -> Iterator[MaintainedLog]:
    yield from maintained(f"memory://{uuid.uuid4().hex}")


def base_offsets(log: MaintainedLog, topic: str) -> list[int]:
    """As a listing of the topic's segments shows them."""
    keys = sorted(each.key for each in log.store.list_keys("topics/"))
    names = [parse_data_key(key) for key in keys if key.endswith(".arrow")]
    return [name.base_offset for name in names if name is not None and name.topic == topic]  # type: ignore[misc]


def test_rolled_segments_hold_the_same_log(log: MaintainedLog) -> None:  # M: S-01 S-06
    log.topic("t", 2, segment_bytes=5_000)
    for partition in (0, 1):
        for count in (8, 2, 100, 1):
            log.append("t", partition, count)
    report = log.roll()
    log.check()
    assert report.exit_code == 0
    assert {each.outcome for each in report.partitions} == {WorkOutcome.DONE}
    assert report.done.records == 222
    state = log.cluster.connection.newest_state()
    assert {each.object.kind for each in state.objects if each.number not in state.retired} == {ObjectKind.SEGMENT}


def test_a_log_of_8_2_and_n_records_shows_segments_0_8_and_10(log: MaintainedLog) -> None:  # M: S-02
    log.topic("t", segment_bytes=1_400)
    for count, size in ((8, 40), (2, 200), (5, 60)):
        log.append("t", 0, count, size)
    log.roll()
    assert base_offsets(log, "t") == [0, 8, 10]
    log.check()


def test_a_plan_says_when_there_can_be_more_segments_than_it_counts(log: MaintainedLog) -> None:
    log.topic("t", segment_bytes=4_000)
    log.append("t", 0, 10)
    assert log.roll(dry_run=True).notes == ()
    log.append("t", 0, 3_000)
    report = log.roll()
    assert report.done.objects > report.planned.objects
    assert report.notes == (roll_job.MORE_SEGMENTS,)
    assert "and with a small segment.bytes many more" in log.said.getvalue().replace("\n", " ")


def test_a_slice_larger_than_segment_bytes_becomes_several_segments(log: MaintainedLog) -> None:  # M: S-06
    log.topic("t", segment_bytes=1_000)
    log.append("t", 0, 40)
    log.roll(everything=False)
    starts = base_offsets(log, "t")
    assert len(starts) > 4
    assert [start for start, _ in log.segments("t")] == starts
    log.check()


def test_a_record_larger_than_segment_bytes_gets_a_segment_of_its_own(log: MaintainedLog) -> None:  # M: S-06
    log.topic("t", segment_bytes=1_000)
    for size in (20, 5_000, 20):
        log.append("t", 0, 1, size)
    log.roll()
    assert log.segments("t") == [(0, 1), (1, 2), (2, 3)]
    log.check()


def test_what_is_neither_full_nor_old_stays_until_its_time(log: MaintainedLog) -> None:  # M: S-06
    log.topic("t")
    log.append("t", 0, 5)
    assert log.roll(everything=False).planned.objects == 0
    assert log.roll(everything=False, now_ms=log.clock.at_ms + 7 * DAY_MS).done.objects == 1
    log.check()


def test_a_dry_run_shows_bytes_and_requests_and_changes_nothing(log: MaintainedLog) -> None:  # M: R-06
    log.topic("t")
    log.append("t", 0, 50)
    before = [each.key for each in log.store.list_keys("")]
    report = log.roll(dry_run=True)
    assert [each.key for each in log.store.list_keys("")] == before
    assert report.planned.records == 50
    assert report.planned.size_bytes > 0
    assert report.planned.requests >= 4
    assert "all was asked for" in log.said.getvalue()


def test_old_objects_stay_for_their_delay_and_then_go(log: MaintainedLog) -> None:  # M: R-04
    log.topic("t", 2, rewrite_delete_delay_ms=3_600_000)
    log.append("t", 0, 50)
    plan = log.planned("t")
    log.roll()
    before = log.stored()
    log.clock.at_ms += 3_599_999
    assert log.roll().deletion.done.objects == 0
    assert log.stored() == before == log.named()
    log.clock.at_ms += 1
    assert log.roll().deletion.done.objects == 1
    assert log.stored() == log.named() < before
    assert log.read_plan(plan) == log.model["t", 0], "a plan from before the roll reads the new segment"


def test_now_does_not_shorten_a_delay(log: MaintainedLog) -> None:  # M: R-04
    log.topic("t")
    log.append("t", 0, 50)
    log.roll()
    assert log.roll(now_ms=log.clock.at_ms + 365 * DAY_MS).deletion.planned.objects == 0
    assert log.retired() == 1


def test_a_damaged_object_fails_its_partition_and_no_other(log: MaintainedLog) -> None:  # M: R-06
    log.topic("t", 3)
    for partition in range(3):
        log.append("t", partition, 50)
    (part,) = log.planned("t", 1).slices
    key = next(key for key in log.stored() if part.object.object.upload_id in key and key.endswith(".arrow"))
    body = bytearray(log.store.get(key))
    body[part.slice.position + part.slice.length // 2] ^= 1
    log.store.delete(key)
    log.store.put_if_absent(key, bytes(body))
    report = log.roll()
    assert [each.outcome for each in report.partitions] == [
        WorkOutcome.DONE,
        WorkOutcome.FAILED,
        WorkOutcome.DONE,
    ]
    assert (report.exit_code, report.failed) == (1, 1)
    assert key in report.partitions[1].messages[0]
    assert log.cluster.read("t", partition=2).num_rows == 50
    state = log.cluster.connection.newest_state()
    recorded = state.jobs["roll"]
    assert recorded.failed_partitions == 1
    assert key in recorded.report


def test_topics_can_be_chosen_and_must_be_there(log: MaintainedLog) -> None:
    for name in ("a", "b"):
        log.topic(name)
        log.append(name, 0, 5)
    assert [each.topic for each in log.roll(topics=["b"]).partitions] == ["b"]
    with pytest.raises(UnknownTopicOrPartition, match="'c'"):
        log.roll(topics=["c"])


def test_append_time_stays_what_it_was(log: MaintainedLog) -> None:
    log.topic("t", **{"message_timestamp_type": "LogAppendTime"})
    for _ in range(3):
        log.append("t", 0, 5)
        log.clock.at_ms += 1_000
    before = log.cluster.read("t", partition=0)
    log.roll()
    assert log.cluster.read("t", partition=0).equals(before)


def test_a_report_is_json_with_what_was_planned_done_and_failed(log: MaintainedLog) -> None:  # M: R-06
    log.topic("t")
    log.append("t", 0, 5)
    document = msgspec.json.decode(log.roll().to_json())
    assert document["job"] == "roll"
    assert set(document["planned"]) == {"objects", "records", "bytes", "requests"}
    assert document["done"]["records"] == 5
    assert (document["failed"], document["exit_code"]) == (0, 0)
    assert document["partitions"][0]["topic"] == "t"


def roll_while(log: MaintainedLog, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> JobReport:
    """Roll, and do something else after the upload, before the swap."""
    whole = roll_job.roll_segments

    def interrupted(payload: bytes) -> bytes:
        result = whole(payload)
        patch.setattr(roll_job, "roll_segments", whole)
        meanwhile()
        return result

    with monkeypatch.context() as patch:
        patch.setattr(roll_job, "roll_segments", interrupted)
        return log.roll()


def test_a_second_copy_of_itself_overtakes_and_nothing_is_lost(
    log: MaintainedLog, monkeypatch: pytest.MonkeyPatch
) -> None:  # M: C-05
    log.topic("t")
    log.append("t", 0, 50)
    report = roll_while(log, monkeypatch, log.roll)
    assert [each.outcome for each in report.partitions] == [WorkOutcome.OVERTAKEN]
    assert report.exit_code == 0
    log.check()


def test_a_retention_in_between_refuses_the_swap(log: MaintainedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.topic("t", retention_ms=1_000, file_delete_delay_ms=0)
    log.append("t", 0, 50, timestamp_ms=0)
    log.append("t", 0, 50)
    report = roll_while(log, monkeypatch, log.retention)
    assert [each.outcome for each in report.partitions] == [WorkOutcome.OVERTAKEN]
    assert log.log_start("t") == 50
    log.check()


def test_a_topic_deleted_in_between_is_no_failure(log: MaintainedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.topic("t")
    log.append("t", 0, 50)
    report = roll_while(log, monkeypatch, lambda: log.cluster.delete_topic("t"))
    assert [each.outcome for each in report.partitions] == [WorkOutcome.OVERTAKEN]


def more_and_roll(log: MaintainedLog) -> None:
    log.append("t", 0, 10)
    log.roll()


def test_a_swap_of_slices_that_another_roll_joined_with_more_is_refused(
    log: MaintainedLog, monkeypatch: pytest.MonkeyPatch
) -> None:  # M: C-05
    log.topic("t")
    log.append("t", 0, 50)
    report = roll_while(log, monkeypatch, lambda: more_and_roll(log))
    assert [each.outcome for each in report.partitions] == [WorkOutcome.OVERTAKEN]
    assert log.segments("t") == [(0, 60)]
    log.check()


# M: C-05
def test_without_the_checks_of_a_swap_the_log_would_break(log: MaintainedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same without the guards, digest, whole slices and count: the tests here can see the fault."""

    class Agrees(str):
        def __ne__(self, other: object) -> bool:
            return False

    monkeypatch.setattr(maintenance, "digest", lambda slices: Agrees())
    monkeypatch.setattr(maintenance, "_check_rewritten", lambda command, replaced, partition: None)
    monkeypatch.setattr(maintenance, "_check_count", lambda command, replaced, config, place: None)
    log.topic("t")
    log.append("t", 0, 50)
    roll_while(log, monkeypatch, lambda: more_and_roll(log))
    with pytest.raises(AssertionError):
        log.check()


class FailingTasks:
    in_this_process = False
    tasks_at_once = 64

    def run(self, task: object, payloads: object) -> list[bytes]:
        raise SparklogError("stage 7 was aborted")


def test_tasks_that_could_not_be_run_are_reported(tmp_path: Path) -> None:  # M: R-06
    for log in maintained(str(tmp_path / "cluster")):
        log.topic("t")
        log.append("t", 0, 5)
        report = log.roll(tasks=FailingTasks())
        assert report.exit_code == 1
        assert "stage 7 was aborted" in report.partitions[0].messages[0]
        log.check()
        assert log.roll().exit_code == 0
