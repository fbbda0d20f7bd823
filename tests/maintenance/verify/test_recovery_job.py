"""The recovery job: what is whole is read once, and damage on one store is repaired from another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sparklog.core.errors import BrokerIdNotRegistered, StoreFull, UnsupportedVersion
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import StoreId
from sparklog.log.check import sighting
from sparklog.maintenance.job_report import WorkOutcome
from sparklog.maintenance.replication_job import run_replication
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.space.vacuum_job import run_vacuum
from sparklog.maintenance.task_runner import LocalTasks
from sparklog.maintenance.verify.recovery_job import MOST_MESSAGES
from sparklog.maintenance.verify.repair import Repair
from sparklog.storage.keys import append_key, index_key
from sparklog.storage.memory import MemoryStore
from tests.agent.agent_world import DrivenAgent
from tests.kit.silent_console import SILENT
from tests.maintenance.damaged_log import WAYS, DamagedLog, logs, messages
from tests.maintenance.silent_store import silent
from tests.maintenance.thread_tasks import ThreadTasks

LAST = 4  # number of the last object


@pytest.fixture
def log() -> Iterator[DamagedLog]:
    yield from logs()


# ---- nothing is wrong -----------------------------------------------------------------------------------


# M: F-03 F-04
@pytest.mark.parametrize("tasks", [LocalTasks(), ThreadTasks()], ids=["one", "four"])
def test_a_whole_cluster_is_read_once_and_its_recovery_points_rise(log: DamagedLog, tasks: LocalTasks) -> None:
    report = log.recover(tasks=tasks)
    assert (report.exit_code, report.failed) == (0, 0)
    assert [each.place for each in report.partitions] == [f"t-{p} on {store}" for store in "abc" for p in (0, 1)]
    assert (report.planned.objects, report.done.objects) == (15, 15)
    assert [log.point(store) for store in "abc"] == [LAST + 1] * 3
    again = log.recover(tasks=tasks)
    assert again.partitions == ()
    assert "every object that it holds is below its recovery point 5" in again.notes[0]
    log.write(1)
    assert log.recover().done.objects == 3
    assert log.recover(full=True).done.objects == 18


def test_a_dry_run_reads_nothing_and_says_what_it_would_cost(log: DamagedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryStore, "get_ranges", None)
    report = log.recover(dry_run=True)
    assert (report.planned.objects, report.planned.records) == (15, 36)
    assert report.planned.requests == 3 * 15
    assert report.planned.size_bytes > 0
    assert log.point("a") == 0


def test_only_these_stores_and_topics(log: DamagedLog) -> None:
    log.world.cluster.create_topic("u", assignment=[["a", "b", "c"]])
    log.recover(stores=["b"])
    assert [log.point(store) for store in "abc"] == [0, 5, 0]
    log.recover(stores=["c"], topics={"u"})
    assert log.point("c") == 0, "what was not read stays above the point"
    with pytest.raises(BrokerIdNotRegistered):
        log.recover(stores=["x"])


def test_a_fenced_store_is_left_out(log: DamagedLog) -> None:
    log.world.fence("c")
    report = log.recover()
    assert "store c is fenced" in report.notes[0]
    assert [each.place for each in report.partitions if each.place.endswith("c")] == []
    log.world.register("c")
    assert log.recover().exit_code == 0


# ---- damaged on one store -------------------------------------------------------------------------------


# M: F-04
@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("store", ["a", "c"], ids=["leader", "follower"])
def test_an_object_that_is_damaged_on_one_store_is_repaired_from_another(log: DamagedLog, way: str, store: str) -> None:
    log.damage(store, 2, way)
    report = log.recover()
    assert (report.exit_code, report.failed) == (0, 0), messages(report)
    assert f"{log.key(2)}: it was damaged, and was fetched again" in messages(report)
    log.check()
    assert log.world.value(0).isr == ("a", "b", "c")
    assert log.point(store) == LAST + 1
    assert log.recover().partitions == ()


# M: F-05
@pytest.mark.parametrize("way", sorted(WAYS))
def test_an_index_that_is_damaged_is_put_again(log: DamagedLog, way: str) -> None:
    registrations = log.world.state.registrations()
    log.damage("b", 1, way, index=True)
    report = log.recover()
    assert report.exit_code == 0
    assert f"{log.key(1)}: its index was damaged, and was restored" in messages(report)
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
    assert log.recover().exit_code == 0
    log.check()


# M: F-05
def test_an_index_that_this_arrow_writes_in_another_way_is_copied(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sparklog.log.check import index_repair

    monkeypatch.setattr(index_repair, "rebuilt_index", lambda *of: None)
    log.damage("b", 1, "lost", index=True)
    assert log.recover().exit_code == 0
    log.check()
    for store in "abc":
        log.damage(store, 1, "lost", index=True)
    report = log.recover(full=True)
    assert report.exit_code == 1
    assert "index missing" in messages(report)
    assert log.world.values(1) == log.model[1], "readers rebuild it in memory"


# M: F-05
def test_an_index_without_an_object_goes_with_vacuum(log: DamagedLog) -> None:
    orphan = index_key(append_key(0, "ab" * 16))
    log.world.store("b").put_if_absent(orphan, b"index")
    assert log.recover().exit_code == 0
    assert orphan in log.world.objects("b")
    assert run_vacuum(log.url, now_ms=2**41, console=SILENT).exit_code == 0
    assert orphan not in log.world.objects("b")
    log.check()


def test_object_and_index_can_both_be_damaged(log: DamagedLog) -> None:
    log.damage("a", 0, "flipped")
    log.damage("a", 0, "cut", index=True)
    log.damage("a", 3, "lost")
    log.damage("a", 3, "lost", index=True)
    assert log.recover().exit_code == 0
    log.check()


# M: F-04
def test_other_objects_on_every_store_are_all_repaired(log: DamagedLog) -> None:
    for store, number in (("a", 0), ("b", 2), ("c", 3), ("a", 1), ("c", 4)):
        log.damage(store, number, "flipped")
    report = log.recover(tasks=ThreadTasks())
    assert report.exit_code == 0, messages(report)
    log.check()
    assert [log.point(store) for store in "abc"] == [LAST + 1] * 3


# M: F-04
@pytest.mark.parametrize("stores", ["ab", "bc", "ac"])
@pytest.mark.parametrize("way", sorted(WAYS))
def test_what_two_stores_have_damaged_is_fetched_from_the_third(log: DamagedLog, way: str, stores: str) -> None:
    """A copy by the stores themselves compares lengths: it would take a flipped bit from the other one."""
    for store in stores:
        log.damage(store, 2, way)
    report = log.recover()
    assert report.exit_code == 0, messages(report)
    log.check()
    assert log.world.value(0).isr == ("a", "b", "c")


# M: F-04
def test_each_object_is_fetched_from_a_store_that_has_that_one_whole(log: DamagedLog) -> None:
    """Each store has two objects damaged, and each of the others has one of these damaged, too."""
    for stores, number in (("ab", 0), ("bc", 2), ("ac", 3)):
        for store in stores:
            log.damage(store, number, "flipped")
    report = log.recover()
    assert report.exit_code == 0, messages(report)
    log.check()


def test_without_full_only_what_lies_above_the_point_is_found(log: DamagedLog) -> None:
    log.recover()
    log.damage("b", 1, "flipped")
    assert log.recover().partitions == ()
    assert log.recover(full=True).exit_code == 0
    log.check()


# M: F-03
def test_after_a_loss_a_run_that_did_not_read_everything_leaves_the_point_at_the_beginning(log: DamagedLog) -> None:
    log.recover()
    log.write(2)
    log.damage("b", LAST + 1, "flipped")
    assert log.recover().exit_code == 0
    log.check()
    assert log.point("b") == 0, "a store that lost something is not trusted"
    assert log.point("a") == LAST + 2
    log.recover()
    assert log.point("b") == LAST + 2


# M: F-04
def test_a_store_that_alone_has_records_is_not_repaired_before_another_has_them(log: DamagedLog) -> None:
    log.damage("a", 0, "flipped")
    log.write(1, on="a", acks=Acks.LEADER)
    before = log.world.replicas(0)
    report = log.recover(stores=["a"])
    assert [row.outcome for row in report.partitions] == [WorkOutcome.POSTPONED, WorkOutcome.DONE]
    assert "its repair waits: NOT_ENOUGH_REPLICAS" in messages(report)
    assert log.world.replicas(0) == before
    assert log.point("a") == 0
    assert run_replication(log.url, stores=["b", "c"]).exit_code == 0
    assert log.recover().exit_code == 0
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
    assert log.recover().exit_code == 0
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
    assert log.recover().exit_code == 0
    assert deleted == [3], "the log of a ends before the damaged object"


# M: F-04
def test_an_agent_does_not_take_damaged_bytes_for_its_copy(log: DamagedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job may need seconds from the report of the loss to the deletion, and the agent looks at once."""
    from sparklog.maintenance.verify import repair

    agent = DrivenAgent(log.world, "b").run()
    take_away = repair.Repair._take_away
    ends = []

    def late(self: repair.Repair, *arguments: object) -> None:
        agent.run()
        ends.append(log.world.value(0).log_end(StoreId("b")))
        take_away(self, *arguments)  # type: ignore[arg-type]

    log.damage("b", 2, "flipped")
    monkeypatch.setattr(repair.Repair, "_take_away", late)
    report = log.recover()
    assert report.exit_code == 0, messages(report)
    assert ends == [3]
    agent.stop()
    log.check()


# M: F-04
def test_damage_to_a_new_copy_does_not_end_the_repair(log: DamagedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent has fetched and reported the object again before the job could delete it."""
    from sparklog.maintenance.verify import repair

    agent = DrivenAgent(log.world, "b").run()
    take_away, delete, key = repair.Repair._take_away, MemoryStore.delete, log.key(2)
    times = []

    def checked(store: MemoryStore, name: str) -> None:
        assert name != key or log.world.value(0).log_end(StoreId("b")) == 3, "the chain counts on it"
        delete(store, name)

    def late(self: repair.Repair, *arguments: object) -> None:
        if not times:
            times.append(1)
            log.world.store("b").delete(key)
            agent.run()
            assert log.world.value(0).log_end(StoreId("b")) == 9
            log.damage("b", 2, "flipped")
            monkeypatch.setattr(MemoryStore, "delete", checked)
        take_away(self, *arguments)  # type: ignore[arg-type]

    log.damage("b", 2, "flipped")
    monkeypatch.setattr(repair.Repair, "_take_away", late)
    report = log.recover()
    assert report.exit_code == 0, messages(report)
    agent.stop()
    log.check()


# M: F-04
def test_what_an_agent_copies_while_the_job_looks_for_left_overs_is_not_deleted(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sparklog.maintenance.verify import repair

    log.write(2, on="ab")
    log.damage("b", LAST + 1, "flipped")  # so that c gets it from the store that has it whole
    source, target = log.world.store("a"), log.world.store("c")
    looked, delete, deleted, looks = repair.look, MemoryStore.delete, [], []

    def beside(frame: object, round_: Any, **options: Any) -> object:
        found = looked(frame, round_, **options)  # type: ignore[arg-type]
        looks.extend(object_.stores for pack in round_ for object_ in pack)
        if looks.count(("c",)) == 2:  # after the last look before a deletion
            for key in set(log.world.objects("a")) - set(log.world.objects("c")):
                target.put_if_absent(key, source.get(key))  # and reports it later
        return found

    def noted(store: MemoryStore, key: str) -> None:
        deleted.append((store.url, key))
        delete(store, key)

    monkeypatch.setattr(repair, "look", beside)
    monkeypatch.setattr(MemoryStore, "delete", noted)
    assert log.recover().exit_code == 0
    assert looks.count(("c",)) > 2
    assert not [key for url, key in deleted if url == target.url and key.startswith("append/")]
    log.check()


def test_two_recoveries_at_once_repair_everything(log: DamagedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    from sparklog.maintenance.verify import repair

    for store, number in (("a", 0), ("b", 2), ("c", 3)):
        log.damage(store, number, "flipped")
    fill = repair.Repair._fill
    begun = []

    def beside(self: repair.Repair, store: object) -> str:
        if not begun:
            begun.append(1)
            assert log.recover().exit_code == 0
        return fill(self, store)  # type: ignore[arg-type]

    monkeypatch.setattr(repair.Repair, "_fill", beside)
    assert log.recover().exit_code == 0
    log.check()


def test_a_store_that_does_not_answer_is_reported_and_stops_no_other(log: DamagedLog) -> None:
    with silent("b"):
        report = log.recover()
    assert [row.outcome for row in report.partitions] == [WorkOutcome.DONE] * 2 + [WorkOutcome.FAILED] * 2 + [
        WorkOutcome.DONE
    ] * 2
    assert [log.point(store) for store in "abc"] == [LAST + 1, 0, LAST + 1]


# M: F-04
def test_while_a_holder_is_silent_nothing_is_given_up(log: DamagedLog) -> None:
    for store in "ab":
        log.damage(store, 2, "lost")
    with silent("c"):
        report = log.recover(accept_loss=True)
        assert report.exit_code == 1
        assert "it can't be repaired now: store c" in messages(report)
    assert log.world.state.partitions[log.world.key(0)].replication.lost == ()
    assert log.recover().exit_code == 0
    log.check()


def test_a_wiped_store_is_left_to_its_agent(log: DamagedLog) -> None:
    log.world.wipe("c")
    report = log.recover()
    assert report.exit_code == 1
    assert "it was wiped or swapped" in messages(report)
    assert log.world.objects("c") == []


def test_what_retention_deletes_meanwhile_is_no_damage(log: DamagedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    from sparklog.maintenance.verify import recovery_job

    objects = recovery_job.RecoveryJob._objects
    done = []

    def beside(self: recovery_job.RecoveryJob, *arguments: object) -> Iterator[object]:
        found = list(objects(self, *arguments))  # type: ignore[arg-type]
        if not done:
            done.append(run_roll(log.url, everything=True))
        return iter(found)

    monkeypatch.setattr(recovery_job.RecoveryJob, "_objects", beside)
    report = log.recover()
    assert report.exit_code == 0, messages(report)
    log.check()


# ---- what can't be put, and what the report says ------------------------------------------------------


def full(monkeypatch: pytest.MonkeyPatch, log: DamagedLog, store: str, *names: str) -> None:
    """The store has no space left for these files; without names, for none."""
    put, url = MemoryStore.put_if_absent, log.world.store(store).url

    def refused(target: MemoryStore, name: str, body: Any) -> None:
        if target.url == url and (name in names or not names):
            raise StoreFull("no space left")
        put(target, name, body)

    monkeypatch.setattr(MemoryStore, "put_if_absent", refused)


# M: F-04
@pytest.mark.parametrize("stores", [(), ("b",)], ids=["all", "b"])
def test_the_only_whole_copy_is_used_although_its_index_can_not_be_put(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch, stores: tuple[str, ...]
) -> None:
    log.damage("a", 2, "lost", index=True)
    for store in "bc":
        log.damage(store, 2, "flipped")
    full(monkeypatch, log, "a")
    report = log.recover(stores=stores)
    assert report.exit_code == (0 if stores else 1), messages(report)
    if not stores:
        assert "index missing" in messages(report)
        assert "it could not be restored: STORE_FULL: no space left" in messages(report)
    for store in "bc":
        assert bytes(log.world.store(store).get(log.key(2))) == bytes(log.world.store("a").get(log.key(2)))


# M: F-04
def test_indexes_that_can_not_be_put_leave_the_other_objects_of_the_store_to_be_read(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(6):
        log.write(1)
    indexless = (0, 2, 3, 5, 6, 7, 8)
    for number in indexless:
        log.damage("a", number, "lost", index=True)
    log.damage("a", 10, "flipped")
    full(monkeypatch, log, "a", *(index_key(log.key(number)) for number in indexless))
    report = log.recover()
    assert f"{log.key(10)}: it was damaged, and was fetched again" in messages(report)
    assert messages(report).count("no space left") == len(indexless)


# M: F-04
def test_errors_of_single_objects_do_not_make_a_store_silent(log: DamagedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each object is of a newer version, say, which this process can't read."""
    for _ in range(4):
        log.write(1)
    asked, check = list[str](), sighting.check_object

    def checked(store: MemoryStore, key: str, *given: Any, **more: Any) -> Any:
        if store.url == log.world.store("a").url:
            asked.append(key)
            raise UnsupportedVersion("of another version")
        return check(store, key, *given, **more)

    monkeypatch.setattr(sighting, "check_object", checked)
    log.recover()
    assert {log.key(number) for number in range(LAST + 5)} <= set(asked)


# M: F-04
def test_what_no_store_has_whole_is_not_copied_to_another(log: DamagedLog) -> None:
    """Object 2 is damaged on a and c, and missing on b. Object 3 is whole, and b lacks it by the chain, too."""
    log.damage("a", 2, "flipped")
    log.damage("c", 2, "cut")
    log.damage("b", 2, "lost")
    log.report_loss("b", 3)
    for _ in range(2):
        report = log.recover()
        assert report.exit_code == 1
        assert log.key(2) not in log.world.objects("b")
        assert log.world.value().log_end(StoreId("b")) == 3
    assert f"{log.key(2)}: store b lacks it: no store has it whole" in messages(report)


# M: F-04
def test_a_store_beside_those_of_the_run_that_could_not_be_filled_again_is_reported(
    log: DamagedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for store in "ab":
        log.damage(store, 2, "flipped")
    full(monkeypatch, log, "a", log.key(2))
    report = log.recover(stores=["b"])
    assert log.world.value().log_end(StoreId("a")) == 3
    assert report.exit_code == 1
    (row,) = [row for row in report.partitions if row.place.endswith("on a")]
    assert row.outcome is WorkOutcome.FAILED
    assert "no space left" in row.messages[0]


# M: F-04
def test_records_that_are_given_up_on_other_stores_are_named(log: DamagedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is about c. While it runs, its agent reports that the object is lost there."""
    for store in "ab":
        log.damage(store, 2, "lost")
    log.damage("c", 2, "flipped")
    begin = Repair.run

    def beside(self: Repair, *given: Any) -> None:
        log.damage("c", 2, "lost")
        log.report_loss("c", 3)
        begin(self, *given)

    monkeypatch.setattr(Repair, "run", beside)
    report = log.recover(stores=["c"], accept_loss=True)
    assert log.lost() == [(3, 6)]
    assert "records [3, 6) of t-0 were given up (--accept-loss)" in messages(report)


def test_a_report_says_how_many_messages_it_left_out(log: DamagedLog) -> None:
    for _ in range(22):
        log.write(1)
    for number in (0, 2, 3, *range(LAST + 1, LAST + 23)):
        for store in "abc":
            log.damage(store, number, "lost")
    report = log.recover(accept_loss=True)
    assert log.lost() == [(0, 31)]
    for row in report.partitions:
        if row.partition == 0:
            assert sum("were given up" in message for message in row.messages) == MOST_MESSAGES
            assert row.messages[-1] == "and 5 more messages"
