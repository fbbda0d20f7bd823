"""The recovery job while others act: nobody's records are given up because the picture changed under it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from sparklog.core.commands import NewStore, RegisterStore, RemoveStore
from sparklog.core.errors import StoreFull
from sparklog.core.types import NamedObject, ObjectNumber, StoreId
from sparklog.log.incarnation import begin_incarnation
from sparklog.log.read.object_reader import read_index
from sparklog.maintenance.job_frame import JobFrame
from sparklog.maintenance.job_report import JobReport, WorkOutcome
from sparklog.maintenance.verify import recovery_job, repair
from sparklog.maintenance.verify.next_step import Case
from sparklog.storage.keys import INCARNATION, index_key
from sparklog.storage.memory import MemoryStore
from sparklog.storage.open_store import open_store
from tests.agent.agent_world import DrivenAgent
from tests.maintenance.damaged_log import DamagedLog, logs, messages, rewrite_file

LAST = 4  # number of the last object


@pytest.fixture
def log() -> Iterator[DamagedLog]:
    yield from logs()


def before_repair(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act after the objects were read and found damaged, and before the repair begins."""
    begin = repair.Repair.run

    def beside(self: repair.Repair, cases: Mapping[ObjectNumber, Case]) -> None:
        if cases:
            act()
        begin(self, cases)

    monkeypatch.setattr(repair.Repair, "run", beside)


# M: F-04
def test_an_object_that_is_damaged_on_the_leader_and_a_follower_is_fetched_from_the_one_that_has_it(
    log: DamagedLog,
) -> None:
    """A replica is filled from its leader, and a copy by the stores themselves compares lengths only."""
    log.damage("a", 2, "flipped")
    log.damage("b", 2, "flipped")
    report = log.recover()
    assert report.exit_code == 0, messages(report)
    log.check()


# M: F-04
def test_what_a_store_was_reported_to_have_lost_meanwhile_is_not_given_up(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent or another recovery was quicker: by the chain the store does not hold the object any more."""
    log.damage("b", 2, "flipped")
    before_repair(monkeypatch, lambda: log.report_loss("b", 3))
    report = log.recover(accept_loss=True)
    assert log.lost() == []
    assert {row.outcome for row in report.partitions} == {WorkOutcome.DONE}, messages(report)
    assert log.recover().exit_code == 0
    log.check()


# M: F-04
def test_what_a_replica_has_behind_the_end_of_its_log_is_not_given_up(log: DamagedLog) -> None:
    """It lost an earlier object, so by the chain it holds nothing from there on. Its bytes are as good as any."""
    log.damage("b", 2, "lost")
    log.report_loss("b", 3)
    log.damage("a", 3, "flipped")
    log.damage("c", 3, "cut")
    report = log.recover(accept_loss=True)
    assert log.lost() == []
    assert report.exit_code == 0, messages(report)
    log.check()


# M: F-04
def test_what_was_put_back_meanwhile_is_not_given_up(log: DamagedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    key = log.key(2)
    body = bytes(log.world.store("c").get(key))
    for store in "abc":
        log.damage(store, 2, "lost")
    before_repair(monkeypatch, lambda: log.world.store("c").put_if_absent(key, body))
    assert log.recover(accept_loss=True).exit_code == 0
    assert log.lost() == []
    log.check()


# M: F-04
def test_what_a_fenced_store_may_have_is_not_given_up(log: DamagedLog) -> None:
    for store in "ab":
        log.damage(store, 2, "lost")
    log.world.fence("c")
    report = log.recover(accept_loss=True)
    assert report.exit_code == 1
    assert "it can't be repaired now: store c is fenced, and may have it whole" in messages(report)
    assert log.lost() == []
    log.world.register("c")
    assert log.recover().exit_code == 0
    log.check()


# M: F-04
def test_what_a_fenced_replica_may_have_behind_the_end_of_its_log_is_not_given_up(log: DamagedLog) -> None:
    """The partition has a leader, and the log of c ends before the object. Its bytes are the last ones."""
    log.damage("c", 2, "lost")
    log.report_loss("c", 3)
    log.world.fence("c")
    for store in "ab":
        log.damage(store, 3, "lost")
    report = log.recover(accept_loss=True)
    assert report.exit_code == 1
    assert "it can't be repaired now: store c is fenced, and may have it whole" in messages(report)
    assert log.lost() == []
    log.world.register("c")
    for _ in range(2):
        report = log.recover(accept_loss=True)
    assert report.exit_code == 0, messages(report)
    log.check()


# M: F-04
def test_a_store_that_holds_it_by_the_time_of_the_swap_is_not_passed_over(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write(2, on="ab")
    number = LAST + 1
    body, index = (bytes(log.world.store("a").get(key)) for key in (log.key(number), index_key(log.key(number))))
    for store in "ab":
        log.damage(store, number, "lost")
    save = repair.salvage

    def late(*arguments: object, accept_loss: bool) -> None:
        target = log.world.store("c")
        target.put_if_absent(log.key(number), body)
        target.put_if_absent(index_key(log.key(number)), index)
        DrivenAgent(log.world, "c").run().stop()
        assert log.world.value().log_end(StoreId("c")) == 11
        save(*arguments, accept_loss=accept_loss)  # type: ignore[arg-type]

    monkeypatch.setattr(repair, "salvage", late)
    report = log.recover(accept_loss=True)
    assert [row.outcome for row in report.partitions if row.topic == "t" and row.partition == 0] == [
        WorkOutcome.OVERTAKEN
    ] * 2 + [WorkOutcome.DONE], messages(report)
    assert log.lost() == []
    monkeypatch.undo()
    assert log.recover().exit_code == 0
    log.check()


# M: F-04
def test_stores_that_are_unmounted_during_a_run_have_lost_nothing(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing there says nothing: their INCARNATION is missing, too."""
    begin, away = recovery_job.RecoveryJob._objects, {}

    def unmount(self: recovery_job.RecoveryJob, *arguments: object) -> Iterator[object]:
        for name in "abc" if not away else "":
            for key in [*log.world.objects(name), INCARNATION]:
                away[name, key] = bytes(log.world.store(name).get(key))
                log.world.store(name).delete(key)
        return begin(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(recovery_job.RecoveryJob, "_objects", unmount)
    report = log.recover(accept_loss=True)
    assert report.exit_code == 1
    assert "the store was wiped, or is not mounted" in messages(report)
    assert log.lost() == []
    for (name, key), body in away.items():
        log.world.store(name).put_if_absent(key, body)
    assert log.recover().exit_code == 0
    log.check()


def test_a_store_that_is_removed_during_a_run_stops_no_other(log: DamagedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"{log.url}-d"
    mark, _ = begin_incarnation(open_store(place), "d", log.world.state.chain_id)
    log.world.submit(RegisterStore(NewStore(StoreId("d"), place, mark.incarnation)))
    log.world.cluster.create_topic("u", assignment=[["d"]])
    log.world.cluster.append("u", pa.table({"value": ["v"]}))
    read = recovery_job.RecoveryJob._read

    def gone(self: recovery_job.RecoveryJob, frame: JobFrame, store: StoreId, cases: dict[ObjectNumber, Case]) -> None:
        read(self, frame, store, cases)
        if store == "c":
            log.world.cluster.delete_topic("u")
            log.world.submit(RemoveStore(StoreId("d"), {}))

    monkeypatch.setattr(recovery_job.RecoveryJob, "_read", gone)
    report = log.recover()
    assert "wanted store 'd', the cluster has a, b, c" in messages(report)
    assert [log.point(store) for store in "abc"] == [LAST + 2] * 3


# ---- what the chain does not count on -------------------------------------------------------------------


# M: F-04
def test_records_that_no_replica_holds_any_more_by_the_chain_are_found_on_their_stores(log: DamagedLog) -> None:
    """Each store lost another object, so their logs end before it, and nobody may lead. All bytes are still there."""
    for store, number, end in (("a", 0, 0), ("b", 0, 0), ("c", 2, 3)):
        log.damage(store, number, "cut")
        log.report_loss(store, end)
    log.damage("a", 0, "lost")
    assert log.world.replicas() == "-: a0 b0 c3"
    report = log.recover()
    assert log.world.value().leader is not None, messages(report)
    for _ in range(2):
        report = log.recover()
    assert report.exit_code == 0, messages(report)
    log.check()


# M: F-04
@pytest.mark.parametrize("filled", [True, False], ids=["filled first", "at once"])
def test_the_last_good_batches_of_a_replica_are_neither_deleted_nor_overlooked(log: DamagedLog, filled: bool) -> None:
    """By the chain only a holds the object; what b has left of it completes it."""
    log.write_batches(4, 1)
    number, state = LAST + 1, log.world.state
    named = NamedObject(ObjectNumber(number), state.objects.get(ObjectNumber(number)))  # type: ignore[arg-type]
    key = log.key(number)
    index = read_index(log.world.store("a"), key, named)
    log.damage("b", 1, "lost")
    log.report_loss("b", 0, 1)
    log.damage("c", 1, "lost")
    log.damage("c", number, "lost")
    log.report_loss("c", 0, 1)
    for store, batch in (("a", 0), ("b", 1)):
        at = int(index.position[batch]) + 1_000
        rewrite_file(log.world.store(store), key, lambda body, at=at: body[:at] + b"x" + body[at + 1 :])  # type: ignore[misc]
    left = bytes(log.world.store("b").get(key))
    if filled:
        log.recover(stores=["b"])
    assert bytes(log.world.store("b").get(key)) == left, "nobody has it whole"
    report = log.recover()
    assert "was put together again" in messages(report)
    assert log.lost() == []
    for _ in range(2):
        report = log.recover()
    assert report.exit_code == 0, messages(report)
    assert log.world.values(1) == log.model[1]


# M: F-04
def test_the_only_whole_copy_that_is_damaged_before_it_is_reported_stays(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the chain no store has the object, and a is the one to be reported. Its good batches are the last ones."""
    for store in "bca":
        if store != "a":
            log.damage(store, 3, "lost")
        log.report_loss(store, 6)
    assert log.world.replicas() == "-: a6 b6 c6"
    take_away, key = repair.Repair._take_away, log.key(3)

    def late(self: repair.Repair, store: StoreId, *given: Any) -> None:
        if log.world.store("a").size(key) and store == "a":
            log.damage("a", 3, "flipped")
        take_away(self, store, *given)

    monkeypatch.setattr(repair.Repair, "_take_away", late)
    log.recover()
    monkeypatch.undo()
    assert log.world.store("a").size(key), "it may be put together again"
    assert log.lost() == []
    log.damage("a", 3, "flipped")  # the same bit again
    assert log.recover().exit_code == 0
    log.check()


# M: F-04
def test_an_object_that_could_not_be_copied_is_not_reported_as_found(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the chain no store has it. It is whole on c alone, and a, which is the first to be filled, is full."""
    for store in "abc":
        if store != "c":
            log.damage(store, 3, "lost")
        log.report_loss(store, 6)
    key, full = log.key(3), log.world.store("a").url
    put, ends = MemoryStore.put_if_absent, []

    def refused(store: MemoryStore, name: str, body: Any) -> None:
        if (store.url, name) == (full, key):
            ends.append(log.world.value().log_end(StoreId("a")))
            raise StoreFull("no space left")
        put(store, name, body)

    monkeypatch.setattr(MemoryStore, "put_if_absent", refused)
    report = log.recover()
    assert report.exit_code == 1
    assert "no space left" in messages(report)
    assert set(ends) == {6}, "the chain never said that a has it"
    assert log.world.value().log_end(StoreId("a")) == 6
    assert log.world.value().leader is not None
    monkeypatch.undo()
    assert log.recover().exit_code == 0
    log.check()


# ---- two recoveries -----------------------------------------------------------------------------------------


class Killed(BaseException):
    """This recovery is gone: nothing in it handles that."""


# M: F-04
@pytest.mark.parametrize("killed", [False, True], ids=["goes on", "is killed then"])
def test_a_recovery_that_deletes_what_another_one_has_just_fetched_leaves_no_hole(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """It found the object damaged. Before it deletes it, the other one has deleted, and fetched, but not reported."""
    log.damage("b", 2, "flipped")
    key, first = log.key(2), threading.current_thread()
    fetched, deleted = threading.Event(), threading.Event()
    take_away, held, copy, delete = (
        repair.Repair._take_away, repair.held_slices, repair.Repair._copy, MemoryStore.delete,
    )  # fmt: skip
    taking: list[Future[JobReport]] = []
    counted: list[bool] = []

    def delete_counted(store: MemoryStore, name: str) -> None:
        if name == key:
            counted.append(log.world.value(0).log_end(StoreId("b")) > 3)
        delete(store, name)

    def first_takes_away(self: repair.Repair, *given: Any) -> None:
        if threading.current_thread() is first and not taking:
            monkeypatch.setattr(repair, "held_slices", let_the_other_fetch)
        take_away(self, *given)

    def let_the_other_fetch(*given: Any) -> Any:
        if threading.current_thread() is first and not taking:
            taking.append(pool.submit(log.recover))
            assert fetched.wait(60)
        return held(*given)

    def copy_in_turn(self: repair.Repair, *given: Any) -> list[ObjectNumber]:
        if threading.current_thread() is not first:
            copied = copy(self, *given)
            fetched.set()
            assert deleted.wait(60)
            return copied
        if killed:
            raise Killed
        deleted.set()
        taking[0].result(60)
        return copy(self, *given)

    with ThreadPoolExecutor(1) as pool:
        for name, patched in (("_take_away", first_takes_away), ("_copy", copy_in_turn)):
            monkeypatch.setattr(repair.Repair, name, patched)
        monkeypatch.setattr(MemoryStore, "delete", delete_counted)
        if killed:
            with pytest.raises(Killed):
                log.recover()
            deleted.set()
        else:
            assert log.recover().exit_code == 0
        report = taking[0].result(60)
    assert report.exit_code == 0, messages(report)
    assert counted == [False, False], "both deleted it, while the chain counted on neither copy"
    monkeypatch.undo()
    assert log.recover().exit_code == 0
    log.check()


# M: F-04
def test_a_recovery_that_is_held_up_before_it_deletes_fetches_what_others_had_repaired(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its last look at the chain and the deletion the other one does everything, and its copy counts."""
    log.damage("b", 2, "flipped")
    key, delete, others = log.key(2), MemoryStore.delete, []

    def late(store: MemoryStore, name: str) -> None:
        if name == key and not others:
            others.append(1)
            assert log.recover().exit_code == 0
            log.check()
        delete(store, name)

    monkeypatch.setattr(MemoryStore, "delete", late)
    report = log.recover()
    assert (report.exit_code, others) == (0, [1]), messages(report)
    log.check()
    assert log.recover().partitions == ()
