"""The recovery job: damage on one store is repaired, on all stores reported, and nothing wrong is ever served."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from rich.console import Console

from sparklog.core.errors import BrokerIdNotRegistered, DataLoss, SparklogError, StoreUnavailable
from sparklog.core.invariants import check
from sparklog.core.recovery import slices_by_object
from sparklog.core.replication.append import Acks
from sparklog.core.types import NamedObject, ObjectNumber, Slice, StoreId
from sparklog.log.index import SliceIndex, cut_to_slice
from sparklog.log.object_reader import read_index
from sparklog.maintenance.recovery import run_recovery
from sparklog.maintenance.replication import run_replication
from sparklog.maintenance.report import JobReport, Outcome
from sparklog.maintenance.roll import run_roll
from sparklog.maintenance.tasks import LocalTasks, Task
from sparklog.maintenance.vacuum import run_vacuum
from sparklog.storage.keys import append_key, index_key
from sparklog.storage.memory import MemoryStore
from tests.agent.agent_world import DrivenAgent
from tests.maintenance.damaged_log import WAYS, DamagedLog, damaged_log, rewrite_file

LAST = 4  # number of the last object


class ThreadTasks(LocalTasks):
    """Four tasks at once, in threads."""

    tasks_at_once = 4

    def run(self, task: Task, payloads: Sequence[bytes]) -> list[bytes]:
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(task, payloads))


@pytest.fixture
def log() -> Iterator[DamagedLog]:
    log = damaged_log()
    yield log
    check(log.world.state)
    log.world.cluster.close()


def run(log: DamagedLog, **options: object) -> JobReport:
    console = Console(file=io.StringIO(), width=140)
    return run_recovery(log.url, console=console, **options)  # type: ignore[arg-type]


def messages(report: JobReport) -> str:
    return "\n".join(message for row in report.partitions for message in row.messages)


# ---- nothing is wrong -----------------------------------------------------------------------------------


# M: F-03 F-04
@pytest.mark.parametrize("tasks", [LocalTasks(), ThreadTasks()], ids=["one", "four"])
def test_a_whole_cluster_is_read_once_and_its_recovery_points_rise(log: DamagedLog, tasks: LocalTasks) -> None:
    report = run(log, tasks=tasks)
    assert (report.exit_code, report.failed) == (0, 0)
    assert [each.place for each in report.partitions] == [f"t-{p} on {store}" for store in "abc" for p in (0, 1)]
    assert (report.planned.objects, report.done.objects) == (15, 15)
    assert [log.point(store) for store in "abc"] == [LAST + 1] * 3
    again = run(log, tasks=tasks)
    assert again.partitions == ()
    assert "every object that it holds is below its recovery point 5" in again.notes[0]
    log.write(1)
    assert run(log).done.objects == 3
    assert run(log, full=True).done.objects == 18


def test_a_dry_run_reads_nothing_and_says_what_it_would_cost(log: DamagedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryStore, "get_ranges", None)
    report = run(log, dry_run=True)
    assert (report.planned.objects, report.planned.records) == (15, 36)
    assert report.planned.requests == 3 * 15
    assert report.planned.size_bytes > 0
    assert log.point("a") == 0


def test_only_these_stores_and_topics(log: DamagedLog) -> None:
    log.world.cluster.create_topic("u", assignment=[["a", "b", "c"]])
    run(log, stores=["b"])
    assert [log.point(store) for store in "abc"] == [0, 5, 0]
    run(log, stores=["c"], topics={"u"})
    assert log.point("c") == 0, "what was not read stays above the point"
    with pytest.raises(BrokerIdNotRegistered):
        run(log, stores=["x"])


def test_a_fenced_store_is_left_out(log: DamagedLog) -> None:
    log.world.fence("c")
    report = run(log)
    assert "store c is fenced" in report.notes[0]
    assert [each.place for each in report.partitions if each.place.endswith("c")] == []
    log.world.register("c")
    assert run(log).exit_code == 0


# ---- damaged on one store -------------------------------------------------------------------------------


# M: F-04
@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("store", ["a", "c"], ids=["leader", "follower"])
def test_an_object_that_is_damaged_on_one_store_is_repaired_from_another(log: DamagedLog, way: str, store: str) -> None:
    log.damage(store, 2, way)
    report = run(log)
    assert (report.exit_code, report.failed) == (0, 0), messages(report)
    assert f"{log.key(2)}: it was damaged, and was fetched again" in messages(report)
    log.check()
    assert log.world.value(0).isr == ("a", "b", "c")
    assert log.point(store) == LAST + 1
    assert run(log).partitions == ()


# M: F-05
@pytest.mark.parametrize("way", sorted(WAYS))
def test_an_index_that_is_damaged_is_put_again(log: DamagedLog, way: str) -> None:
    registrations = log.world.state.registrations()
    log.damage("b", 1, way, index=True)
    report = run(log)
    assert report.exit_code == 0
    assert f"{log.key(1)}: its index was damaged, and was put again" in messages(report)
    log.check()
    assert log.world.state.registrations() == registrations, "nothing was lost"
    assert log.point("b") == LAST + 1


# M: F-05
def test_an_index_of_another_object_is_no_index(log: DamagedLog) -> None:
    store, other = log.world.store("a"), index_key(log.key(2))
    body = bytes(store.get(other))
    key = index_key(log.key(0))
    store.delete(key)
    store.put_if_absent(key, body)
    assert run(log).exit_code == 0
    log.check()


# M: F-05
def test_an_index_that_this_arrow_writes_in_another_way_is_copied(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sparklog.log import index_repair

    monkeypatch.setattr(index_repair, "rebuilt_index", lambda *of: None)
    log.damage("b", 1, "lost", index=True)
    assert run(log).exit_code == 0
    log.check()
    for store in "abc":
        log.damage(store, 1, "lost", index=True)
    report = run(log, full=True)
    assert report.exit_code == 1
    assert "index missing" in messages(report)
    assert log.world.values(1) == log.model[1], "readers rebuild it in memory"


# M: F-05
def test_an_index_without_an_object_goes_with_vacuum(log: DamagedLog) -> None:
    orphan = index_key(append_key(0, "ab" * 16))
    log.world.store("b").put_if_absent(orphan, b"index")
    assert run(log).exit_code == 0
    assert orphan in log.world.objects("b")
    assert run_vacuum(log.url, now_ms=2**41, console=Console(file=io.StringIO())).exit_code == 0
    assert orphan not in log.world.objects("b")
    log.check()


def test_object_and_index_can_both_be_damaged(log: DamagedLog) -> None:
    log.damage("a", 0, "flipped")
    log.damage("a", 0, "cut", index=True)
    log.damage("a", 3, "lost")
    log.damage("a", 3, "lost", index=True)
    assert run(log).exit_code == 0
    log.check()


# M: F-04
def test_other_objects_on_every_store_are_all_repaired(log: DamagedLog) -> None:
    for store, number in (("a", 0), ("b", 2), ("c", 3), ("a", 1), ("c", 4)):
        log.damage(store, number, "flipped")
    report = run(log, tasks=ThreadTasks())
    assert report.exit_code == 0, messages(report)
    log.check()
    assert [log.point(store) for store in "abc"] == [LAST + 1] * 3


def test_without_full_only_what_lies_above_the_point_is_found(log: DamagedLog) -> None:
    run(log)
    log.damage("b", 1, "flipped")
    assert run(log).partitions == ()
    assert run(log, full=True).exit_code == 0
    log.check()


# M: F-03
def test_after_a_loss_a_run_that_did_not_read_everything_leaves_the_point_at_the_beginning(log: DamagedLog) -> None:
    run(log)
    log.write(2)
    log.damage("b", LAST + 1, "flipped")
    assert run(log).exit_code == 0
    log.check()
    assert log.point("b") == 0, "a store that lost something is not trusted"
    assert log.point("a") == LAST + 2
    run(log)
    assert log.point("b") == LAST + 2


# M: F-04
def test_a_store_that_alone_has_records_is_not_repaired_before_another_has_them(log: DamagedLog) -> None:
    log.damage("a", 0, "flipped")
    log.write(1, on="a", acks=Acks.LEADER)
    before = log.world.replicas(0)
    report = run(log, stores=["a"])
    assert [row.outcome for row in report.partitions] == [Outcome.POSTPONED, Outcome.DONE]
    assert "its repair waits: NOT_ENOUGH_REPLICAS" in messages(report)
    assert log.world.replicas(0) == before
    assert log.point("a") == 0
    assert run_replication(log.url, stores=["b", "c"]).exit_code == 0
    assert run(log).exit_code == 0
    log.check()


# M: F-04
def test_readers_get_right_records_at_every_step_of_a_repair(log: DamagedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.damage("a", 2, "flipped")
    log.damage("b", 2, "lost", index=True)
    delete, put = MemoryStore.delete, MemoryStore.put_if_absent
    reads = []

    def reading(call: object) -> object:
        def wrapper(*arguments: object) -> object:
            assert log.world.values(0) == log.model[0]
            reads.append(1)
            return call(*arguments)  # type: ignore[operator]

        return wrapper

    monkeypatch.setattr(MemoryStore, "delete", reading(delete))
    monkeypatch.setattr(MemoryStore, "put_if_absent", reading(put))
    assert run(log).exit_code == 0
    monkeypatch.undo()
    assert len(reads) >= 4
    log.check()


# M: F-04
def test_nothing_is_deleted_while_the_chain_counts_on_it(log: DamagedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.damage("a", 2, "flipped")
    key = log.key(2)
    delete = MemoryStore.delete
    deleted = []

    def checked(store: MemoryStore, name: str) -> None:
        if name == key:
            deleted.append(log.world.value(0).log_end(StoreId("a")))
        delete(store, name)

    monkeypatch.setattr(MemoryStore, "delete", checked)
    assert run(log).exit_code == 0
    assert deleted == [3], "the log of a ends before the damaged object"


# M: F-04
def test_an_agent_that_takes_damaged_bytes_for_its_copy_does_not_end_the_repair(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It compares lengths, and reports the object as fetched before the job can delete it."""
    from sparklog.maintenance import repair

    agent = DrivenAgent(log.world, "b").run()
    take_away = repair.Repair._take_away
    times = []

    def late(self: repair.Repair, *arguments: object) -> None:
        if not times:
            times.append(1)
            agent.run()
            assert log.world.value(0).log_end(StoreId("b")) == 9
        take_away(self, *arguments)  # type: ignore[arg-type]

    log.damage("b", 2, "flipped")
    delete, key = MemoryStore.delete, log.key(2)

    def checked(store: MemoryStore, name: str) -> None:
        assert name != key or log.world.value(0).log_end(StoreId("b")) == 3, "the chain counts on it"
        delete(store, name)

    monkeypatch.setattr(MemoryStore, "delete", checked)
    monkeypatch.setattr(repair.Repair, "_take_away", late)
    report = run(log)
    assert report.exit_code == 0, messages(report)
    agent.stop()
    log.check()


# M: F-04
def test_what_an_agent_copies_while_the_job_looks_for_left_overs_is_not_deleted(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sparklog.maintenance import repair

    log.write(2, on="ab")
    source, target = log.world.store("a"), log.world.store("c")
    looked, delete, deleted, looks = repair.checked, MemoryStore.delete, [], []

    def beside(*arguments: object, mend: bool) -> object:
        found = looked(*arguments, mend=mend)  # type: ignore[arg-type]
        looks.append(arguments[1])
        if not mend and looks.count("c") == 3:  # after the last look before a deletion
            for key in set(log.world.objects("a")) - set(log.world.objects("c")):
                target.put_if_absent(key, source.get(key))  # and reports it later
        return found

    def noted(store: MemoryStore, key: str) -> None:
        deleted.append(key)
        delete(store, key)

    monkeypatch.setattr(repair, "checked", beside)
    monkeypatch.setattr(MemoryStore, "delete", noted)
    assert run(log).exit_code == 0
    assert not [key for key in deleted if key.startswith("append/")]
    log.check()


def test_two_recoveries_at_once_repair_everything(log: DamagedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    from sparklog.maintenance import repair

    for store, number in (("a", 0), ("b", 2), ("c", 3)):
        log.damage(store, number, "flipped")
    fill = repair.Repair._fill
    begun = []

    def beside(self: repair.Repair, store: object) -> str:
        if not begun:
            begun.append(1)
            assert run(log).exit_code == 0
        return fill(self, store)  # type: ignore[arg-type]

    monkeypatch.setattr(repair.Repair, "_fill", beside)
    assert run(log).exit_code == 0
    log.check()


def test_a_store_that_does_not_answer_is_reported_and_stops_no_other(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = MemoryStore.size

    def silent(store: MemoryStore, key: str) -> int:
        if store.url.endswith("-b"):
            raise StoreUnavailable("b is down")
        return size(store, key)

    monkeypatch.setattr(MemoryStore, "size", silent)
    report = run(log)
    assert [row.outcome for row in report.partitions] == [Outcome.DONE] * 2 + [Outcome.FAILED] * 2 + [Outcome.DONE] * 2
    assert [log.point(store) for store in "abc"] == [LAST + 1, 0, LAST + 1]


# M: F-04
def test_while_a_holder_is_silent_nothing_is_given_up(log: DamagedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    for store in "ab":
        log.damage(store, 2, "lost")
    size = MemoryStore.size

    def silent(store: MemoryStore, key: str) -> int:
        if store.url.endswith("-c"):
            raise StoreUnavailable("c is down")
        return size(store, key)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "size", silent)
        report = run(log, accept_loss=True)
        assert report.exit_code == 1
        assert "it can't be repaired now: store c" in messages(report)
    assert log.world.state.partitions[log.world.key(0)].replication.lost == ()
    assert run(log).exit_code == 0
    log.check()


def test_a_wiped_store_is_left_to_its_agent(log: DamagedLog) -> None:
    log.world.wipe("c")
    report = run(log)
    assert report.exit_code == 1
    assert "it was wiped or swapped" in messages(report)
    assert log.world.objects("c") == []


def test_what_retention_deletes_meanwhile_is_no_damage(log: DamagedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    from sparklog.maintenance import recovery

    objects = recovery.RecoveryJob._objects
    done = []

    def beside(self: recovery.RecoveryJob, *arguments: object) -> Iterator[object]:
        found = list(objects(self, *arguments))  # type: ignore[arg-type]
        if not done:
            done.append(run_roll(log.url, everything=True))
        return iter(found)

    monkeypatch.setattr(recovery.RecoveryJob, "_objects", beside)
    report = run(log)
    assert report.exit_code == 0, messages(report)
    log.check()


# ---- damaged on every store -----------------------------------------------------------------------------


@pytest.fixture
def batches(log: DamagedLog) -> tuple[Slice, SliceIndex, str]:
    """An object with at least four batches: its slice, the index of that, and its key."""
    log.write_batches(4, 1)
    state, number = log.world.state, ObjectNumber(LAST + 1)
    named = NamedObject(number, state.objects.get(number))  # type: ignore[arg-type]
    (slice_,) = slices_by_object(state, [number])[number]
    key = log.key(number)
    index = cut_to_slice(read_index(log.world.store("a"), key, named), slice_, key)
    assert slice_.batches >= 4
    return slice_, index, key


# M: F-04
def test_different_damage_on_every_store_is_put_together_without_a_loss(
    log: DamagedLog, batches: tuple[Slice, SliceIndex, str]
) -> None:
    slice_, index, key = batches
    for batch, store in zip((2, 0, 1), "abc", strict=True):
        position = int(index.batches.position[batch]) + 1_000
        rewrite_file(log.world.store(store), key, lambda body, at=position: _flipped(body, at))
    report = run(log)
    assert report.exit_code == 0, messages(report)
    put_together = f"no store had it whole, and t-1 [{slice_.start}, {slice_.end}) was put together again"
    assert put_together in messages(report)
    assert log.left(1) == log.model[1]
    assert log.world.values(1) == log.model[1]
    run(log)
    assert run(log).partitions == ()


# M: F-04
def test_a_torn_tail_is_cut_at_the_last_good_batch(log: DamagedLog, batches: tuple[Slice, SliceIndex, str]) -> None:
    """On one store it is torn earlier than on the others."""
    _, index, key = batches
    for batch, store in zip((1, 2, 2), "abc", strict=True):
        position = int(index.batches.position[batch]) + 1_000
        rewrite_file(log.world.store(store), key, lambda body, at=position: body[:at])
    report = run(log)
    assert report.exit_code == 1
    end, last = int(index.offsets.starts[2]), int(index.offsets.ends[-1])
    assert f"records [{end}, {last}) of t-1 are on no store any more" in messages(report)
    assert run(log, accept_loss=True).exit_code == 0
    assert log.left(1) == log.model[1][:end]
    log.write(1, 1)
    assert log.left(1) == log.model[1][:end] + log.model[1][last:]
    assert run(log).exit_code == 0
    assert run(log).partitions == ()


# M: F-04
def test_a_damaged_middle_is_cut_out_at_its_batches(log: DamagedLog, batches: tuple[Slice, SliceIndex, str]) -> None:
    _, index, key = batches
    for store in "abc":
        for batch in (1, 3):
            position = int(index.batches.position[batch]) + 1_000
            rewrite_file(log.world.store(store), key, lambda body, at=position: _flipped(body, at))
    assert run(log, accept_loss=True).exit_code == 0
    check(log.world.state)
    starts, ends = index.offsets.starts.tolist(), index.offsets.ends.tolist()
    lost = [(each.start, each.end) for each in log.world.value(1).lost]
    assert lost == [(starts[1], ends[1]), (starts[3], ends[3])]
    kept = [value for at, value in enumerate(log.model[1]) if not any(low <= at < high for low, high in lost)]
    assert log.left(1) == kept


# M: F-04
@pytest.mark.parametrize("way", ["flipped", "cut", "lost"])
def test_what_no_store_has_is_reported_by_name_and_never_served(log: DamagedLog, way: str) -> None:
    for store in "abc":
        log.damage(store, 2, way)
    before = log.world.replicas(0)
    report = run(log)
    assert report.exit_code == 1
    assert "of t-0 are on no store any more" in messages(report)
    assert log.key(2) in messages(report)
    assert log.world.replicas(0) == before
    assert log.point("a") == 2
    with pytest.raises(SparklogError) as refused:
        log.world.values(0)
    assert refused.value.code in ("DATA_LOSS", "CORRUPT_MESSAGE")
    assert log.world.values(1) == log.model[1]


# M: F-04
@pytest.mark.parametrize("number", [0, 2, 3], ids=["first", "middle", "last"])
@pytest.mark.parametrize("way", ["cut", "lost"])
def test_an_accepted_loss_is_a_gap_and_the_log_goes_on(log: DamagedLog, way: str, number: int) -> None:
    for store in "abc":
        log.damage(store, number, way)
    report = run(log, accept_loss=True)
    assert report.exit_code == 0, messages(report)
    assert "were given up (--accept-loss)" in messages(report)
    check(log.world.state)
    value = log.world.value(0)
    (lost,) = value.lost
    assert (value.next_offset, value.high_watermark) == (9, 9)
    with pytest.raises(DataLoss, match=rf"t-0: records \[{lost.start}, {lost.end}\) were lost"):
        log.world.values(0)
    left = log.model[0][: lost.start] + log.model[0][lost.end :]
    assert log.left(0) == left
    log.write(2)
    assert log.world.value(0).high_watermark == 11
    assert run_roll(log.url, everything=True).exit_code == 0
    assert run(log).exit_code == 0
    assert run(log).partitions == ()


def test_a_slice_above_a_replica_that_lags_can_be_given_up_too(log: DamagedLog) -> None:
    log.write(2, on="ab")
    number = LAST + 1
    for store in "ab":
        log.damage(store, number, "lost")
    assert run(log, accept_loss=True).exit_code == 0
    check(log.world.state)
    assert run_replication(log.url).exit_code == 0
    assert log.world.replicas(0) == "a:abc a11 b11 c11"


def _flipped(body: bytes, at: int) -> bytes:
    return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
