"""Compaction as schedulers run it: when it is due, on a Spark of its own, beside deletions and other schedulers."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from string import ascii_letters

import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.types import Offset
from sparklog.host.clock import now_ms
from sparklog.host.deadline import Deadline, tries
from tests.faults.running_coordinators import SESSION_MS, RunningCoordinators, running_coordinators
from tests.faults.scheduled_rounds import two_schedulers
from tests.faults.test_scheduled_jobs import holding
from tests.maintenance.keyed_log import KeyedLog
from tests.maintenance.maintained_log import DAY_MS, MaintainedLog
from tests.spark_classes import NO_FOLDER

pytestmark = [pytest.mark.spark, pytest.mark.campaign, pytest.mark.timeout(900)]

OLD_MS = 30 * DAY_MS


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyedLog]:
    """Jobs run once a second. A segment is sealed as soon as a roll comes; compaction is due when half is new."""
    files = tmp_path / "spark"
    files.mkdir()
    settings = f"--conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2 --conf spark.local.dir={files}"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--master local[2] {settings} pyspark-shell")
    monkeypatch.setenv("SPARK_CONF_DIR", str(NO_FOLDER))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    url = f"file://{tmp_path}/cluster"
    init_cluster(url, config={"broker.session.timeout.ms": SESSION_MS, "log.retention.check.interval.ms": 1_000})
    with sparklog.connect(url) as cluster:
        keyed = KeyedLog(MaintainedLog(cluster))
        keyed.log.clock.at_ms = now_ms()
        keyed.create(
            cleanup_policy="compact,delete", retention_ms=-1, segment_ms=1, segment_bytes=4_000,
            min_cleanable_dirty_ratio=0.5, delete_retention_ms=DAY_MS, rewrite_delete_delay_ms=0,
        )  # fmt: skip
        yield keyed


@pytest.fixture
def coordinators(log: KeyedLog) -> Iterator[RunningCoordinators]:
    with running_coordinators(log.log.url) as running:
        yield running


def fill(keyed: KeyedLog, rounds: int) -> None:
    """A record of each key, some kilobytes together: one record more is less than half of that."""
    for number in range(rounds):
        keyed.put(" ".join(f"{key}{number:0100d}" for key in ascii_letters))


def wait_until(what: Callable[[], bool]) -> None:
    for _ in tries(Deadline(300_000)):
        if what():
            return
    raise AssertionError("it did not come within five minutes")


def position(keyed: KeyedLog) -> Offset:
    """Where the cleaner is."""
    keyed.log.cluster.connection.follower.catch_up()
    return Offset(0) if keyed.cleaner is None else keyed.cleaner.position


def runs_since(cluster: Cluster, job: str, at_ms: int) -> bool:
    """Whether the job has begun and ended since then."""
    run = cluster.connection.follower.catch_up().state.jobs.get(job)
    return run is not None and run.started_ms >= at_ms


def processes_of(folder: Path) -> list[str]:
    """Every process that has a file of this test on its command line, but for the coordinators."""
    listed = subprocess.run(["ps", "-A", "-o", "stat=,args="], check=True, capture_output=True, text=True).stdout
    return [
        line
        for line in listed.splitlines()
        if str(folder) in line and not line.startswith("Z") and "coordinator" not in line
    ]


def test_a_coordinator_compacts_when_it_is_due_beside_deletions(
    log: KeyedLog, coordinators: RunningCoordinators, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, 6)
    with holding("compaction", monkeypatch) as listener:
        listener.settimeout(200)
        leader = coordinators.start()
        leader.wait_for("leads")
        compacting, _ = listener.accept()
        listener.close()  # the next runs are not held
        with compacting, sparklog.connect(leader.address) as client:
            sealed = len(log.rows)
            client.delete_records("t", {0: 11})
            log.start = 11
            fill(log, 1)
            log.check()
            compacting.sendall(b"!")
        wait_until(lambda: position(log) >= sealed)
        log.check()
        assert len(log.read()) < len(log.rows) - 11, "superseded records are gone"
        # A little is not worth a run.
        wait_until(lambda: not unsealed(log) and not is_due(log))
        before = position(log)
        log.put("a1")
        wait_until(lambda: not unsealed(log))
        seen_ms = now_ms()
        wait_until(lambda: runs_since(log.log.cluster, "compaction", seen_ms))
        assert position(log) == before
        fill(log, 6)
        wait_until(lambda: position(log) > before)
    log.check()
    failed = {name: run.failed_partitions for name, run in log.log.cluster.connection.follower.state.jobs.items()}
    assert set(failed.values()) == {0}, failed


def unsealed(log: KeyedLog) -> bool:
    """Whether a roll is due."""
    log.log.cluster.connection.follower.catch_up()
    return bool(log.log.roll(dry_run=True).partitions)


def is_due(log: KeyedLog) -> bool:
    return bool(log.compact(everything=False, dry_run=True).partitions)


def test_a_leader_killed_in_the_middle_of_a_compaction_takes_it_along_and_the_next_one_compacts(
    log: KeyedLog, coordinators: RunningCoordinators, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fill(log, 6)
    with holding("compaction", monkeypatch) as listener:
        listener.settimeout(200)
        first = coordinators.start()
        first.wait_for("leads")
        second = coordinators.start()
        compacting, _ = listener.accept()
        listener.close()
        segments = log.log.segments("t")
        with compacting:
            compacting.settimeout(60)
            first.kill()
            assert compacting.recv(1) == b"", "the compaction ended with the coordinator that began it"
        wait_until(lambda: not processes_of(tmp_path / "spark"))
        assert (log.log.segments("t"), position(log)) == (segments, 0)
        log.check()
        second.wait_for("leads")
        wait_until(lambda: position(log) == len(log.rows))
    log.check()
    assert len(log.read()) == len(ascii_letters)
    second.send(signal.SIGTERM)
    assert second.process.wait() == 0
    wait_until(lambda: not processes_of(tmp_path / "spark"))
    log.log.clock.at_ms = now_ms() + 8 * DAY_MS
    assert log.log.vacuum(now_ms=log.log.clock.at_ms + OLD_MS).exit_code == 0
    assert log.log.stored() == log.log.named(), "nothing is left of what was uploaded in vain"


def test_two_schedulers_that_compact_at_once_do_no_harm(log: KeyedLog) -> None:
    """Beside a writer and deletions. Each has a Spark of its own."""
    fill(log, 6)
    with two_schedulers(log.log.url) as schedulers:
        rounds = 0
        while any(scheduler.poll() is None for scheduler in schedulers):
            rounds += 1
            fill(log, 1)
            log.check()
            if rounds in (2, 4):  # with deletions during each run no run would come to its end
                log.log.cluster.delete_records("t", {0: log.start + 2})
                log.start += 2
                log.check()
        said = [scheduler.communicate()[0] for scheduler in schedulers]
    assert [scheduler.returncode for scheduler in schedulers] == [0, 0], "\n".join(said)
    assert rounds > 3
    log.check()
    assert position(log) > 0, "\n".join(said)
    log.log.clock.at_ms = now_ms()
    for _ in range(2):
        log.roll()
        assert log.compact().exit_code == 0
    log.check()
    log.log.clock.at_ms += DAY_MS
    for report in (log.log.retention(), log.log.vacuum(now_ms=log.log.clock.at_ms + OLD_MS)):
        assert report.exit_code == 0, report.to_json()
    assert log.log.stored() == log.log.named(), "nothing is left of what one of them uploaded in vain"
    log.check()
