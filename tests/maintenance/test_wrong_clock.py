"""Jobs on a machine whose clock is days ahead: nothing of a chain at work expires, and delays are kept."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from sparklog.core.commands import ClaimCoordination
from sparklog.core.coordination import Coordinator
from sparklog.core.errors import InvalidInput, StoreAccessDenied
from sparklog.maintenance import run_retention, run_roll, run_vacuum
from sparklog.maintenance.job_frame import JobFrame
from sparklog.storage.keys import PROBES
from sparklog.storage.memory import MemoryStore
from tests.kit.hand_clock import HandClock
from tests.kit.silent_console import SILENT
from tests.maintenance.maintained_log import DAY_MS, MaintainedLog, maintained


@pytest.fixture
def log() -> Iterator[MaintainedLog]:
    yield from maintained(f"memory://{uuid.uuid4().hex}")


# M: I-02, I-07
def test_no_offset_and_no_producer_of_a_chain_at_work_is_forgotten(log: MaintainedLog) -> None:
    """Nor after many entries that only the wrong jobs wrote, as long as others write, too."""
    log.topic("t")
    producer_id, _ = log.cluster.allocate_producer()
    log.append("t", 0, 1)
    log.cluster.commit_offsets("billing", {("t", 0): 1})
    wrong = HandClock(log.clock.at_ms + 8 * DAY_MS)
    for _ in range(3):
        for run in (run_roll, run_retention, run_vacuum):
            run(log.url, clock=wrong, console=SILENT)
        log.append("t", 0, 1)
        state = log.cluster.connection.newest_state()
        assert (producer_id in state.producers, set(state.groups)) == (True, {"billing"})
    log.clock.at_ms += 8 * DAY_MS
    log.busy()
    log.retention()
    state = log.cluster.connection.newest_state()
    assert (producer_id in state.producers, set(state.groups)) == (False, set()), "by then so much time has passed"


def test_while_a_coordinator_leads_delays_count_by_its_clock_too(log: MaintainedLog) -> None:
    log.topic("t")  # by the clock of this log
    for ahead_ms in (8 * DAY_MS, 1, 0, -DAY_MS):
        frame = JobFrame("retention", log.url, clock=HandClock(log.clock.at_ms + ahead_ms))
        state = frame.connection.follower.state
        own_ms = log.clock.at_ms + ahead_ms
        assert (frame.now_ms, frame.job_time(state)) == (own_ms, own_ms), "a chain without one may be quiet for days"
        state.coordinator = Coordinator(1, "one", "http://one")
        assert frame.job_time(state) == min(own_ms, log.clock.at_ms)


@pytest.fixture
def store_clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    """The clock of the store, which is taken for one on a server."""
    clock = HandClock()
    monkeypatch.setattr("sparklog.storage.memory.now_ms", clock.now_ms)
    monkeypatch.setattr("sparklog.maintenance.store_clock.has_timeout", lambda url: True)
    return clock


@pytest.mark.parametrize("in_force", [False, True])
def test_a_job_that_is_days_ahead_of_the_store_does_not_begin(
    log: MaintainedLog, store_clock: HandClock, in_force: bool
) -> None:
    """Not even if all entries are of its own machine, such as those of a coordinator there."""
    log.clock.at_ms += 8 * DAY_MS
    log.topic("t", retention_ms=DAY_MS)
    log.append("t", 0, 1, timestamp_ms=store_clock.at_ms)
    if in_force:
        committer = log.cluster.connection.committer
        committer.commit_here(committer.begin(ClaimCoordination(1, "one", "http://127.0.0.1:1")))
    n = log.cluster.connection.newest_state().n
    for run in (run_roll, run_retention, run_vacuum):
        with pytest.raises(InvalidInput, match="wanted a clock like that of memory://"):
            run(log.url, clock=log.clock, console=SILENT)
    assert log.cluster.connection.newest_state().n == n
    assert not list(log.store.list_keys(PROBES))
    log.check()


def test_a_chain_that_was_quiet_for_days_is_not_taken_for_a_wrong_clock(
    log: MaintainedLog, store_clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.topic("t", retention_ms=DAY_MS)
    log.append("t", 0, 1)
    for clock in (log.clock, store_clock):
        clock.at_ms += 8 * DAY_MS
    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "put_if_absent", None)  # a dry run writes nothing
        assert log.retention(dry_run=True).planned.objects == 1
    assert log.retention().done.objects == 1
    assert not list(log.store.list_keys(PROBES))


def test_a_job_goes_on_if_the_object_that_showed_the_stores_clock_stays(
    log: MaintainedLog, store_clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.topic("t", retention_ms=DAY_MS)
    log.append("t", 0, 1)
    for clock in (log.clock, store_clock):
        clock.at_ms += 8 * DAY_MS
    deletes = MemoryStore.delete

    def denied(store: MemoryStore, key: str) -> None:
        if key.startswith(PROBES):
            raise StoreAccessDenied(f"{key}: access denied")
        deletes(store, key)

    monkeypatch.setattr(MemoryStore, "delete", denied)
    assert log.retention().done.objects == 1


def test_a_job_that_is_days_ahead_of_a_coordinator_does_not_begin(log: MaintainedLog) -> None:
    log.topic("t", retention_ms=DAY_MS)
    log.append("t", 0, 1)
    committer = log.cluster.connection.committer
    committer.commit_here(committer.begin(ClaimCoordination(1, "one", "http://127.0.0.1:1")))
    n = log.cluster.connection.newest_state().n
    for run in (run_roll, run_retention, run_vacuum):
        with pytest.raises(InvalidInput, match="wanted a clock like that of coordinator one"):
            run(log.url, clock=HandClock(log.clock.at_ms + DAY_MS + 1), console=SILENT)
    assert log.cluster.connection.newest_state().n == n
