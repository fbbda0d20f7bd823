"""The recovery job while others act: nobody's records are given up because the picture changed under it."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from rich.console import Console

from sparklog.core.invariants import check
from sparklog.core.types import ObjectNumber, StoreId
from sparklog.maintenance.recovery import run_recovery
from sparklog.maintenance.report import JobReport, Outcome
from sparklog.storage.keys import INCARNATION
from sparklog.storage.object_store import ObjectStore
from tests.maintenance.damaged_log import DamagedLog, damaged_log


@pytest.fixture
def log() -> Iterator[DamagedLog]:
    log = damaged_log()
    yield log
    check(log.world.state)
    log.world.cluster.close()


def run(log: DamagedLog, **options: object) -> JobReport:
    return run_recovery(log.url, console=Console(file=io.StringIO(), width=140), **options)  # type: ignore[arg-type]


def messages(report: JobReport) -> str:
    return "\n".join(message for row in report.partitions for message in row.messages)


def lost(log: DamagedLog) -> list[tuple[int, int]]:
    return [(each.start, each.end) for partition in (0, 1) for each in log.world.value(partition).lost]


def before_elsewhere(monkeypatch: pytest.MonkeyPatch, act: object) -> None:
    """Act once, after the damaged objects were read, and before the other stores are asked."""
    from sparklog.maintenance import repair

    elsewhere, done = repair.Repair._elsewhere, []

    def beside(self: repair.Repair, by_object: object) -> object:
        if not done:
            done.append(1)
            act()  # type: ignore[operator]
        return elsewhere(self, by_object)  # type: ignore[arg-type]

    monkeypatch.setattr(repair.Repair, "_elsewhere", beside)


def test_two_damaged(log):
    log.damage("a", 2, "flipped")
    log.damage("b", 2, "flipped")
    report = run(log)
    assert report.exit_code == 0, messages(report)
    log.check()


def test_reported_lost_meanwhile(log, monkeypatch):
    from sparklog.core.commands import HeldEnd, ReportLoss

    log.damage("b", 2, "flipped")
    key = log.world.key(0)

    def loss() -> None:
        store = log.world.state.stores[StoreId("b")]
        log.world.submit(
            ReportLoss(store.store, store.registration, store.incarnation, (HeldEnd(key.topic_id, key.partition, 3),))
        )

    before_elsewhere(monkeypatch, loss)
    report = run(log, accept_loss=True)
    print(report.to_json())
    assert lost(log) == []
    assert log.world.values(0) == log.model[0]


def test_fenced_holder(log):
    log.damage("a", 2, "flipped")
    log.damage("b", 2, "flipped")
    log.world.fence("c")
    report = run(log, accept_loss=True)
    print(messages(report))
    assert lost(log) == []


def test_unmounted(log, monkeypatch):
    import uuid

    # every store is unmounted in the middle of the run
    from sparklog.maintenance import recovery

    hidden = {}
    checked = recovery.RecoveryJob._checked

    def act(self, frame, store):
        if not hidden:
            for name in "abc":
                s = log.world.store(name)
                for k in [*log.world.objects(name), INCARNATION]:
                    hidden[name, k] = bytes(s.get(k))
                    s.delete(k)
        return checked(self, frame, store)

    from sparklog.maintenance import repair as rp
    real = recovery.check_registered
    calls = []

    def reg(frame, state, store):
        out = real(frame, state, store)
        if not hidden:
            for name in "abc":
                s = log.world.store(name)
                for k in [*log.world.objects(name), INCARNATION]:
                    hidden[name, k] = bytes(s.get(k))
                    s.delete(k)
        return out

    monkeypatch.setattr(recovery, "check_registered", reg)
    report = run(log, accept_loss=True)
    print(report.to_json()[:3000])
    for (name, k), body in hidden.items():
        try:
            log.world.store(name).put_if_absent(k, body)
        except Exception as e:
            print(e)
    assert lost(log) == []
    assert log.world.values(0) == log.model[0]
