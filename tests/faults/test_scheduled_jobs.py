"""Jobs that coordinators schedule, as real processes: a leader is killed in the middle of a roll, the next goes on."""

from __future__ import annotations

import json
import shlex
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import sparklog
from sparklog.cli.main import run as run_command_line
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.records import JobRan
from sparklog.host.deadline import Deadline, tries
from tests.faults.running_coordinators import SESSION_MS, RunningCoordinators, running_coordinators
from tests.maintenance.maintained_log import MaintainedLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[MaintainedLog]:
    """A log that has something to roll, at a cluster whose coordinators run roll and retention once a second."""
    url = f"file://{tmp_path}/cluster"
    init_cluster(url, config={"broker.session.timeout.ms": SESSION_MS, "log.retention.check.interval.ms": 1_000})
    with sparklog.connect(url) as cluster:
        log = MaintainedLog(cluster)
        log.topic("t", 2, segment_bytes=500, retention_ms=-1)
        for partition in (0, 1, 0, 1):
            log.append("t", partition, 12)
        yield log


@pytest.fixture
def coordinators(log: MaintainedLog) -> Iterator[RunningCoordinators]:
    with running_coordinators(log.url) as running:
        yield running


@contextmanager
def holding(job: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Runs of this job that coordinators begin stop in their middle, and call here."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        port = str(listener.getsockname()[1])
        words = shlex.join([sys.executable, "-m", "tests.faults.held_job", port, job])
        monkeypatch.setenv("SPARKLOG_JOB_COMMAND", f"{words} {{job}} {{cluster}} {{report}}")
        yield listener


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Rolls are held."""
    with holding("roll", monkeypatch) as listener:
        yield listener


def wait_for_run(cluster: Cluster, job: str) -> JobRan:
    """The first run of the job that gets into the chain."""
    for _ in tries(Deadline(60_000)):
        run = cluster.connection.follower.catch_up().state.jobs.get(job)
        if run is not None:
            return run
    raise AssertionError(f"{job} did not run within a minute")


# M: N-06 S-09 (kills)
def test_a_leader_killed_in_the_middle_of_a_roll_takes_it_along_and_the_next_one_rolls_again(
    log: MaintainedLog, coordinators: RunningCoordinators, held: socket.socket
) -> None:
    first = coordinators.start()
    first.wait_for("leads")
    second = coordinators.start()
    rolling, _ = held.accept()
    held.close()  # the next roll goes on
    sliced = log.segments("t", 0)
    with rolling:
        rolling.settimeout(60)
        first.kill()
        assert rolling.recv(1) == b"", "the roll ended with the coordinator that began it"
    assert log.segments("t", 0) == sliced
    assert "roll" not in log.cluster.connection.follower.catch_up().state.jobs
    second.wait_for("leads")
    log.append("t", 0, 5)
    run = wait_for_run(log.cluster, "roll")
    assert run.failed_partitions == 0
    wait_for_run(log.cluster, "retention")
    assert log.segments("t", 0) != sliced
    log.check()
    second.send(signal.SIGTERM)
    assert second.process.wait() == 0
    log.check()


# M: N-06 (kills)
def test_a_coordinator_that_is_stopped_stops_its_job_first_and_hands_over(
    log: MaintainedLog, coordinators: RunningCoordinators, held: socket.socket
) -> None:
    first = coordinators.start()
    rolling, _ = held.accept()
    with rolling:
        first.send(signal.SIGTERM)
        assert first.process.wait() == 0
        rolling.settimeout(60)
        assert rolling.recv(1) == b""
    state = log.cluster.connection.follower.catch_up().state
    assert not state.coordinator.in_force
    assert "roll" not in state.jobs
    log.check()


# M: N-06
def test_why_a_job_failed_and_when_it_comes_again_is_shown(
    log: MaintainedLog,
    coordinators: RunningCoordinators,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    failing = shlex.join([sys.executable, "-c", "import sys; sys.exit('no such queue')"])
    monkeypatch.setenv("SPARKLOG_JOB_COMMAND", f"{failing} {{job}} {{cluster}}")
    leader = coordinators.start()
    error = "it ended with exit code 1 and without a report: no such queue"
    said: set[str] = set()
    while not said >= {f"roll: {error}", f"retention: {error}"}:
        said.add(leader.wait_for("error"))
    assert run_command_line(["job", "status", "--cluster", leader.address, "--format", "json"]) == 5
    rows = {row["job"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["roll"]["error"] == rows["retention"]["error"] == error
    assert rows["roll"]["next_due_ms"] or rows["roll"]["running_since_ms"]
    assert (rows["roll"]["report"], rows["roll"]["ended_ms"]) == (None, None)
    assert set(rows) == {"roll", "compaction", "retention", "vacuum"}
