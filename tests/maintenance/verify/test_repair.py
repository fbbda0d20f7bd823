"""Repair under any damage at any holder, and with others in between: what some store has whole is never lost."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from sparklog.core.errors import StoreUnavailable
from sparklog.core.state_invariants import check
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.space.retention_job import run_retention
from sparklog.maintenance.space.vacuum_job import run_vacuum
from sparklog.storage.memory import MemoryStore
from tests.faults.deadly_calls import dying_at, every_change
from tests.faults.interruptions import meet_at
from tests.kit.silent_console import SILENT
from tests.maintenance.damaged_log import DamagedLog, damaged_log, messages

COPIES = ("whole", "flipped", "cut", "lost")
STARTS = {0: 0, 2: 3, 3: 6}  # the objects of partition 0, three records in each
FAR_MS = 2**41
READS = ("get", "get_ranges", "size")


def damage(log: DamagedLog) -> None:
    """Each object of partition 0 is whole on one store, and each store has something damaged."""
    for store, number, way in (("a", 0, "flipped"), ("b", 0, "lost"), ("b", 2, "cut"), ("c", 3, "flipped")):
        log.damage(store, number, way)
    log.damage("a", 3, "lost", index=True)


def readable(log: DamagedLog) -> None:
    check(log.world.state)
    assert log.lost() == []
    assert [log.left(partition) for partition in log.model] == list(log.model.values())


def recovered(log: DamagedLog, *, but_orphans: bool = False) -> None:
    """In a few runs all is as it was, on every store. A copy of an object that others deleted is an orphan."""
    for _ in range(3):
        report = log.recover()
    assert report.exit_code == 0, messages(report)
    readable(log)
    if but_orphans:
        assert run_vacuum(log.url, now_ms=FAR_MS, console=SILENT).exit_code == 0
    log.check()


# M: F-04
def test_whatever_is_wrong_with_each_copy_what_one_store_has_whole_is_on_all_of_them_again(
    request: pytest.FixtureRequest,
) -> None:
    """Each store's copy of an object in each state, and reported as lost or not. With --campaign all 512."""
    cases = list(itertools.product(itertools.product(COPIES, repeat=3), itertools.product((False, True), repeat=3)))
    chosen = cases if request.config.getoption("--campaign") else random.Random(5).sample(cases, 40)
    for copies, reported in chosen:
        log = damaged_log()
        for store, copy, is_reported in zip("abc", copies, reported, strict=True):
            if copy != "whole":
                log.damage(store, 2, copy)
            if is_reported:
                log.report_loss(store, STARTS[2])
        left = {store: body(log, store) for store in "abc"}
        report = log.recover()
        check(log.world.state)
        assert log.lost() == [], (copies, reported)
        if "whole" in copies:
            recovered(log)
        else:
            assert report.exit_code == 1, (copies, reported, messages(report))
            kept = [store for store in "abc" if left[store] is not None]
            assert [body(log, store) for store in kept] == [left[store] for store in kept], "the last batches, perhaps"
            for _ in range(2):
                report = log.recover(accept_loss=True)
            assert report.exit_code == 0 or log.world.value().leader is None, (copies, reported, messages(report))
        log.world.cluster.close()


def body(log: DamagedLog, store: str) -> bytes | None:
    """What a store has under the name of object 2."""
    return bytes(log.world.store(store).get(log.key(2))) if log.key(2) in log.world.objects(store) else None


# M: F-04
@pytest.mark.parametrize("store", ["a", "b", "c"])
def test_a_store_that_falls_silent_at_any_read_costs_nothing(store: str, request: pytest.FixtureRequest) -> None:
    """It may have the last whole copy of an object, and the loss of any records would be accepted."""
    step, came = 0, True
    while came:
        log = damaged_log()
        damage(log)
        with pytest.MonkeyPatch.context() as patch:
            asked = silent_from(patch, log.world.store(store).url, step)
            report = log.recover(accept_loss=True)
            came = asked() > step
        if report.exit_code == 0:  # it could do without
            log.check()
        assert came or report.exit_code == 0, messages(report)
        check(log.world.state)
        assert log.lost() == []
        recovered(log)
        log.world.cluster.close()
        step += 1 if request.config.getoption("--campaign") else 7
    assert step > 14


def silent_from(patch: pytest.MonkeyPatch, url: str, step: int) -> Callable[[], int]:
    """The store does not answer its `step`-th read, nor any call after that. Returns how often it was asked."""
    asked = [0]

    def answered(call: Callable[..., Any], *, is_read: bool) -> Callable[..., Any]:
        def wrapper(store: MemoryStore, *given: Any) -> Any:
            if store.url == url:
                asked[0] += is_read
                if asked[0] > step:
                    raise StoreUnavailable("no answer")
            return call(store, *given)

        return wrapper

    for name in (*READS, "delete", "put_if_absent"):
        patch.setattr(MemoryStore, name, answered(getattr(MemoryStore, name), is_read=name in READS))
    return lambda: asked[0]


# M: F-04 R-04
@pytest.mark.parametrize("other", ["roll", "retention"])
def test_a_roll_or_a_retention_may_come_in_at_any_change(
    other: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Both rewrite or forget objects that are under repair, and delete them at once."""
    step, came = 0, True
    while came:
        log = damaged_log()
        damage(log)
        with monkeypatch.context() as patch:
            happened = meet_at(patch, step, lambda log=log: met(log, other))  # type: ignore[misc]
            report = log.recover()
            came = happened()
        assert report.exit_code in (0, 1), "a report that another overtook is a failure, and the next run does the rest"
        readable(log)
        recovered(log, but_orphans=True)
        log.world.cluster.close()
        step += 1 if request.config.getoption("--campaign") else 4
    assert step > 12


def met(log: DamagedLog, other: str) -> None:
    """The roll rewrites all objects; the retention drops the first one, also from the model."""
    if other == "roll":
        run_roll(log.url, everything=True, console=SILENT)
        run_retention(log.url, console=SILENT)
    else:
        log.world.cluster.delete_records("t", {0: 3})
        log.model[0] = log.model[0][3:]
        run_retention(log.url, console=SILENT)
    readable(log)


# M: F-04 (kills)
def test_a_run_that_dies_anywhere_loses_nothing_that_no_replica_has_by_the_chain(
    request: pytest.FixtureRequest,
) -> None:
    """The last good bytes are on stores whose logs end before them, beside damaged ones. At every second change."""
    step, came = 0, True
    while came:
        log = damaged_log()
        for store, number, end in (("a", 0, 0), ("b", 0, 0), ("c", 2, 3)):
            log.damage(store, number, "cut")
            log.report_loss(store, end)
        log.damage("a", 3, "flipped")
        with dying_at(log.url, every_change(log.url), "before", step) as death:
            log.recover(accept_loss=True)
        came = death.came
        check(log.world.state)
        recovered(log)
        log.world.cluster.close()
        step += 1 if request.config.getoption("--campaign") else 2
    assert step > 10
