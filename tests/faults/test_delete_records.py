"""`delete_records` is killed at every change of the store, and runs twice at the same time: nothing is lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from tests.faults.killed_runs import KilledRuns
from tests.maintenance.maintained_log import DAY_MS, MaintainedLog

OFFSETS = {0: 3, 1: -1, 2: 8}  # in the middle of a slice, the high watermark, between two slices
AFTER = {0: 3, 1: 5, 2: 8}
NEVER = -1  # a step that is not reached
COPIES = 6


def fill(log: MaintainedLog) -> None:
    log.topic("t", 3, retention_ms=-1, file_delete_delay_ms=0)
    for partition, counts in ((0, (5, 5)), (1, (2, 3)), (2, (8, 1))):
        for count in counts:
            log.append("t", partition, count)


@pytest.fixture
def filled(tmp_path: Path) -> MaintainedLog:
    """A cluster to be copied, with the model of its log."""
    url = str(tmp_path / "filled")
    init_cluster(url)
    with sparklog.connect(url) as cluster:
        log = MaintainedLog(cluster)
        fill(log)
        return log


@pytest.fixture(scope="module")
def killer() -> Iterator[KilledRuns]:
    with KilledRuns("tests.faults.killed_deletion") as runs:
        yield runs


# M: R-05 (kills)
def test_a_deletion_killed_anywhere_is_done_in_part_and_made_whole_by_the_next(
    filled: MaintainedLog, killer: KilledRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    states = set()
    step, killed = 0, True
    while killed:
        url = str(tmp_path / str(step))
        shutil.copytree(tmp_path / "filled", url)
        killed, _ = killer(OFFSETS, step, url)
        with sparklog.connect(url) as cluster:
            log = MaintainedLog(cluster, filled.clock, filled.model)
            log.check()
            starts = {at: log.log_start("t", at) for at in OFFSETS}
            assert all(starts[at] in (0, AFTER[at]) for at in OFFSETS), starts
            states.add(tuple(starts.values()))
            assert cluster.delete_records("t", OFFSETS) == AFTER
            log.check()
            log.clock.at_ms += DAY_MS
            assert log.retention().exit_code == 0
            assert log.stored() == log.named(), "nothing is left of what was deleted"
            log.check()
        step += 1
    assert states == {(0, 0, 0), (3, 0, 0), (3, 5, 0), (3, 5, 8)}, "it died between any two partitions"
    assert step > 3


# M: R-05
def test_deletions_at_the_same_time_beside_a_writer_end_at_the_highest_offset(filled: MaintainedLog) -> None:
    with sparklog.connect(filled.url) as cluster, ThreadPoolExecutor(COPIES + 1) as threads:
        log = MaintainedLog(cluster, filled.clock, filled.model)

        def delete(copy: int) -> dict[int, int]:
            with sparklog.connect(filled.url) as own:
                return own.delete_records("t", {0: copy, 2: COPIES - copy})

        def write() -> None:
            for _ in range(5):
                log.append("t", 0, 1)

        calls: Sequence[Callable[[], object]] = [*(lambda copy=copy: delete(copy) for copy in range(COPIES)), write]
        for result in [threads.submit(call) for call in calls]:
            result.result()
        log.check()
        assert [log.log_start("t", at) for at in (0, 1, 2)] == [COPIES - 1, 0, COPIES]
        log.clock.at_ms += DAY_MS
        assert log.retention().exit_code == 0
        assert log.stored() == log.named()
        log.check()
