"""Replicas on S3, HDFS and a disk, RF 3: one store is dead, slow, full, read-only, old, wiped or lost under load.

Writes go on, nothing acknowledged is lost, and a store that is back, or its replacement, ends with the same objects. A
request to a slow store takes longer than the writers are waited for, so they are not held up by one. Everything that
such a store may cost is `replica.lag.time.max.ms`. The times are printed (-rP). With --campaign it goes on and on.

`test_lost_store.py` has three disks and writers in processes of their own.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import sparklog
from sparklog.agent.run import AgentRun
from sparklog.client import bootstrap
from sparklog.client.stores import add_store as stores
from sparklog.client.stores import store_health
from sparklog.core.replication.partition import Replication
from sparklog.core.types import Offset, StoreId
from sparklog.log.read import read_ahead
from sparklog.storage.s3.client import forget_clients
from tests.cli.conftest import Cli
from tests.faults.ledger_threads import LedgerThreads
from tests.faults.ledger_writer import PARTITIONS, TOPIC
from tests.faults.ledger_writers import in_order
from tests.faults.mixed_stores import LAG_MS, SLOW_MS, MixedStores, new_s3_address
from tests.servers.fault_proxy import FaultProxy
from tests.servers.hadoop import Hadoop
from tests.servers.s3_servers import S3Server

pytestmark = pytest.mark.slow

WRITERS = 2
APPENDS = 2  # that every writer is waited for after a change
STORES = "abc"
HASTY_MS = 2_000  # a call of `sparklog cluster health`
AHEAD = 3  # appends of a writer that the test has not waited for
AHEAD_IN_CAMPAIGN = 200
ROUNDS = 12
APPENDS_MEANWHILE = 20  # of each writer, before a store that comes back has the machine for itself


@dataclass(frozen=True)
class Trouble:
    """What happens to a store, and what `sparklog cluster health` says of it meanwhile, among other things."""

    store: str
    happens: Callable[[MixedStores], AbstractContextManager[None]]
    said: str


TROUBLES = {
    "S3 is dead": Trouble("a", MixedStores.dead_s3, "KAFKA_STORAGE_ERROR"),
    "S3 takes 30 s a request": Trouble("a", MixedStores.slow_s3, "no answer in"),
    "S3 is full": Trouble("a", MixedStores.full_s3, "no room there"),
    "S3 is read-only": Trouble("a", MixedStores.read_only_s3, "may not write there"),
    "HDFS is dead": Trouble("b", MixedStores.dead_hdfs, "answer"),
    "HDFS hangs": Trouble("b", MixedStores.hanging_hdfs, "no answer in"),
    "HDFS has no data nodes": Trouble("b", MixedStores.hdfs_without_data_nodes, "answer"),
    "HDFS is full": Trouble("b", MixedStores.full_hdfs, "quota"),
    "HDFS is read-only": Trouble("b", MixedStores.read_only_hdfs, "safe mode"),
    "the disk is gone": Trouble("c", MixedStores.lost_disk, "nothing there"),
    "the disk hangs": Trouble("c", MixedStores.slow_disk, "no answer in"),
    "the disk is full": Trouble("c", MixedStores.full_disk, "STORE_FULL"),
    "the disk is read-only": Trouble("c", MixedStores.read_only_disk, "STORE_READ_ONLY"),
}
# Each store has one, and each kind of trouble one store: dead, slow, full, read-only. Below S3 is
# killed for good. `tests/spark/test_on_stores.py` has an S3 that comes back, and
# `test_lost_store.py` disks that are gone for a while or hang.
EVERY_TIME = {"HDFS is dead", "S3 takes 30 s a request", "the disk is full", "the disk is read-only"}


class Load:
    """A topic on the three stores, the writers of it, and a reader that was there before."""

    def __init__(self, mixed: MixedStores, command: Cli, ahead: int) -> None:
        self.mixed = mixed
        self.folders = mixed.folders
        self.command = command
        self.writers = LedgerThreads(mixed.folders, ahead=ahead)
        self.reader = sparklog.connect(mixed.folders.url)
        self.noted: list[str] = []
        self._ends = [Offset(0)] * PARTITIONS

    def begin(self, store: str) -> None:
        """The store leads partition 0, and follows in partition 1."""
        others = [other for other in STORES if other != store]
        assignment = [[store, *others], [*others, store]]
        config = {"min.insync.replicas": 2, "retention.ms": -1}
        self.reader.create_topic(TOPIC, assignment=assignment, config=config)

    def isr(self) -> list[str]:
        """Of each partition: the ids of its stores in sync."""
        return ["".join(sorted(value.isr)) for value in self._replications()]

    def registration(self, store: str) -> int:
        return self.reader.connection.follower.catch_up().state.stores[StoreId(store)].registration

    def goes_on_without(self, store: str) -> float:
        """Every writer hears of appends, and the store is in no ISR. Returns how long they waited for the first, s."""
        waited_s = self.writers.hear(0)
        self.writers.hear(APPENDS)
        assert store not in "".join(self.isr())
        assert self._replications()[0].leader not in (store, None)
        self._look()
        return waited_s

    def names_the_problem(self, store: str, said: str) -> Any:
        """`sparklog cluster health` names the store and what is wrong with it. Returns all that it found."""
        health = self.command("cluster", "health", "--format", "json")
        assert health.code == 5, health.err
        of_store = [sentence for sentence in health.json["wrong"] if sentence.startswith(f"store {store}: ")]
        assert any(said in sentence for sentence in of_store), health.json["wrong"]
        return health.json

    def is_said(self, store: str, said: str) -> None:
        """The commands for operators say what is wrong with the store, and that its replicas are behind."""
        assert self.names_the_problem(store, said)["partitions_under_replicated"] == PARTITIONS
        for partition in self.command.json("replica", "list", "--under-replicated"):
            replicas = {replica["store"]: replica for replica in partition["replicas"]}
            assert [name for name, replica in replicas.items() if not replica["in_isr"]] == [store]
            assert replicas[store]["lag_records"] > 0

    def rejoins(self, store: str) -> None:
        """Its agent fills it while the writers wait; it is in every ISR, and stays there."""
        with self.writers.paused():
            self.catch_up(store)
            assert self._are_in(store)
        self.writers.hear(APPENDS)
        assert self._are_in(store)
        self._look()

    @contextmanager
    def agents_running(self) -> Iterator[None]:
        """What `sparklog agent` does, on every store."""
        agents = [AgentRun(self.reader.connection, StoreId(store), lambda note: None) for store in STORES]
        with ThreadPoolExecutor(len(agents)) as pool:
            running = [pool.submit(agent.run) for agent in agents]
            try:
                yield
            finally:
                for agent in agents:
                    agent.stop()
            for ended in running:
                ended.result()

    def joins_by_itself(self, store: str) -> None:
        """Its agent brings it into every ISR, beside the writers if it is fast enough for that."""
        for _ in range(APPENDS_MEANWHILE):
            if self._are_in(store):
                return
            self.writers.hear(0)
        with self.writers.paused():
            self.await_all_in_sync()

    def await_all_in_sync(self) -> None:
        """Return when the agents have brought every store into every ISR, while nobody writes."""
        while not self._are_in(*STORES):
            threading.Event().wait(0.05)

    def is_whole(self) -> None:
        """Every replica is in sync. On a very busy machine a store may have been too slow for a write just now."""
        with self.writers.paused():
            for store in self._replications()[0].replicas:
                if not self._are_in(store):
                    self.catch_up(store)
                assert self._are_in(store)

    def catch_up(self, store: str) -> None:
        """What `sparklog agent --once` does."""
        AgentRun(self.reader.connection, StoreId(store), lambda note: self.noted.append(note.text), once=True).run()

    def was_reported(self, store: str, registration: int) -> None:
        """The agent said what it found, and the store has a later registration."""
        assert self.registration(store) > registration
        assert any("the loss is reported" in text for text in self.noted)

    def check(self) -> None:
        """While nobody writes: each store has the same objects, and alone what was acknowledged, in order, no more."""
        assert self.folders.differences() == []
        (isr,) = set(self.isr())
        assert len(isr) == len(STORES)
        for store in isr:
            with self.mixed.only(store), sparklog.connect(self.folders.url) as cluster:
                for partition in range(PARTITIONS):
                    rows = cluster.read(TOPIC, partition=partition)
                    values = [value.decode() for value in rows["value"].to_pylist()]
                    there = dict(zip(rows["offset"].to_pylist(), values, strict=True))
                    assert there == self.folders.acknowledged[TOPIC, partition]
                    assert in_order(values)

    def run(self, *arguments: str) -> None:
        said = self.command(*arguments)
        assert said.code == 0, said.err

    def _replications(self) -> list[Replication]:
        state = self.reader.connection.follower.catch_up().state
        return [partition.replication for partition in state.partitions_of(state.topics[state.topic_ids[TOPIC]])]

    def _are_in(self, *stores: str) -> bool:
        """Whether these stores are in every ISR."""
        return all(store in isr for isr in self.isr() for store in stores)

    def _look(self) -> None:
        """The visible end only rises."""
        ends = [partition.high_watermark for partition in self.reader.describe(TOPIC).partitions]
        assert ends >= self._ends
        self._ends = ends


@pytest.fixture(scope="module")
def proxy(s3proxy: S3Server) -> Iterator[FaultProxy]:
    """Where the environment leads S3 clients to."""
    with FaultProxy(s3proxy.endpoint_url) as proxy, pytest.MonkeyPatch.context() as patch:
        for name, value in {**s3proxy.variables, "AWS_ENDPOINT_URL": proxy.url}.items():
            patch.setenv(name, value)
        yield proxy
    forget_clients()


@pytest.fixture
def load(
    proxy: FaultProxy,
    s3proxy: S3Server,
    hadoop: Hadoop,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Load]:
    for module in (bootstrap, stores):  # a probe is slow, and does not matter here
        monkeypatch.setattr(module, "check_store", lambda store, probe_id: None)
    monkeypatch.setattr(store_health, "CALL_TIMEOUT_MS", HASTY_MS)
    monkeypatch.setattr(store_health, "DEADLINE_MS", 2 * HASTY_MS)
    monkeypatch.setattr(read_ahead, "_pools", {})  # threads that began before the disk was mounted do not see it
    mixed = MixedStores.create(tmp_path, s3proxy, proxy, hadoop)
    try:
        ahead = AHEAD_IN_CAMPAIGN if request.config.getoption("--campaign") else AHEAD
        load = Load(mixed, Cli(mixed.folders.url, capsys, monkeypatch), ahead)
        yield load
        load.reader.close()
    finally:
        for pool in read_ahead._pools.values():
            pool.shutdown()
        mixed.close()


def skip_if_impossible(trouble: Trouble, mixed: MixedStores) -> None:
    if mixed.disk is None and trouble.happens is MixedStores.full_disk:
        pytest.skip("filling a disk needs root, and a machine that lets it mount a small one")
    if mixed.disk is None and trouble.happens is MixedStores.read_only_disk and os.getuid() == 0:
        pytest.skip("rights do not bind root, and this machine does not let it mount a disk read-only")


# M: S-01 P-01 P-02 P-03 P-06 L-03 L-12 N-07 (kills)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in EVERY_TIME else pytest.mark.campaign) for name in TROUBLES],
)
def test_writes_go_on_and_the_store_ends_as_the_others(load: Load, name: str) -> None:
    trouble = TROUBLES[name]
    skip_if_impossible(trouble, load.mixed)
    load.begin(trouble.store)
    with load.writers.running(WRITERS) as writers:
        writers.hear(APPENDS)
        load.is_whole()
        with trouble.happens(load.mixed):
            waited_s = load.goes_on_without(trouble.store)
            load.is_said(trouble.store, trouble.said)
        load.rejoins(trouble.store)
        load.is_whole()
    load.check()
    print(
        f"{name}: the next append was acknowledged after {waited_s:.1f} s; a request may take {SLOW_MS // 1000} s, "
        f"replica.lag.time.max.ms is {LAG_MS}"
    )


# M: P-07 L-03 S-09 (loses)
@pytest.mark.parametrize("store", ["a", pytest.param("b", marks=pytest.mark.campaign)], ids=["S3", "HDFS"])
def test_a_store_with_old_data_is_found_out_and_filled(load: Load, store: str) -> None:
    """It takes writes as if nothing had happened. Its agent finds what is missing, and says so in the chain."""
    load.begin(store)
    with load.writers.running(WRITERS) as writers:
        writers.hear(APPENDS)
        load.is_whole()
        with writers.paused():
            old = load.mixed.objects(store)
        writers.hear(APPENDS)
        with writers.paused():
            load.mixed.put_back(store, old)
            load.names_the_problem(store, "is not there")
        before = load.registration(store)
        writers.hear(APPENDS)
        assert all(store in isr for isr in load.isr())
        load.rejoins(store)
        load.was_reported(store, before)
        load.is_whole()
    load.check()


# M: P-07 L-03 (loses)
@pytest.mark.parametrize("store", ["a", pytest.param("b", marks=pytest.mark.campaign)], ids=["S3", "HDFS"])
def test_a_store_that_was_wiped_leaves_and_is_filled(load: Load, store: str) -> None:
    """Everything is gone with its INCARNATION. The next write leaves it out, before its agent has looked."""
    load.begin(store)
    with load.writers.running(WRITERS) as writers:
        writers.hear(APPENDS)
        load.is_whole()
        with writers.paused():
            load.mixed.put_back(store, set())
        before = load.registration(store)
        load.goes_on_without(store)
        load.names_the_problem(store, "no INCARNATION")
        load.rejoins(store)
        load.was_reported(store, before)
        load.is_whole()
    load.check()


# M: P-07 P-11 N-02 L-03 S-01 (kills)
@pytest.mark.parametrize(
    "store",
    ["a", *(pytest.param(store, marks=pytest.mark.campaign) for store in "bc")],
    ids=["S3", "HDFS", "disk"],
)
def test_a_store_that_is_lost_for_good_is_replaced(load: Load, store: str) -> None:
    """S3 is killed, HDFS hangs, the disk is not mounted: every time, `test_lost_store.py` has that on three disks.

    `tests/spark/test_on_stores.py` has the replication job.
    """
    mixed = load.mixed
    lost = {"a": mixed.dead_s3, "b": mixed.hanging_hdfs, "c": mixed.lost_disk}[store]
    replacement = "../d" if store == "a" else new_s3_address(mixed.s3)
    load.begin(store)
    with load.writers.running(WRITERS) as writers:
        writers.hear(APPENDS)
        load.is_whole()
        with lost():
            load.goes_on_without(store)
            load.run("store", "fence", store)
            load.run("store", "add", f"d={replacement}")
            load.run("replica", "move", "--off", store)
            writers.hear(APPENDS)
            load.rejoins("d")
            load.run("store", "remove", store)
            writers.hear(APPENDS)
            load.is_whole()
            assert load.isr() == ["".join(sorted({*STORES, "d"} - {store}))] * PARTITIONS
            with writers.paused():
                load.check()


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(6))
def test_trouble_after_trouble(load: Load, seed: int) -> None:
    """One store at a time, chosen by dice, for a time chosen by dice; the writers and the agents go on all the time."""
    dice = random.Random(seed)
    load.begin(dice.choice(STORES))
    with load.writers.running(WRITERS) as writers, load.agents_running():
        for _ in range(ROUNDS):
            writers.hear(dice.randrange(6))
            with writers.paused():
                load.await_all_in_sync()
            name = dice.choice(list(TROUBLES))
            trouble = TROUBLES[name]
            with trouble.happens(load.mixed):
                waited_s = load.goes_on_without(trouble.store)
                writers.hear(dice.randrange(6))
            print(f"{name}: {waited_s:.1f} s")
            load.joins_by_itself(trouble.store)
        with writers.paused():
            load.await_all_in_sync()
    load.check()
