"""A leader that was paused for longer than a session finds commands in its connections when it wakes up.

Another one leads by then. With its fence it commits none of them. Without it, it acknowledges what everybody else
ignores, and the checker of the soak says so: it would see such a fault there, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.core.coordination import Coordinator
from tests.kit.log import values
from tests.soak.checker import History, complaints
from tests.soak.journal import lines_of
from tests.soak.processes import Processes
from tests.soak.writer import PARTITIONS, TOPIC

SESSION_MS = 4_000  # long enough for a busy machine
WRITERS = 3
PATIENCE_S = 100


@pytest.mark.slow
@pytest.mark.parametrize("is_fenced", [True, False], ids=["fenced", "without the fence"])
# M: N-01 (kills)
def test_a_paused_leader_acknowledges_nothing_when_it_wakes(tmp_path: Path, is_fenced: bool) -> None:
    url = str(tmp_path / "chain")
    init_cluster(url, config={"broker.session.timeout.ms": SESSION_MS})
    coordinator = "sparklog" if is_fenced else "tests.soak.unfenced_coordinator"
    processes = Processes(url, tmp_path, coordinator, "tests.soak.patient_writer")
    with sparklog.connect(url) as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS)

        def known() -> Coordinator:
            return cluster.connection.follower.catch_up().state.coordinator

        def acked_by(number: int) -> int:
            return sum("acked" in line for line in lines_of(processes.journal(f"plain-{number}")))

        try:
            coordinators = [processes.coordinator(0)]
            wait_until(lambda: known().in_force)
            coordinators.append(processes.coordinator(1))
            for number in range(WRITERS):
                processes.writer("plain", number)
            wait_until(lambda: all(acked_by(number) for number in range(WRITERS)))
            leads = known()
            leader = next(
                each for each in coordinators if leads.address.endswith(f":{processes.proxies[each.name].port}")
            )
            leader.pause()
            wait_until(lambda: known().epoch > leads.epoch)
            leader.wake()
            acked = [acked_by(number) for number in range(WRITERS)]
            wait_until(lambda: all(acked_by(number) > acked[number] for number in range(WRITERS)))
            assert set(processes.stop("plain").values()) == {0}
            assert known().epoch == leads.epoch + 1
            assert all(each.is_alive for each in coordinators)
        finally:
            processes.end()
        history = History(
            {f"plain-{at}": list(lines_of(processes.journal(f"plain-{at}"))) for at in range(WRITERS)}, {}
        )
        log = {at: values(cluster, at, TOPIC) for at in range(PARTITIONS)}
    wrong = complaints(history, {"local": log})
    if is_fenced:
        assert wrong == []
    else:
        assert any("acknowledged" in what for what in wrong), wrong


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
