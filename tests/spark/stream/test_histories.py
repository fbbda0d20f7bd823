"""Stress: random steps of a query that reads, processes and writes, while data, topics and partitions are added.

Drivers stop, die at any step, or go on as zombies beside their successors. After each step, whatever it was:

- the output has the records below the offsets that the group has consumed, each once, in order, and no other one;
- a micro-batch has exactly the rows between its offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from sparklog.client.cluster import Cluster
from sparklog.core.errors import Conflict, UnknownMemberId
from tests.kit.kernel import RandomSteps, played
from tests.spark.stream.driven_query import GROUP, DrivenQuery, Run
from tests.spark.stream.driven_stream import memory_cluster, send

STEPS = 50
PARTITIONS = 3  # of a topic, at most
KINDS = ("data", "data", "topic", "partition", "stop", "limit", *["work"] * 6, *["die"] * 2, "zombie")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with memory_cluster(monkeypatch) as made:
        made.create_topic("out", partitions=PARTITIONS)
        made.create_topic("t0", partitions=1)
        yield made


class History(RandomSteps):
    """One seed, one history. `driver` is the run of the query that nothing has ended."""

    length = STEPS

    def __init__(self, log: Cluster, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        super().__init__(seed)
        self.log = log
        self.query = DrivenQuery(log, monkeypatch, subscribePattern="t.*")
        self.sizes = {("t0", 0): 0}  # records in each partition
        self.driver: Run | None = None
        self.zombies: list[tuple[Run, str]] = []  # and what each of them does next
        self.output: dict[tuple[str, int], list[int]] = {}
        self.read = [0] * PARTITIONS

    def step(self) -> None:
        kind = self.dice.choice(KINDS)
        self.counts[kind] += 1
        self.trace.append(kind)
        match kind:
            case "data":
                place, count = self.dice.choice(sorted(self.sizes)), self.dice.randrange(1, 9)
                send(self.log, *place, count)
                self.sizes[place] += count
            case "topic":
                name = f"t{len({topic for topic, _ in self.sizes})}"
                self.log.create_topic(name, partitions=1)
                self.sizes[name, 0] = 0
            case "partition":
                topic, _ = self.dice.choice(sorted(self.sizes))
                total = sum(name == topic for name, _ in self.sizes) + 1
                if total <= PARTITIONS:
                    self.log.add_partitions(topic, total)
                    self.sizes[topic, total - 1] = 0
            case "stop":
                self.driver = None
            case "limit":
                self.driver = None
                self.query.options["maxOffsetsPerTrigger"] = self.dice.choice([1, 3, 10, 1000])
            case "work":
                self.work()
            case "die":
                self.work(self.dice.choice(["work", "commit", "commit again", "end"]))
            case "zombie":
                self.haunt()
        self.check()

    def work(self, dies_before: str = "") -> None:
        """A micro-batch. The driver may die before one of its steps, and go on later as if nothing had been."""
        run, self.driver = self.driver or self.query.begin(), None
        with suppress(Conflict):  # a zombie was faster
            steps = ("work", "commit", "end") if run.plan() else ()
            for step in steps:
                if step == dies_before:
                    self.zombies.append((run, step))
                    return
                self.go_on(run, step)
                if step == "commit" and dies_before == "commit again":
                    run.commit()
            self.driver = run

    def go_on(self, run: Run, step: str) -> None:
        if step == "work":
            run.work()
            assert run.rows == _between(run.start, run.end)
        elif step == "commit":
            run.commit()
        else:
            run.end_batch()

    def haunt(self) -> None:
        """A driver that was thought dead goes on; it may be refused."""
        if not self.zombies:
            return
        run, step = self.zombies.pop(self.dice.randrange(len(self.zombies)))
        steps = ("work", "commit", "end")
        with suppress(Conflict):  # fenced, or the checkpoint has the file
            for each in steps[steps.index(step) :]:
                self.go_on(run, each)
            if run.plan():
                self.zombies.append((run, "work"))

    def end(self) -> None:
        self.driver = None
        for _ in range(sum(self.sizes.values()) + 2):
            self.work()
        self.check()
        assert self.output == {place: list(range(size)) for place, size in self.sizes.items() if size}

    def check(self) -> None:
        for partition in range(PARTITIONS):
            start = self.read[partition]
            for value in self.log.read("out", partition=partition, start=start, columns=["value"])["value"].to_pylist():
                topic, of, offset = value.decode().split()
                self.output.setdefault((topic, int(of)), []).append(int(offset))
                self.read[partition] += 1
        consumed = {place: row.offset for place, row in self.log.committed(GROUP).items() if row.offset}
        assert {place: list(range(end)) for place, end in consumed.items()} == self.output


def _between(start: dict[str, dict[str, dict[str, int]]], end: dict[str, dict[str, dict[str, int]]]) -> int:
    return sum(
        offset - start["offsets"].get(topic, {}).get(partition, 0)
        for topic, by_partition in end["offsets"].items()
        for partition, offset in by_partition.items()
    )


# M: I-04 I-05
@pytest.mark.parametrize("seed", range(20))
def test_output_and_consumed_offsets_agree_at_every_step(
    log: Cluster, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    assert played(History(log, monkeypatch, seed)).counts["work"] > 5


def test_a_group_with_members_keeps_a_micro_batch_out(log: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    send(log, "t0", 0, 3)
    run = DrivenQuery(log, monkeypatch, subscribe="t0").begin()
    with log.join_group(GROUP, ["t0"]), pytest.raises(UnknownMemberId, match="group billing has 1 active member"):
        run.plan()
    assert run.plan()
    run.work()
    with log.join_group(GROUP, ["t0"]):
        with pytest.raises(UnknownMemberId, match="group billing has 1 active member"):
            run.commit()
        assert log.describe("out").partitions[0].high_watermark == 0
    run.commit()
    assert log.describe("out").partitions[0].high_watermark == 3


def test_a_topic_that_goes_while_a_micro_batch_runs_keeps_no_records_out(
    log: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create_topic("t1", partitions=1)
    for topic in ("t0", "t1"):
        send(log, topic, 0, 3)
    run = DrivenQuery(log, monkeypatch, subscribePattern="t.*", failOnDataLoss="false").begin()
    assert run.plan()
    run.work()
    log.delete_topic("t1")
    run.commit()
    assert log.describe("out").partitions[0].high_watermark == 6
    assert {place: row.offset for place, row in log.committed(GROUP).items()} == {("t0", 0): 3}


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(100, 400))
def test_many_histories(log: Cluster, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    played(History(log, monkeypatch, seed))
