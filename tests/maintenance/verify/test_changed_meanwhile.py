"""What was seen of a copy may be out of date: stores are unmounted, wiped, fenced or removed, and copies get lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sparklog.core.commands import Move, MoveReplicas, RemoveStore, ReportLoss
from sparklog.core.types import ObjectNumber, PartitionIndex, Slice, StoreId
from sparklog.log.check import sighting
from sparklog.log.incarnation import begin_incarnation
from sparklog.log.index import SliceIndex
from sparklog.maintenance.job_frame import JobFrame
from sparklog.maintenance.job_report import WorkOutcome
from sparklog.maintenance.verify import repair, salvage
from sparklog.storage.keys import INCARNATION
from sparklog.storage.memory import MemoryStore
from tests.maintenance.damaged_log import DamagedLog, logs, messages

LAST = 4  # number of the last object of a new log
LARGE = LAST + 1


@pytest.fixture
def log() -> Iterator[DamagedLog]:
    yield from logs()


@pytest.fixture
def batches(log: DamagedLog) -> tuple[Slice, SliceIndex]:
    """The object LARGE, in partition 1: its slice with at least four batches, and the index of that."""
    log.write_batches(4, 1)
    return log.slice_of(LARGE)


def at_loss(monkeypatch: pytest.MonkeyPatch, when: str, act: Callable[[], object]) -> None:
    """Act once, before or after a repair reports a loss."""
    commit, done = JobFrame.commit, list[int]()

    def committed(frame: JobFrame, command: Any) -> Any:
        is_first = isinstance(command, ReportLoss) and not done
        if is_first and when == "before":
            done.append(1)
            act()
        result = commit(frame, command)
        if is_first and when == "after":
            done.append(1)
            act()
        return result

    monkeypatch.setattr(JobFrame, "commit", committed)


def reborn(log: DamagedLog, name: str) -> None:
    """The store is wiped. Its agent notices, marks it again, and reports that everything is lost."""
    log.world.wipe(name)
    mark, _ = begin_incarnation(log.world.store(name), name, log.world.state.chain_id)
    store = log.world.state.stores[StoreId(name)]
    log.world.submit(ReportLoss(store.store, store.registration, mark.incarnation, ()))


def move_away(log: DamagedLog, name: str, *partitions: int) -> None:
    """The replicas of these partitions on a store go; the other two stores keep theirs."""
    topic, others = log.world.state.topic_ids["t"], tuple(StoreId(store) for store in "abc" if store != name)
    log.world.submit(MoveReplicas(tuple(Move(topic, PartitionIndex(partition), others) for partition in partitions)))


def remove(log: DamagedLog, name: str) -> None:
    move_away(log, name, 0, 1)
    stores = log.world.state.stores.values()
    log.world.submit(
        RemoveStore(StoreId(name), {store.store: store.registration for store in stores if store.store != name})
    )


# ---- unmounted ------------------------------------------------------------------------------------------


class Unmounted:
    """A store that is unmounted: everything on it is away, its INCARNATION, too."""

    def __init__(self, log: DamagedLog, name: str) -> None:
        self.store = log.world.store(name)
        self.files = {key: bytes(self.store.get(key)) for key in [*log.world.objects(name), INCARNATION]}
        for key in self.files:
            self.store.delete(key)

    def remount(self) -> None:
        for key, body in self.files.items():
            self.store.put_if_absent(key, body)


# M: F-04
def test_a_store_that_is_unmounted_between_two_reads_of_a_copy_has_not_lost_it(
    log: DamagedLog, batches: tuple[Slice, SliceIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a has good batches, and no index: its copy is read a second time, with an index from another store."""
    for store in "bc":
        log.damage(store, LARGE, "lost")
    log.flip_batches("a", LARGE, [0], batches[1])
    log.damage("a", LARGE, "lost", index=True)
    read_index, away = sighting.read_index, list[Unmounted]()

    def late(*given: Any) -> Any:
        index = read_index(*given)
        if log.world.value(1).leader and begun and not away:
            away.append(Unmounted(log, "a"))
        return index

    begin, begun = repair.Repair.run, list[int]()

    def beside(self: repair.Repair, *given: Any) -> None:
        begun.append(1)
        begin(self, *given)

    monkeypatch.setattr(repair.Repair, "run", beside)
    monkeypatch.setattr(sighting, "read_index", late)
    report = log.recover(accept_loss=True)
    assert away
    assert report.exit_code == 1
    assert "it can't be repaired now: store a: " in messages(report)
    assert log.lost() == []
    monkeypatch.undo()
    away[0].remount()
    log.recover(accept_loss=True)
    assert log.lost() == [(3, int(batches[1].offsets.ends[0]))], "just the batch that is on no store"


# M: F-04
def test_nothing_is_given_up_if_a_store_is_unmounted_before_the_swap(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for store in "abc":
        log.damage(store, 2, "lost")
    swapped, away = salvage._swapped, list[Unmounted]()

    def late(*given: Any) -> Any:
        away.append(Unmounted(log, "b"))
        return swapped(*given)

    monkeypatch.setattr(salvage, "_swapped", late)
    report = log.recover(accept_loss=True)
    assert report.exit_code == 1
    assert "could not be saved" in messages(report)
    assert log.lost() == []
    away[0].remount()


# ---- the whole copy is gone -----------------------------------------------------------------------------


# M: F-04
@pytest.mark.parametrize("moved", [False, True], ids=["lost", "moved away"])
def test_a_copy_stays_if_the_one_to_be_fetched_is_not_whole_any_more(
    log: DamagedLog, batches: tuple[Slice, SliceIndex], monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    """When all were looked at, a had the object whole. The damaged ones of b and c complete each other."""
    log.flip_batches("b", LARGE, [0], batches[1])
    log.flip_batches("c", LARGE, [1], batches[1])

    def gone() -> None:
        if moved:
            move_away(log, "a", 1)
        log.damage("a", LARGE, "lost")

    at_loss(monkeypatch, "before", gone)
    report = log.recover(accept_loss=True)
    assert "was put together again" in messages(report)
    assert log.lost() == []
    assert log.left(1) == log.model[1]


# M: F-04
def test_what_was_seen_on_a_store_without_a_replica_is_no_reason_to_delete(
    log: DamagedLog, batches: tuple[Slice, SliceIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replica moves away right after the last look."""
    log.flip_batches("b", LARGE, [0], batches[1])
    log.flip_batches("c", LARGE, [1], batches[1])
    look, done = repair.Repair._look, list[int]()

    def late(self: repair.Repair, store: StoreId, numbers: Any) -> None:
        look(self, store, numbers)
        if store == "c" and not done:
            done.append(1)
            move_away(log, "a", 1)
            log.damage("a", LARGE, "lost")

    monkeypatch.setattr(repair.Repair, "_look", late)
    report = log.recover(accept_loss=True)
    assert "was put together again" in messages(report)
    assert log.lost() == []
    assert log.left(1) == log.model[1]


# M: F-04
def test_after_a_copy_failed_its_source_is_looked_at_again(log: DamagedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """It got lost, and another store has the object whole."""
    log.damage("b", 2, "lost")
    copy, done = repair.Repair._copy, list[int]()

    def late(self: repair.Repair, *given: Any) -> Any:
        if not done:
            done.append(1)
            log.damage("a", 2, "lost")
        return copy(self, *given)

    monkeypatch.setattr(repair.Repair, "_copy", late)
    report = log.recover()
    assert report.exit_code == 0, messages(report)
    log.check()


# ---- another registration -------------------------------------------------------------------------------


# M: F-04
def test_a_store_that_is_wiped_after_a_copy_is_not_reported_to_have_it(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the chain no store has object 0. It is whole on c alone."""
    for store in "bca":
        if store != "c":
            log.damage(store, 0, "lost")
        log.report_loss(store, 0)
    report_found, ends = repair.Repair._report_found, list[int]()

    def late(self: repair.Repair, store: StoreId, *given: Any) -> None:
        if given[-1] and not ends and store == "a":
            reborn(log, "a")
            ends.append(0)
        try:
            report_found(self, store, *given)
        finally:
            if store == "a":
                ends.append(log.world.value().log_end(StoreId("a")))

    monkeypatch.setattr(repair.Repair, "_report_found", late)
    report = log.recover()
    assert set(ends) == {0}, "the chain never says that a has it"
    assert "was registered again" in messages(report)
    monkeypatch.undo()
    for _ in range(2):
        report = log.recover()
    assert report.exit_code == 0, messages(report)
    log.check()


# M: F-03 F-04
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_was_read_before_a_store_was_wiped_does_not_raise_its_recovery_point(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """It is wiped right after its loss was reported, or earlier, when its objects had been read."""
    log.damage("b", LAST, "flipped")
    if when == "after":
        at_loss(monkeypatch, "after", lambda: reborn(log, "b"))
    else:
        begin = repair.Repair.run

        def beside(self: repair.Repair, *given: Any) -> None:
            log.report_loss("b", 0)  # an agent found an object missing that this run had read
            begin(self, *given)

        monkeypatch.setattr(repair.Repair, "run", beside)
    log.recover()
    assert log.point("b") == 0
    monkeypatch.undo()
    for _ in range(2):
        report = log.recover()
    assert report.exit_code == 0, messages(report)
    assert log.point("b") == LAST + 1
    log.check()


# M: F-04
def test_damage_on_a_store_that_was_fenced_for_a_while_is_not_forgotten(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was found, the store was fenced when all copies were looked at, and is back before the next step."""
    log.damage("b", 2, "flipped")
    begin, size, key, c = repair.Repair.run, MemoryStore.size, log.key(2), log.world.store("c").url
    fenced, back = list[int](), list[int]()

    def beside(self: repair.Repair, *given: Any) -> None:
        log.world.fence("b")
        fenced.append(1)
        begin(self, *given)

    def sized(store: MemoryStore, name: str) -> int:
        if fenced and not back and (store.url, name) == (c, key):
            back.append(1)
            log.world.register("b")
        return size(store, name)

    monkeypatch.setattr(repair.Repair, "run", beside)
    monkeypatch.setattr(MemoryStore, "size", sized)
    report = log.recover()
    assert back
    assert report.exit_code == 0, messages(report)
    assert "it was damaged, and was fetched again" in messages(report)
    log.check()


# ---- a removed store ------------------------------------------------------------------------------------


# M: F-04
def test_a_store_that_is_removed_after_it_was_looked_at_ends_no_run(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.damage("c", 2, "lost")
    log.report_loss("c", 3)
    for store in "abc":
        log.damage(store, 3, "flipped")
    look, done = repair.Repair._look, list[int]()

    def late(self: repair.Repair, store: StoreId, numbers: Any) -> None:
        look(self, store, numbers)
        if store == "c" and len(self._cases[ObjectNumber(3)].sightings) == 3 and not done:
            done.append(1)
            remove(log, "c")

    monkeypatch.setattr(repair.Repair, "_look", late)
    report = log.recover()
    assert done
    assert "records [6, 9) of t-0 are on no store any more" in messages(report)


# M: F-04
def test_nothing_is_given_up_if_a_store_that_had_good_batches_is_removed_before_the_swap(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.damage("c", 2, "lost")
    log.report_loss("c", 3)
    for store in "abc":
        log.damage(store, 3, "flipped")
    save = repair.salvage

    def late(*given: Any, **more: Any) -> None:
        remove(log, "c")
        save(*given, **more)

    monkeypatch.setattr(repair, "salvage", late)
    report = log.recover(accept_loss=True)
    assert WorkOutcome.OVERTAKEN in {row.outcome for row in report.partitions}
    assert log.lost() == []
