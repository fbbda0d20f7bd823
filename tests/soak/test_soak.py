"""Three coordinators, three agents, writers (some of them embedded) and readers on S3, HDFS and a disk, in real
processes, under random troubles; then `checker.py` reads what they noted.

    make soak                                  20 minutes
    make soak ARGS="--soak-seconds 60 --soak-seed 7"

The order of troubles follows from the seed; what the processes make of them does not.
"""

from __future__ import annotations

import heapq
import itertools
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import sparklog
from sparklog.client import bootstrap
from sparklog.core.types import PartitionIndex, StoreId, TopicPartition
from tests.faults.mixed_stores import MixedStores
from tests.kit.log import values
from tests.servers.fault_proxy import FaultProxy
from tests.servers.hadoop import Hadoop
from tests.servers.s3_servers import S3Server
from tests.soak.checker import History, complaints
from tests.soak.journal import lines_of
from tests.soak.processes import Processes
from tests.soak.troubles import WRITERS, Troubles
from tests.soak.writer import PARTITIONS, TOPIC

SESSION_MS = 3_000
LAG_MS = 2_000  # replica.lag.time.max.ms: stores hang for longer than that
PAUSE_S = (0.2, 2.5)  # between the beginnings of two troubles
PATIENCE_S = 400  # for everything to be in sync again, on a busy machine: some puts to HDFS end after 60 s in vain


@pytest.fixture
def proxy(s3proxy: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """In front of the S3 server. The environment leads clients to it, also those in other processes."""
    with FaultProxy(s3proxy.endpoint_url) as proxy:
        for name, value in {**s3proxy.variables, "AWS_ENDPOINT_URL": proxy.url}.items():
            monkeypatch.setenv(name, value)
        yield proxy


@pytest.fixture
def mixed(
    proxy: FaultProxy, s3proxy: S3Server, hadoop: Hadoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MixedStores]:
    monkeypatch.setattr(bootstrap, "check_store", lambda store, probe_id: None)  # slow, and does not matter here
    config = {"broker.session.timeout.ms": SESSION_MS, "replica.lag.time.max.ms": LAG_MS}
    mixed = MixedStores.create(tmp_path, s3proxy, proxy, hadoop, config)
    try:
        yield mixed
    finally:
        mixed.close()


class Soak:
    """A cluster with everything that runs at it."""

    def __init__(self, mixed: MixedStores, folder: Path, seed: int, coordinator_module: str = "sparklog") -> None:
        self.mixed = mixed
        self.processes = Processes(mixed.folders.url, folder, coordinator_module)
        self.troubles = Troubles(self.processes, mixed, random.Random(seed), SESSION_MS / 1000)
        with sparklog.connect(mixed.folders.url) as cluster:
            cluster.create_topic(
                TOPIC,
                assignment=[list("abc"), list("bca"), list("cab")],
                config={"min.insync.replicas": 2, "retention.ms": -1},
            )

    def start(self) -> None:
        for number in range(3):
            self.processes.coordinator(number)
        for store in "abc":
            self.processes.agent(store)
        for kind in WRITERS:
            self.processes.writer(kind, 0)
        for number in range(2):
            self.processes.reader(number)

    def suffer(self, seconds: float) -> None:
        """Let troubles begin and end for so long, and on until each kind has come."""
        start = time.monotonic()
        numbers = itertools.count()
        ends: list[tuple[float, int, str, ExitStack]] = []
        while (now := time.monotonic()) < start + seconds or not self.troubles.all_came:
            while ends and ends[0][0] <= now:
                _, _, what, stack = heapq.heappop(ends)
                self._say(start, f"end of {what}")
                stack.close()
            if drawn := self.troubles.next():
                kind, target, lasts = drawn
                self._say(start, f"{kind.name}: {target} for {lasts:.1f} s")
                stack = ExitStack()
                stack.enter_context(self.troubles.happening(kind, target))
                heapq.heappush(ends, (time.monotonic() + lasts, next(numbers), f"{kind.name}: {target}", stack))
            time.sleep(self.troubles.dice.uniform(*PAUSE_S))
        while ends:
            heapq.heappop(ends)[3].close()
        self.processes.heal()

    def settle(self) -> None:
        """Every process works again, and then, when nobody writes, every replica has everything."""
        written = {name: self._acked(name) for name in self._names(*WRITERS)}
        read = {name: self._lines(name) for name in self._names("reader")}
        self._wait(lambda: all(self._acked(name) > count for name, count in written.items()), written)
        self._wait(lambda: all(self._lines(name) > count for name, count in read.items()), written)
        self._wait(lambda: all(server.has_spoken for server in self.processes.named("agent", "coordinator")), written)
        self._stop(*WRITERS)
        self._wait(self._in_sync, written)
        self._stop("reader")
        self._stop("agent", "coordinator")
        assert self._in_sync(), self._state(written)

    def _wait(self, done: Callable[[], bool], written: dict[str, int]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < deadline, self._state(written)
            time.sleep(0.2)

    def _stop(self, *kinds: str) -> None:
        codes = self.processes.stop(*kinds)
        ends = {name: self.processes.all[name].last_words() for name, code in codes.items() if code}
        assert not ends, (codes, ends)

    def complaints(self) -> tuple[list[str], History]:
        history = History(
            {name: list(lines_of(self.processes.journal(name))) for name in self._names(*WRITERS)},
            {name: list(lines_of(self.processes.journal(name))) for name in self._names("reader")},
        )
        replicas = {}
        for store in "abc":
            with self.mixed.only(store), sparklog.connect(self.processes.url) as cluster:
                replicas[store] = {at: values(cluster, at, TOPIC) for at in range(PARTITIONS)}
        return complaints(history, replicas), history

    def _names(self, *kinds: str) -> list[str]:
        return [running.name for running in self.processes.named(*kinds)]

    def _acked(self, name: str) -> int:
        return sum("acked" in line for line in lines_of(self.processes.journal(name)))

    def _lines(self, name: str) -> int:
        return sum(1 for _ in lines_of(self.processes.journal(name)))

    def _in_sync(self) -> bool:
        """All replicas are in the ISR, and no record is above the high watermark."""
        with sparklog.connect(self.processes.url) as cluster:
            state = cluster.connection.follower.state
        replications = [
            state.partitions[TopicPartition(state.topic_ids[TOPIC], PartitionIndex(at))].replication
            for at in range(PARTITIONS)
        ]
        return all(
            set(value.isr) == {StoreId(store) for store in "abc"} and value.high_watermark == value.next_offset
            for value in replications
        )

    def _state(self, written: dict[str, int]) -> str:
        alive = {running.name: running.is_alive for running in self.processes.all.values()}
        acked = {name: (before, self._acked(name)) for name, before in written.items()}
        values = [self.mixed.folders.replication(TOPIC, at) for at in range(PARTITIONS)]
        servers = self.processes.named("agent", "coordinator")
        said = "\n".join(f"---- {running.name}\n{running.last_words()}" for running in servers)
        return f"alive {alive}; acknowledged before and now {acked}; {values}\n{said}"

    def _say(self, start: float, text: str) -> None:
        print(f"{time.monotonic() - start:7.1f} s  {text}", file=sys.stderr, flush=True)


@pytest.mark.slow
@pytest.mark.timeout(0)
# M: N-01 P-06 P-08 L-12 I-04 (kills)
def test_nothing_is_lost_doubled_or_changed(mixed: MixedStores, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    seconds, seed = request.config.getoption("--soak-seconds"), request.config.getoption("--soak-seed")
    soak = Soak(mixed, tmp_path, seed)
    try:
        soak.start()
        soak.suffer(seconds)
        soak.settle()
        wrong, history = soak.complaints()
        print(f"seed {seed}: {dict(history.counts)}; {dict(soak.troubles.counts)}", file=sys.stderr)
        assert wrong == []
        assert history.counts["acknowledged"] > seconds
    finally:
        soak.processes.end()
