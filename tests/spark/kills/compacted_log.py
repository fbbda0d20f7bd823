"""A log that roll and compaction have work in, and what must be true of it whatever is killed."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.host.clock import now_ms
from sparklog.maintenance.job_report import JobReport
from sparklog.maintenance.rewrite.compaction_job import run_compaction
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.spark.maintain.key_shuffle import SparkKeyShuffle
from sparklog.spark.maintain.spark_tasks import SparkTasks
from tests.faults.test_maintenance_sigkill import OLD_MS, far_vacuum
from tests.kit.silent_console import SILENT
from tests.maintenance.keyed_log import KeyedLog
from tests.maintenance.maintained_log import DAY_MS, MaintainedLog

_PAUSE_S: Final = 0.5  # between two looks at the log
_MOST_WRITES: Final = 20  # then reads only: each write is one object more to read


@contextmanager
def filled_log(url: str) -> Iterator[KeyedLog]:
    """A new cluster with a topic "t". Compaction, which ran once before, has four swaps to make; roll seals the end."""
    init_cluster(url)
    with sparklog.connect(url) as cluster:
        keyed = KeyedLog(MaintainedLog(cluster))
        keyed.log.clock.at_ms = now_ms()
        keyed.create(segment_bytes=900, rewrite_delete_delay_ms=0)
        for text in ("a1 p1 b1 c1", "a2 q1 d1 c2"):
            keyed.segment(text)
        keyed.compact()
        for text in ("b2 d2 r1 e1", "b3 d s1 e2", "a t1 q2 e"):
            keyed.segment(text)
        keyed.put("a1 b3 g")
        yield keyed


def roll(keyed: KeyedLog, session: SparkSession) -> JobReport:
    return run_roll(keyed.log.url, everything=True, tasks=SparkTasks(session), console=SILENT)


def compact(keyed: KeyedLog, session: SparkSession) -> JobReport:
    return run_compaction(
        keyed.log.url,
        shuffle=SparkKeyShuffle(session),
        tasks=SparkTasks(session),
        everything=True,
        console=SILENT,
    )


def use_while(keyed: KeyedLog, it_runs: Callable[[], bool]) -> None:
    """Write and read: readers see correct data only, whatever runs meanwhile."""
    for number in itertools.count():
        if not it_runs():
            break
        if number < _MOST_WRITES:
            keyed.put(f"a{number % 10} h{number % 7} c")
        keyed.check()
        time.sleep(_PAUSE_S)


def settle(keyed: KeyedLog, session: SparkSession | None = None) -> None:
    """Run everything again, on Spark or here, and let time pass: the log is compact, and nothing unnamed is stored."""
    log = keyed.log
    log.clock.at_ms = now_ms()
    keyed.roll()
    report = keyed.compact() if session is None else compact(keyed, session)
    assert report.exit_code == 0, report.to_json()
    keyed.check()
    log.clock.at_ms = now_ms()
    assert keyed.compact().exit_code == 0  # a tombstone goes in the run after the one that passed it
    keyed.check()
    assert keyed.cleaner is not None
    assert keyed.cleaner.position == len(keyed.rows)
    left = keyed.read()
    assert len(left) == len({key for _, key, _ in left}), "a key has several records"
    assert all(value is not None for _, _, value in left), "a tombstone is left"
    log.clock.at_ms += 8 * DAY_MS
    assert log.vacuum(now_ms=log.clock.at_ms + OLD_MS).exit_code == 0
    assert log.stored() == log.named()
    assert far_vacuum(log) == 0
    assert log.retired() == 0
    keyed.check()
