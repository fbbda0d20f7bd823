"""Stores that are lost, slow, full or old while processes write: writes go on, and nothing acknowledged is lost.

The writers' time-out is far beyond the patience of the test: what they are waited for is that a store's failure holds
them up for `replica.lag.time.max.ms` and no longer. `tests/spark/test_lost_store.py` has a Spark write.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import sparklog
from sparklog.agent.run import AgentRun
from sparklog.client.cluster import Cluster
from sparklog.core.commands import ReportReplicas, Submission
from sparklog.core.records import CommandResult
from sparklog.core.types import StoreId
from tests.cli.conftest import Cli
from tests.faults.ledger_writer import PARTITIONS, TOPIC, rows_of
from tests.faults.ledger_writers import LedgerWriters, in_order
from tests.faults.store_folders import StoreFolders

pytestmark = pytest.mark.slow

WRITERS = 2
APPENDS = 3  # that every writer is waited for after a change
LAG_MS = 3_000  # a busy disk is not a lost store
MOST_REPORTS = 40  # within which a store that is back must have joined


class Load:
    """A topic on three stores, processes that write to it, and a reader that was there before."""

    def __init__(self, folder: Path, cli: Callable[[str], Cli]) -> None:
        self.folders = StoreFolders.create(folder, config={"replica.lag.time.max.ms": LAG_MS})
        self.command = cli(self.folders.url)
        self.writers = LedgerWriters(self.folders)
        self.ends = [0] * PARTITIONS
        self._reader = sparklog.connect(self.folders.url)
        config = {"min.insync.replicas": 2, "retention.ms": -1}
        self._reader.create_topic(TOPIC, assignment=[["a", "b", "c"], ["b", "c", "a"]], config=config)

    def close(self) -> None:
        self._reader.close()

    def run(self, *arguments: str) -> None:
        said = self.command(*arguments)
        assert said.code == 0, said.err

    def catch_up(self, *stores: str) -> None:
        """What `sparklog agent --once` does on these stores. They are in sync again if nobody writes meanwhile."""
        with sparklog.connect(self.folders.url) as cluster:
            for store in stores:
                AgentRun(cluster.connection, StoreId(store), lambda note: None, once=True).run()

    def isr(self) -> list[str]:
        """Of each partition: the ids of its stores in sync."""
        state = self.folders.state()
        topic = state.topics[state.topic_ids[TOPIC]]
        return ["".join(sorted(each.replication.isr)) for each in state.partitions_of(topic)]

    def look(self) -> None:
        """The visible end only rises."""
        ends = [each.high_watermark for each in self._reader.describe(TOPIC).partitions]
        assert ends >= self.ends
        self.ends = ends

    def goes_on_without(self, store: str) -> None:
        """Every writer hears of appends, and the store is in no ISR."""
        self.writers.hear(APPENDS)
        assert store not in "".join(self.isr())
        self.look()

    def rejoins(self, store: str) -> None:
        """Its agent fills it while the writers wait; it is in every ISR, and stays there."""
        with self.writers.paused():
            self.catch_up(store)
            assert store in self.isr()[0]
            assert store in self.isr()[1]
        self.writers.hear(APPENDS)
        assert store in self.isr()[0]
        self.look()

    def check(self) -> None:
        """After the writers have ended: all that they heard is there, in order, the same on every store."""
        assert self.writers.errors == []
        assert self.folders.complaints() == []
        for store in sorted(set(self.isr()[0])):
            with self.folders.only(store):
                assert self.folders.lost() == []
        for partition in range(PARTITIONS):
            values = self._reader.read(TOPIC, partition=partition)["value"].to_pylist()
            assert in_order([value.decode() for value in values])
            assert len(values) == len(self.folders.acknowledged[TOPIC, partition])


@pytest.fixture
def load(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    made = Load(tmp_path, lambda url: Cli(url, capsys, monkeypatch))
    yield made
    made.close()


# M: P-01 P-03 P-04 P-06 L-01 L-12 S-01 N-07 (kills)
def test_writes_go_on_whatever_one_store_does(load: Load) -> None:
    """The folder of a follower goes, that of a leader, a store hangs, is full; each comes back and is filled."""
    with load.writers.running(WRITERS) as writers:
        writers.hear(APPENDS)
        for store in ("c", "a"):  # a leads partition 0
            load.folders.take_away(store)
            load.goes_on_without(store)
            load.folders.bring_back(store)
            load.rejoins(store)
        for what in ("hangs", "full"):
            writers.let("b", what)
            load.goes_on_without("b")
            writers.let("b", "serves")
            load.rejoins("b")
    load.check()


class OvertakenReports:
    """Between the moment an agent looks at the chain and each of its reports, somebody else appends."""

    def __init__(self, load: Load, agents: Cluster, writer: Cluster) -> None:
        self.load, self.writer = load, writer
        self.count = 0
        self._submit = agents.connection.committer.submit
        agents.connection.committer.submit = self.submit  # type: ignore[method-assign]

    def submit(self, submission: Submission, *more: Any) -> CommandResult:
        if isinstance(submission.command, ReportReplicas):
            values = {partition: [f"{WRITERS}-{self.count}-{partition}-0"] for partition in range(PARTITIONS)}
            self.count += 1
            for written in self.writer.append(TOPIC, rows_of(values)).ranges:
                self.load.folders.note(TOPIC, written.partition, written.start, values[written.partition])
        return self._submit(submission, *more)


# M: P-02 N-07
def test_a_store_that_is_back_joins_the_isr_while_writers_go_on(load: Load) -> None:
    """They write to it too, so it joins although every report of its agent is overtaken by an append."""
    with (
        load.writers.running(WRITERS) as writers,
        sparklog.connect(load.folders.url) as cluster,
        sparklog.connect(load.folders.url) as writer,
    ):
        writers.hear(APPENDS)
        load.folders.take_away("c")
        load.goes_on_without("c")
        load.folders.bring_back("c")
        reports = OvertakenReports(load, cluster, writer)
        agent = AgentRun(cluster.connection, StoreId("c"), lambda note: None)
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(agent.run)
            try:
                while load.isr() != ["abc", "abc"]:
                    writers.hear(1)
                    assert reports.count < MOST_REPORTS, load.isr()
                writers.hear(APPENDS)
                assert load.isr() == ["abc", "abc"]
            finally:
                agent.stop()
            running.result(60)
        assert reports.count > 0
    load.check()


# M: P-07 P-11 N-02 L-03 S-01 (kills)
def test_a_store_that_is_lost_for_good_is_replaced(load: Load) -> None:
    """Under load, RF 3: one disk is gone, another is added, gets its replicas, is filled and joins the ISR."""
    with load.writers.running(WRITERS) as writers:
        writers.hear(APPENDS)
        load.folders.lose("a")
        load.goes_on_without("a")
        load.run("store", "fence", "a")
        load.run("store", "add", "d=../d")
        load.run("replica", "move", "--off", "a")
        writers.hear(APPENDS)
        with writers.paused():
            load.catch_up("d")
            assert load.isr() == ["bcd", "bcd"]
        load.run("store", "remove", "a")
        writers.hear(APPENDS)
        assert load.isr() == ["bcd", "bcd"]
    load.check()


# M: P-07 S-09 (kills)
def test_a_store_that_is_wiped_or_an_old_copy_is_found_out_and_filled(load: Load) -> None:
    """Writers go on; the agent finds what is missing, and says so in the chain."""
    folders, old = load.folders, load.folders.folder / "old"
    with load.writers.running(WRITERS) as writers:
        writers.hear(APPENDS)
        with writers.paused():
            shutil.copytree(folders.at("c"), old)
        writers.hear(APPENDS)
        with writers.paused():
            before = folders.state().stores[StoreId("c")].registration
            shutil.rmtree(folders.at("c"))
            old.rename(folders.at("c"))
        writers.hear(APPENDS)  # an old copy takes writes as if nothing had happened
        load.rejoins("c")
        assert folders.state().stores[StoreId("c")].registration > before
        folders.lose("b")
        load.goes_on_without("b")
        load.rejoins("b")
    load.check()
