"""Logs whose start lies anywhere, also inside a slice: how the jobs and readers get on with them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sparklog.core.commands import AlterTopic
from sparklog.core.errors import DataLoss, OffsetOutOfRange, SparklogError
from sparklog.core.reading.plan import RangeToRead
from sparklog.core.records import CommandResult
from sparklog.maintenance.job_frame import JobFrame
from sparklog.maintenance.job_report import WorkOutcome
from tests.kit.budget import Seeds, random_runs
from tests.kit.hand_clock import START_MS
from tests.kit.kernel import RandomSteps, played
from tests.maintenance.maintained_log import DAY_MS, MaintainedLog, maintained

STEPS = 30


@pytest.fixture
def log() -> Iterator[MaintainedLog]:
    yield from maintained(f"memory://{uuid.uuid4().hex}")


def cut(log: MaintainedLog, **config: object) -> None:
    """Topic "t" with slices [0, 10), [10, 20), [20, 30) a day apart, cut at 14."""
    log.topic("t", **{"retention_ms": -1, "file_delete_delay_ms": 0, **config})
    for day in range(3):
        log.append("t", 0, 10, timestamp_ms=START_MS + day * DAY_MS)
    assert log.cluster.delete_records("t", {0: 14}) == {0: 14}


# M: R-05 S-05
def test_readers_see_the_rest_of_a_slice_that_is_cut(log: MaintainedLog) -> None:
    cut(log)
    log.check()
    assert log.cluster.read("t", partition=0, start=15, end=17)["offset"].to_pylist() == [15, 16]
    with pytest.raises(OffsetOutOfRange):
        log.cluster.read("t", partition=0, start=13)
    for at_ms, offset in ((0, 14), (START_MS + DAY_MS, 14), (START_MS + DAY_MS + 1, 20)):
        assert log.cluster.offsets_for_times("t", at_ms) == {0: offset}
    assert log.cluster.describe("t").records == 16


# M: R-05 S-09
def test_a_scan_planned_before_goes_on_until_the_objects_are_deleted(log: MaintainedLog) -> None:
    cut(log, file_delete_delay_ms=60_000)
    plan = log.planned("t")
    log.cluster.delete_records("t", {0: 25})
    assert log.read_plan(plan) == log.model["t", 0][14:]
    log.clock.at_ms += 10 * DAY_MS
    assert log.retention().deletion.done.objects == 2
    with pytest.raises(DataLoss, match=r"\[14, 25\) were removed by retention or delete-records"):
        log.read_plan(plan)
    assert log.read_plan(plan, fail_on_data_loss=False) == log.model["t", 0][25:]
    assert log.stored() == log.named()


# M: R-05 S-06
def test_a_roll_leaves_the_slice_that_is_cut_and_takes_those_behind_it(log: MaintainedLog) -> None:
    cut(log)
    assert log.roll().exit_code == 0
    assert log.segments("t") == [(10, 20), (20, 30)]
    assert log.roll().planned.objects == 0
    log.check()
    log.cluster.delete_records("t", {0: 23})
    log.append("t", 0, 5)
    log.roll()
    assert log.segments("t") == [(20, 30), (30, 35)]
    log.check()


# M: R-05 R-01 R-02
@pytest.mark.parametrize("config", [{"retention_ms": 3 * DAY_MS}, {"retention_bytes": 1}])
def test_retention_drops_what_is_left_of_a_slice_that_is_cut(log: MaintainedLog, config: dict[str, int]) -> None:
    cut(log, **config)
    at_ms = START_MS + 4 * DAY_MS + 1
    report = log.retention(now_ms=at_ms)
    assert (report.done.objects, report.done.records, log.log_start("t")) == (1, 6, 20)
    log.check()
    assert log.stored() == log.named()


# M: R-06
def test_a_topic_that_becomes_compacted_while_retention_runs_keeps_its_records(
    log: MaintainedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.topic("t", retention_ms=DAY_MS)
    log.append("t", 0, 10, timestamp_ms=0)
    commit_all = JobFrame.commit_all

    def altered_first(frame: JobFrame, commands: list[object]) -> list[CommandResult | SparklogError]:
        topic_id = log.cluster.describe("t").topic_id
        log.cluster.submit(AlterTopic(topic_id, {"cleanup.policy": "compact"}))  # type: ignore[arg-type]
        return commit_all(frame, commands)  # type: ignore[arg-type]

    monkeypatch.setattr(JobFrame, "commit_all", altered_first)
    report = log.retention()
    assert ([row.outcome for row in report.partitions], report.exit_code) == ([WorkOutcome.OVERTAKEN], 0)
    log.check()
    assert log.log_start("t") == 0


# ---- random histories ---------------------------------------------------------------------------------


class History(RandomSteps):
    """A log in which anything may come next. `plans` are scans that somebody has planned and not read yet."""

    length = STEPS

    def __init__(self, log: MaintainedLog, seed: int) -> None:
        super().__init__(seed)
        self.log = log
        self.plans: list[RangeToRead] = []
        self.starts = {0: 0, 1: 0}  # log starts as the model has them: at least here
        self.inside = 0  # how often a log start came to lie inside a slice
        log.topic(
            "t", 2, retention_ms=20 * DAY_MS, segment_bytes=1_500, file_delete_delay_ms=0, rewrite_delete_delay_ms=0
        )

    def step(self) -> None:
        actions: list[tuple[int, Callable[[], object]]] = [
            (6, self.append),
            (4, self.delete),
            (2, lambda: self.log.roll(everything=self.dice.random() < 0.5)),
            (2, self.log.retention),
            (1, lambda: self.log.vacuum(now_ms=self.log.clock.at_ms + 8 * DAY_MS)),
            (2, lambda: self.plans.append(self.log.planned("t", self.dice.randrange(2)))),
        ]
        self.act(actions)
        self.log.clock.at_ms += self.dice.choice((1, 1, DAY_MS))
        self.log.check()
        for partition, start in self.starts.items():
            now = self.log.log_start("t", partition)
            assert now >= start, "a log start never goes back"
            self.starts[partition] = now
        assert self.log.live() <= self.log.stored()

    def append(self) -> None:
        age_ms = self.dice.choice((0, 0, 15 * DAY_MS))
        partition = self.dice.randrange(2)
        self.log.append("t", partition, self.dice.randint(1, 12), timestamp_ms=self.log.clock.at_ms - age_ms)

    def delete(self) -> None:
        ends = {at: len(self.log.model["t", at]) for at in (0, 1)}
        offsets = {at: self.offset(ends[at], self.starts[at]) for at in (0, 1)}
        try:
            found = self.log.cluster.delete_records("t", offsets)
        except OffsetOutOfRange:
            assert any(offsets[at] > ends[at] for at in (0, 1))
            return
        wanted = {at: ends[at] if offset == -1 else offset for at, offset in offsets.items()}
        assert found == {at: max(wanted[at], self.starts[at]) for at in (0, 1)}
        for at in (0, 1):
            self.inside += any(start < found[at] < end for start, end in self.log.segments("t", at))

    def offset(self, end: int, start: int) -> int:
        """Mostly a little above the log start; now and then the high watermark, an old log start, or above the end."""
        anywhere = self.dice.choice((-1, self.dice.randint(0, end), end + 1))
        return self.dice.choice((anywhere, *[min(end, start + self.dice.randint(0, 4))] * 5))

    def end(self) -> None:
        """Late readers get a suffix of what they planned; then everything goes, and nothing is left."""
        for plan in self.plans:
            values = self.log.read_plan(plan, fail_on_data_loss=False)
            model = self.log.model["t", plan.partition][: plan.end]
            assert values == model[len(model) - len(values) :]
            assert len(values) >= plan.end - self.starts[plan.partition]
        self.log.cluster.delete_records("t", {0: -1, 1: -1})
        self.log.clock.at_ms += DAY_MS
        for report in (self.log.retention(), self.log.vacuum(now_ms=self.log.clock.at_ms + 30 * DAY_MS)):
            assert report.exit_code == 0
        assert (self.log.stored(), self.log.retired()) == (set(), 0)


# M: R-05 S-09
@random_runs(range(2), campaign=[range(4)])
def test_any_history_with_deleted_records_equals_the_model(seeds: Seeds) -> None:
    inside = 0
    for seed in seeds:
        with contextmanager(maintained)(f"memory://{uuid.uuid4().hex}") as log:
            inside += played(History(log, seed)).inside
    assert inside >= seeds.least, "log starts come to lie inside a slice"
