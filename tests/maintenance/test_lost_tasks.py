"""Tasks that Spark gave up on: the report says so, the rest of the job is done, and the next run does what is left."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from sparklog.core.commands import HeldEnd, ReportLoss
from sparklog.core.errors import SparklogError
from sparklog.core.replication.replica_append import Acks
from sparklog.core.state_invariants import check
from sparklog.core.types import Offset, StoreId
from sparklog.maintenance.job_report import JobReport
from sparklog.maintenance.replication_job import run_replication
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.space.vacuum_job import run_vacuum
from sparklog.maintenance.task_runner import LocalTasks, Task
from sparklog.maintenance.verify.look_tasks import LookOrder, look_at_objects
from sparklog.maintenance.verify.recovery_job import run_recovery
from sparklog.maintenance.verify.verify_job import run_verify
from sparklog.storage.keys import append_key
from tests.kit.silent_console import SILENT
from tests.maintenance.damaged_log import DamagedLog, damaged_log

GAVE_UP = "Spark could not run 1 task: the job was aborted"
FAR_MS = 2**41


class GivingUp(LocalTasks):
    """Runs tasks here, but for those of one call."""

    tasks_at_once = 64

    def __init__(self, at: int) -> None:
        self.at = at
        self.calls = 0

    def run(self, task: Task, payloads: Sequence[bytes]) -> list[bytes]:
        self.calls += 1
        if self.calls - 1 == self.at:
            raise SparklogError(GAVE_UP)
        return super().run(task, payloads)


def damage(log: DamagedLog) -> None:
    """On one store, on two, and an index."""
    log.damage("a", 3, "lost")
    log.damage("b", 2, "flipped")
    log.damage("c", 2, "cut")
    log.damage("c", 1, "empty", index=True)


def leave_an_orphan(log: DamagedLog) -> None:
    log.world.store("b").put_if_absent(append_key(0, "ab" * 16), b"an upload")


def leave_behind(log: DamagedLog) -> None:
    log.write(2, on="ab", acks=Acks.LEADER)


def nothing(log: DamagedLog) -> None:
    pass


CASES: dict[str, tuple[Callable[[DamagedLog], None], Callable[..., JobReport], dict[str, Any]]] = {
    "roll": (nothing, run_roll, {"everything": True}),
    "replication": (leave_behind, run_replication, {}),
    "recovery": (damage, run_recovery, {}),
    "verify": (nothing, run_verify, {}),
    "vacuum": (leave_an_orphan, run_vacuum, {"now_ms": FAR_MS}),
}


# M: R-06 F-04 F-09
@pytest.mark.parametrize("job", CASES)
def test_a_call_for_tasks_that_fails_is_reported_and_the_next_run_does_the_rest(
    job: str, request: pytest.FixtureRequest
) -> None:
    """Every third call; with --campaign each."""
    prepare, run, options = CASES[job]
    failures = 0
    for at in itertools.count(0, 1 if request.config.getoption("--campaign") else 3):
        log, tasks = damaged_log(), GivingUp(at)
        prepare(log)
        report = run(log.url, tasks=tasks, console=SILENT, **options)
        reported = GAVE_UP in report.to_json()
        failures += reported
        assert report.exit_code == reported, (at, report.to_json())
        check(log.world.state)
        for partition, values in log.model.items():
            found = log.left(partition)
            assert found == values[: len(found)]
            assert len(found) == len(values) or job == "replication", "it makes them visible"
        if not reported:
            log.check()  # it could do without
        again = run(log.url, console=SILENT, **options)
        assert again.exit_code == 0, (at, again.to_json())
        log.check()
        log.world.cluster.close()
        if tasks.calls <= at:
            break
    assert failures


class LosingChecks(LocalTasks):
    """Runs all tasks but those that look whether a store has an object whole."""

    def __init__(self, store: str) -> None:
        self.store = store

    def run(self, task: Task, payloads: Sequence[bytes]) -> list[bytes]:
        if task is look_at_objects:
            orders = [msgspec.msgpack.decode(payload, type=LookOrder) for payload in payloads]
            asked = [object_ for order in orders for object_ in order.objects if self.store in object_.stores]
            if any(object_.slices for object_ in asked):  # the first look, at all objects, is without slices
                raise SparklogError(GAVE_UP)
        return super().run(task, payloads)


# M: F-04
def test_nothing_is_given_up_while_it_is_not_known_what_another_store_has() -> None:
    log = damaged_log()
    for store in "bc":
        log.damage(store, 2, "flipped")
    report = run_recovery(log.url, tasks=LosingChecks("a"), accept_loss=True, console=SILENT)
    assert report.exit_code == 1
    assert f"it can't be repaired now: store a: UNKNOWN_SERVER_ERROR: {GAVE_UP}" in report.to_json()
    for partition, values in log.model.items():
        assert log.left(partition) == values
    assert run_recovery(log.url, console=SILENT).exit_code == 0
    log.check()
    log.world.cluster.close()


# M: F-04
def test_nothing_is_given_up_while_a_replica_that_may_have_it_behind_its_end_could_not_be_read() -> None:
    """By the chain store b holds nothing from object 2 on, as it lost that one. It has the bytes of object 3."""
    log = damaged_log()
    key, store = log.world.key(), log.world.state.stores[StoreId("b")]
    log.damage("b", 2, "lost")
    held = HeldEnd(key.topic_id, key.partition, Offset(3))
    log.world.submit(ReportLoss(store.store, store.registration, store.incarnation, (held,)))
    for other in "ac":
        log.damage(other, 3, "flipped")
    report = run_recovery(log.url, tasks=LosingChecks("b"), accept_loss=True, console=SILENT)
    assert report.exit_code == 1
    assert f"it can't be repaired now: store b: UNKNOWN_SERVER_ERROR: {GAVE_UP}" in report.to_json()
    assert log.world.value(key.partition).lost == ()
    assert run_recovery(log.url, console=SILENT).exit_code == 0
    log.check()
    log.world.cluster.close()


# M: F-04
def test_a_damage_that_could_not_be_read_again_is_reported() -> None:
    """Another store has the object whole, and the damage on a third one is repaired."""
    log = damaged_log()
    for store in "bc":
        log.damage(store, 2, "flipped")
    report = run_recovery(log.url, tasks=LosingChecks("c"), console=SILENT)
    assert report.exit_code == 1
    assert f"it can't be repaired now: store c: UNKNOWN_SERVER_ERROR: {GAVE_UP}" in report.to_json()
    assert run_recovery(log.url, console=SILENT).exit_code == 0
    log.check()
    log.world.cluster.close()
