"""A compaction dies, or meets others, at every change of the store: readers find the old or the new, never a mix."""

from __future__ import annotations

import copy
import os
import uuid

import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from tests.faults.crash_places import Place, objects_of
from tests.faults.deadly_calls import dying_at, every_change
from tests.faults.interruptions import NEVER, killed_at, meet_at, stride
from tests.faults.killed_maintenance import run
from tests.faults.killed_runs import KilledRuns
from tests.faults.test_maintenance_sigkill import OLD_MS, far_vacuum
from tests.maintenance.keyed_log import KeyedLog
from tests.maintenance.maintained_log import DAY_MS, MaintainedLog

VALUES = {"a": "9", "b": "2", "d": "8"}


def fill(log: MaintainedLog) -> KeyedLog:
    """A topic that was compacted once. Now a tombstone may go, and of one segment nothing is left."""
    keyed = KeyedLog(log).create(segment_bytes=900, rewrite_delete_delay_ms=0)
    for text in ("a1 b2 c3", "c d4 d5", "a6"):
        keyed.segment(text)
    keyed.compact()
    for text in ("d7 a8 d8", "a9"):
        keyed.segment(text)
    return keyed


def check(keyed: KeyedLog) -> None:
    keyed.check()
    assert {str(key): value for _, key, value in keyed.read() if value} == VALUES
    assert keyed.log.live() <= keyed.log.stored()


def finish(keyed: KeyedLog, place: Place | None = None) -> None:
    """Run it again, let time pass, and clean up: then the store holds exactly what the chain names."""
    log = keyed.log
    assert run("compaction", log.clock.at_ms, log.clock.at_ms + OLD_MS, log.url) == 0
    check(keyed)
    assert len(keyed.read()) == len(VALUES), "no tombstone is left"
    assert keyed.cleaner is not None
    assert keyed.cleaner.position == len(keyed.rows)
    log.clock.at_ms += 8 * DAY_MS
    assert log.vacuum(now_ms=log.clock.at_ms + OLD_MS).exit_code == 0
    assert log.stored() == log.named()
    if place is not None:
        assert far_vacuum(log) == 0
        assert not place.unpublished(log.url)
    check(keyed)


@pytest.mark.timeout(3_000)
@pytest.mark.parametrize(
    "place",
    ["memory", "disk", *(pytest.param(place, marks=pytest.mark.campaign) for place in ("s3", "hdfs"))],
    indirect=True,
)
def test_a_compaction_killed_anywhere_and_run_again_is_right(  # M: C-01 C-05 S-09 (kills)
    place: Place, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """In memory it dies at every change of the store; elsewhere its process is killed at a few of them."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # a kill loses no pages: waiting for the disk proves nothing
    url = place.new_url()
    init_cluster(url)
    with sparklog.connect(url) as cluster, KilledRuns("tests.faults.killed_maintenance") as killer:
        filled = fill(MaintainedLog(cluster))
        clock_ms = filled.log.clock.at_ms
        objects = objects_of(url)

        def died(url: str, step: int) -> tuple[bool, int]:
            if place.name != "memory":
                return killer("compaction", clock_ms, clock_ms + OLD_MS, step, url)
            with dying_at(url, every_change(url), "before", step) as death:
                assert run("compaction", clock_ms, clock_ms + OLD_MS, url) == 0
            return death.came, death.calls

        was_killed, changes = died(url, NEVER)
        assert not was_killed
        assert changes >= 10
        for step in range(changes) if place.name == "memory" else killed_at(changes, request):
            copied = place.copied(objects)
            with sparklog.connect(copied) as again:
                log = MaintainedLog(again, copy.copy(filled.log.clock))
                keyed = KeyedLog(log, list(filled.rows))
                plan = log.planned("t")
                assert died(copied, step) == (True, step)
                check(keyed)
                read = log.read_plan(plan)
                assert read[-1] == b"9"
                assert set(read) <= {value.encode() if value else None for _, _, value in keyed.rows}
                finish(keyed, place)


@pytest.mark.parametrize(
    "other",
    [
        "writers",
        "compaction",
        *(pytest.param(job, marks=pytest.mark.campaign) for job in ("roll", "retention", "vacuum")),
    ],
)
def test_a_compaction_that_meets_others_anywhere_is_right(  # M: C-05 S-09
    other: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """At every third change; with --campaign at all of them."""
    step, came_to_it = 0, True
    while came_to_it:
        url = f"memory://{uuid.uuid4().hex}"
        init_cluster(url)
        with sparklog.connect(url) as cluster, monkeypatch.context() as patch:
            keyed = fill(MaintainedLog(cluster))
            log = keyed.log
            plan = log.planned("t")

            def others(keyed: KeyedLog = keyed, log: MaintainedLog = log) -> None:
                if other == "writers":
                    keyed.put("d8 c")
                    keyed.check()
                else:
                    assert run(other, log.clock.at_ms, log.clock.at_ms + OLD_MS, log.url) == 0

            happened = meet_at(patch, step, others)
            run("compaction", log.clock.at_ms, log.clock.at_ms + OLD_MS, log.url)  # FLOOR may pass it: then it failed
            came_to_it = happened()
            patch.undo()
            check(keyed)
            assert log.read_plan(plan)[-1] == b"9"
            keyed.roll()
            for _ in range(2):
                keyed.compact()
            finish(keyed)
        step += stride(request, 3)
