"""`wakeup` ends whatever a consumer waits for: a pause between two looks, or a coordinator's answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from sparklog.client import waiting as waiting_module
from sparklog.client.cluster import Cluster, connect
from sparklog.client.consumer.consumer import Consumer
from sparklog.core.commands import ClaimCoordination
from sparklog.core.coordination import Coordinator
from sparklog.core.errors import Wakeup
from sparklog.core.purgatory import WaitCondition
from sparklog.core.types import EntryNumber
from sparklog.host.bell import Bell
from sparklog.host.clock import SystemClock
from sparklog.wire.messages import WaitReply
from tests.client.orders import RECORDS, cluster, values
from tests.kit.log import fill

__all__ = ["cluster"]

NEVER_MS = 3_600_000
PATIENCE_S = 30


class PausingClock(SystemClock):
    """The machine's clock. `pauses` is released as each pause begins."""

    def __init__(self) -> None:
        self.pauses = threading.Semaphore(0)

    def pause(self, duration_ms: float, bell: Bell | None = None) -> None:
        self.pauses.release()
        super().pause(duration_ms, bell)


class SilentCoordinator:
    """Stands for the coordinator in force, which does not answer before `answer`, or the end of the request's time.

    `requests` is released as each request comes; `asked` are the times that they give it.
    """

    def __init__(self, cluster: Cluster, reader: Consumer) -> None:
        self.asked: list[int] = []
        self.requests = threading.Semaphore(0)
        self.answer = threading.Event()
        self._url = cluster.connection.url
        committer = cluster.connection.committer
        committer.submit = committer.commit_here  # type: ignore[method-assign]
        cluster.submit(ClaimCoordination(1, "c1", "http://127.0.0.1:1"))
        reader._connection.follower.catch_up()
        reader._connection.committer.wait = self._wait  # type: ignore[method-assign]

    def _wait(self, known: Coordinator, wanted: WaitCondition, seen: EntryNumber, longest_ms: int) -> WaitReply:
        self.asked.append(longest_ms)
        self.requests.release()
        is_done = self.answer.wait(longest_ms / 1000)
        with connect(self._url) as other:
            return WaitReply(EntryNumber(other.connection.follower.head.n), is_done)


@pytest.fixture
def reader(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Consumer]:
    """One that has read everything, in a process of its own, and whose requests to a coordinator last for long."""
    monkeypatch.setattr(waiting_module, "ROUND_MS", NEVER_MS)
    with (
        connect(cluster.connection.url) as other,
        other.consumer("orders", auto_offset_reset="earliest", heartbeat_interval_ms=44_000) as consumer,
    ):
        assert len(values(consumer)) == 3 * RECORDS
        yield consumer


def in_thread(call: Callable[[], object]) -> Callable[[], object]:
    """Begin the call in another thread. The result waits for its end, and is what it returned or raised."""
    ended: list[object] = []

    def run() -> None:
        try:
            ended.append(call())
        except Wakeup as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def result() -> object:
        thread.join(PATIENCE_S)
        assert ended, "it still waits"
        return ended[0]

    return result


def test_a_pause_between_two_looks_at_the_chain(reader: Consumer, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = reader._connection.committer.clock = PausingClock()
    monkeypatch.setattr(reader._reading._watch, "_pause_ms", NEVER_MS)
    poll = in_thread(lambda: reader.poll(NEVER_MS))
    assert clock.pauses.acquire(timeout=PATIENCE_S)
    reader.wakeup()
    assert isinstance(poll(), Wakeup)
    assert not clock.pauses.acquire(blocking=False), "no other pause was begun"


def woken_poll(reader: Consumer, coordinator: SilentCoordinator) -> None:
    is_first = not coordinator.asked
    poll = in_thread(lambda: reader.poll(NEVER_MS))
    if is_first:
        assert coordinator.requests.acquire(timeout=PATIENCE_S)
    reader.wakeup()
    assert isinstance(poll(), Wakeup)


def test_a_coordinator_that_has_not_answered(cluster: Cluster, reader: Consumer) -> None:
    """Its answer is left to the next wait for the same, so wakeups do not pile up requests at the coordinator."""
    coordinator = SilentCoordinator(cluster, reader)
    for _ in range(3):
        woken_poll(reader, coordinator)
    poll = in_thread(lambda: reader.poll(NEVER_MS))
    fill(cluster, 0, 1, first=RECORDS)
    coordinator.answer.set()
    (records,) = poll().values()  # type: ignore[attr-defined]
    assert [record.value for record in records] == [f"0-{RECORDS}".encode()]
    assert len(coordinator.asked) == 1


def test_a_short_wait_has_a_request_of_its_own(cluster: Cluster, reader: Consumer) -> None:
    coordinator = SilentCoordinator(cluster, reader)
    woken_poll(reader, coordinator)
    poll = in_thread(lambda: reader.poll(10_000))
    assert coordinator.requests.acquire(timeout=PATIENCE_S)
    reader.wakeup()
    assert isinstance(poll(), Wakeup)
    assert [longest_ms > 10_000 for longest_ms in coordinator.asked] == [True, False]
    coordinator.answer.set()
