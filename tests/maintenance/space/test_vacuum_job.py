"""The vacuum job: orphans go, and nothing else does."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

import pyarrow as pa
import pytest

from sparklog.chain.commit.committer import new_command_id
from sparklog.client.plans.task_upload import upload_task_rows
from sparklog.client.plans.write_plan import TaskWritten, WritePlan, append_command, plan_write
from sparklog.core.commands import Submission
from sparklog.core.errors import DataLoss, Landed, StoreReadOnly, StoreUnavailable, WriteExpired
from sparklog.core.types import EntryNumber
from sparklog.log.objects import orphans
from sparklog.maintenance.job_report import WorkOutcome
from sparklog.storage.keys import command_key
from sparklog.storage.memory import MemoryStore
from tests.maintenance.maintained_log import DAY_MS, MaintainedLog, maintained


@pytest.fixture
def log() -> Iterator[MaintainedLog]:
    yield from maintained(f"memory://{uuid.uuid4().hex}")


def upload(log: MaintainedLog, topic: str, count: int = 10) -> tuple[WritePlan, TaskWritten]:
    """What a writer task uploads before its driver commits."""
    state = log.cluster.connection.newest_state()
    addresses = log.cluster.connection.addresses(state)
    plan = plan_write(state, addresses, new_command_id(), topic=topic, compression=None, now_ms=log.clock.at_ms)
    return plan, upload_task_rows(plan, pa.table({"value": [b"late"] * count}).to_batches())


def commit(log: MaintainedLog, plan: WritePlan, written: TaskWritten) -> None:
    command = append_command(plan, [written])
    assert command is not None
    log.cluster.connection.committer.submit(Submission(plan.command_id, plan.n0, command))


def test_what_a_failed_writer_left_goes_once_floor_has_passed_it(log: MaintainedLog) -> None:  # M: F-09
    log.topic("t")
    log.append("t", 0, 10)
    upload(log, "t")
    log.append("t", 0, 1)
    assert log.vacuum().planned.objects == 0, "a slow writer may still commit it"
    assert len(log.stored()) == 6
    log.clock.at_ms += 7 * DAY_MS + 1
    report = log.vacuum()
    assert (report.exit_code, report.done.objects) == (0, 2)
    assert log.stored() == log.named()
    log.check()


def test_a_writer_that_outlived_floor_is_refused_and_one_before_is_not(log: MaintainedLog) -> None:  # M: F-09 I-03
    log.topic("t")
    slow, late = upload(log, "t"), upload(log, "t")
    log.vacuum(now_ms=log.clock.at_ms + 6 * DAY_MS)
    commit(log, *slow)
    log.append("t", 0, 1)
    log.model["t", 0] = [b"late"] * 10 + log.model["t", 0]
    log.check()
    log.append("t", 0, 1)
    log.vacuum(now_ms=log.clock.at_ms + 8 * DAY_MS)
    with pytest.raises(WriteExpired) as refused:
        commit(log, *late)
    assert refused.value.landed is Landed.NO
    assert log.stored() == log.named()


def test_an_upload_that_appears_after_floor_can_not_be_committed_and_goes_next_time(log: MaintainedLog) -> None:
    log.topic("t")  # M: F-09
    state = log.cluster.connection.newest_state()
    addresses = log.cluster.connection.addresses(state)
    plan = plan_write(state, addresses, new_command_id(), topic="t", compression=None, now_ms=log.clock.at_ms)
    log.append("t", 0, 1)
    log.vacuum(now_ms=log.clock.at_ms + 8 * DAY_MS)
    written = upload_task_rows(plan, pa.table({"value": [b"late"]}).to_batches())
    with pytest.raises(WriteExpired):
        commit(log, plan, written)
    assert log.vacuum().done.objects == 2
    assert log.stored() == log.named()


def test_retired_and_rolled_objects_are_not_orphans(log: MaintainedLog) -> None:  # M: F-09 R-04
    log.topic("t", 2)
    for partition in (0, 1):
        log.append("t", partition, 10)
    plan = log.planned("t")
    log.roll()
    before = log.stored()
    log.clock.at_ms += 3_000_000
    assert log.vacuum(now_ms=log.clock.at_ms + 30 * DAY_MS).planned.objects == 0
    assert log.stored() == before == log.named()
    assert log.read_plan(plan) == log.model["t", 0]


def test_uploads_of_a_killed_roll_go_also_when_its_topic_was_deleted(log: MaintainedLog) -> None:  # M: F-09
    log.topic("t")
    log.append("t", 0, 10)
    log.store.put_if_absent(f"topics/1-t/0/{0:020d}-0-{1:020d}-{'ab' * 16}.arrow", b"of a roll that was killed")
    log.cluster.delete_topic("t")
    log.clock.at_ms += 8 * DAY_MS
    report = log.vacuum()
    assert [each.place for each in report.partitions] == ["local:topics/1-t/"]
    assert log.stored() == set()


# M: F-09
def test_names_that_are_not_sparklogs_are_left(log: MaintainedLog) -> None:
    log.topic("t")
    strange = {"append/ab/notes.txt", "topics/readme", "topics/x/y", f"append/cd/{0:020d}-{'ab' * 16}.arrow"}
    for key in strange:
        log.store.put_if_absent(key, b"mine")
    log.clock.at_ms += 8 * DAY_MS
    log.vacuum()
    assert log.stored() == strange


# M: F-09
def test_bodies_of_large_commands_stay_while_no_three_snapshots_cover_them(log: MaintainedLog) -> None:
    log.topic("t")
    key = command_key(0, "ab" * 16)
    log.store.put_if_absent(key, b"an entry may name it")
    log.clock.at_ms += 8 * DAY_MS
    log.vacuum()
    assert bytes(log.store.get(key)) == b"an entry may name it"


def test_uploads_that_were_not_published_within_the_delay_are_dropped(
    log: MaintainedLog, monkeypatch: pytest.MonkeyPatch
) -> None:  # M: F-09
    monkeypatch.setattr("sparklog.storage.memory.now_ms", log.clock.now_ms)
    log.topic("t")
    slow, stalled = log.store.upload("append/ab/x"), log.store.upload("append/ab/y")
    for each in (slow, stalled):
        each.write(b"half")
    log.clock.at_ms += 7 * DAY_MS
    assert log.vacuum().partitions == ()
    slow.publish()
    log.clock.at_ms += 1
    report = log.vacuum()
    assert [(each.place, each.done.objects) for each in report.partitions] == [("local:uploads", 1)]
    with pytest.raises(StoreUnavailable, match="abandoned"):
        stalled.publish()


def test_a_dry_run_counts_and_changes_nothing(log: MaintainedLog) -> None:  # M: R-06
    log.topic("t")
    upload(log, "t")
    log.append("t", 0, 1)
    before = [each.key for each in log.store.list_keys("")]
    report = log.vacuum(dry_run=True, now_ms=log.clock.at_ms + 8 * DAY_MS)
    assert [each.key for each in log.store.list_keys("")] == before
    assert (report.planned.objects, report.done.objects) == (2, 0)
    assert report.planned.size_bytes > 0
    assert report.floor > 0
    state = log.cluster.connection.newest_state()
    assert state.floor == 0


def test_a_failing_deletion_is_reported_and_stops_no_other(
    log: MaintainedLog, monkeypatch: pytest.MonkeyPatch
) -> None:  # M: R-06
    log.topic("t")
    for _ in range(4):
        upload(log, "t")
    log.append("t", 0, 1)
    named = log.named()
    stuck = sorted(log.stored() - named)[3]
    delete = MemoryStore.delete

    def refusing(store: MemoryStore, key: str) -> None:
        if key == stuck:
            raise StoreReadOnly(f"{key} is kept")
        delete(store, key)

    monkeypatch.setattr(MemoryStore, "delete", refusing)
    report = log.vacuum(now_ms=log.clock.at_ms + 8 * DAY_MS)
    assert report.exit_code == 1
    assert [each.messages for each in report.partitions if each.outcome is WorkOutcome.FAILED] == [
        (f"STORE_READ_ONLY: {stuck} is kept",)
    ]
    assert log.stored() == named | {stuck}


# All but the listings, of which there are hundreds: a commit between two of them is one before the next deletion.
_CALLS = ("put_if_absent", "get", "get_ranges", "size", "first_key_after", "delete")


def vacuumed_while_a_writer_commits(calls: int) -> bool | None:
    """Whether a slow writer's commit before the n-th call landed; None if vacuum makes fewer calls."""
    log = next(maintained(f"memory://{uuid.uuid4().hex}"))
    log.topic("t")
    log.append("t", 0, 1)
    slow = upload(log, "t")
    log.append("t", 0, 1)
    landed: bool | None = None

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def counting(store: MemoryStore, *args: object, **options: object) -> object:
            nonlocal calls, landed
            calls -= 1
            if calls == 0:
                landed = False
                with suppress(WriteExpired):
                    commit(log, *slow)
                    landed = True
            return call(store, *args, **options)

        return counting

    with pytest.MonkeyPatch.context() as watched:
        for each in _CALLS:
            watched.setattr(MemoryStore, each, counted(getattr(MemoryStore, each)))
        log.clock.at_ms += 8 * DAY_MS
        assert log.vacuum().exit_code == 0
    log.model["t", 0] += [b"late"] * 10 if landed else []
    log.check()
    log.cluster.close()
    return landed


def test_a_slow_writer_may_commit_before_any_read_or_change_that_vacuum_makes() -> None:  # M: F-09 I-03
    """It is refused, or its records stay: a commit that lands before FLOOR is seen by the search that comes after."""
    landed = []
    for calls in count(1):
        outcome = vacuumed_while_a_writer_commits(calls)
        if outcome is None:
            break
        landed.append(outcome)
    assert set(landed) == {True, False}, "some commits came before FLOOR, some after"


# M: F-09
def test_without_the_floor_check_a_slow_writers_commit_would_name_nothing(
    log: MaintainedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with the guard taken out: objects above FLOOR go, and a commit after that loses its records."""
    log.topic("t")
    slow = upload(log, "t")
    search = orphans.search_orphans

    def blind(
        asked: orphans.OrphanSearch, store: MemoryStore, *, delete: bool, check: Callable[[], None]
    ) -> orphans.OrphansFound:
        without = orphans.OrphanSearch(asked.store, asked.prefix, EntryNumber(2**62), asked.named)
        return search(without, store, delete=delete, check=check)

    monkeypatch.setattr("sparklog.maintenance.space.vacuum_job.search_orphans", blind)
    log.vacuum()
    commit(log, *slow)
    with pytest.raises(DataLoss):
        log.cluster.read("t", partition=0)


def test_old_snapshots_go_and_a_dry_run_or_one_of_topics_leaves_them(log: MaintainedLog) -> None:
    log.topic("t")
    for _ in range(5):
        log.append("t", 0, 1)
        log.cluster.connection.committer.snapshots.write()
    store = log.cluster.connection.follower.store
    before = {each.key for each in store.list_keys("meta/")}
    planned = log.vacuum(dry_run=True)
    assert [each.place for each in planned.partitions] == ["metadata:old"]
    assert "2 snapshots, " in planned.partitions[0].reason
    assert log.vacuum(topics={"t"}).partitions == ()
    assert before <= {each.key for each in store.list_keys("meta/")}
    report = log.vacuum()
    gone = before - {each.key for each in store.list_keys("meta/")}
    assert (report.exit_code, report.done.objects, len(gone)) == (0, planned.planned.objects, planned.planned.objects)
    assert len([each for each in gone if each.startswith("meta/snapshot/")]) == 2
    assert log.vacuum().partitions == ()
    log.check()


def test_old_snapshots_that_can_not_be_deleted_are_a_failure_and_stay_for_the_next_run(
    log: MaintainedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.topic("t")
    for _ in range(4):
        log.append("t", 0, 1)
        log.cluster.connection.committer.snapshots.write()

    def refuse(store: MemoryStore, key: str) -> None:
        raise StoreReadOnly(f"{key}: not for you")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "delete", refuse)
        report = log.vacuum()
    assert (report.exit_code, report.partitions[0].outcome, report.done.objects) == (1, WorkOutcome.FAILED, 0)
    assert "not for you" in report.partitions[0].messages[0]
    assert log.vacuum().done.objects > 0
