from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from sparklog.core.commands import AlterTopic
from sparklog.maintenance.report import Outcome
from tests.maintenance.keyed_log import TRIMMED, DictShuffle, KeyedLog, keyed
from tests.maintenance.maintained_log import DAY_MS, maintained


@pytest.fixture
def log() -> Iterator[KeyedLog]:
    yield from keyed(maintained(f"memory://{uuid.uuid4().hex}"))


def test_cut_append_slice(log):
    log.create(**TRIMMED)
    log.put("a1 b2 c3")
    log.move_log_start(1)
    for t in ("a4 b5", "a6 b7"):
        log.segment(t)
    report = log.compact()
    print(report.to_json())
    log.check()
    assert log.text() == "1:b2 2:c3 5:a6 6:b7"


def test_min_lag_raised(log):
    log.create(delete_retention_ms=1000)
    log.segment("a1 b2 a c3")
    log.log.clock.at_ms += 10
    log.segment("c4 b")
    log.compact()
    assert log.cleaner.position == 6
    log.log.clock.at_ms += 2000
    log.log.cluster.alter("t", config={"min.compaction.lag.ms": 2005})
    report = log.compact()
    print(report.to_json())
    print(log.text(), log.cleaner)
    assert report.exit_code == 0
    log.check()
    log.log.cluster.alter("t", config={"min.compaction.lag.ms": 0})
    for _ in range(2):
        assert log.compact().exit_code == 0
    print(log.text(), log.cleaner)
    assert log.text() == "4:c4"


def test_policy_changed(log):
    log.create()
    log.segment("a1 b2 a3")
    def alter():
        log.log.cluster.alter("t", config={"cleanup.policy": "delete"})
    report = log.compact(shuffle=DictShuffle(alter))
    print(report.to_json())
    assert log.text() == "0:a1 1:b2 2:a3"
