"""Compaction on Spark: keys meet in a shuffle, values never leave the tasks that rewrite them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparklog.core.errors import SparklogError
from sparklog.maintenance.compaction import run_compaction
from sparklog.maintenance.report import Outcome
from sparklog.spark import compaction
from sparklog.spark.compaction import SparkKeyShuffle, by_stretch
from sparklog.spark.tasks import SparkTasks
from tests.maintenance.keyed_log import KeyedLog
from tests.maintenance.maintained_log import maintained


@pytest.fixture
def log(tmp_path: Path) -> Iterator[KeyedLog]:
    for log in maintained((tmp_path / "cluster").as_uri()):
        yield KeyedLog(log)


def batch(*rows: tuple[int, int, int]) -> pa.RecordBatch:
    stretches, marks, keyless = zip(*rows, strict=True)
    columns = [pa.array(stretches, pa.int32()), pa.array(marks, pa.int64()), pa.array(keyless, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, names=["stretch", "mark", "keyless"])


def test_rows_of_a_stretch_are_gathered_over_batches() -> None:
    batches = [batch((0, -1, 0)), batch((2, -1, 0), (2, 6, 0)), batch((2, 9, 0), (2, 12, 3), (5, -1, 0), (5, 20, 0))]
    found = [
        (stretch, left.marks.tolist(), left.keyless, left.keyless_at) for stretch, left in by_stretch(iter(batches))
    ]
    assert found == [(0, [], 0, None), (2, [6, 9], 3, 6), (5, [20], 0, None)]
    assert list(by_stretch(iter([]))) == []


def test_what_spark_raises_is_an_error_of_sparklog(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(session: object, reads: object, rewrites: object) -> list[bytes]:
        raise RuntimeError("stage 7 was aborted")

    monkeypatch.setattr(compaction, "_on_spark", failing)
    session: Any = object()
    with pytest.raises(SparklogError, match="Spark could not compact 2 segments: stage 7 was aborted"):
        SparkKeyShuffle(lambda: session).run([b""], [b"", b""])


@pytest.mark.spark
def test_spark_leaves_the_last_record_of_each_key(spark: Any, log: KeyedLog) -> None:  # M: C-01 C-07
    log.create(segment_bytes=3_000)
    for text in ("a1 b2 c3 d4 e5", "a b6 c7", " ".join(f"k{each % 7}" for each in range(90)), "a8 f"):
        log.segment(text)
    report = run_compaction(
        log.log.url,
        shuffle=SparkKeyShuffle(spark),
        tasks=SparkTasks(spark),
        everything=True,
        **log.log._common(),  # type: ignore[arg-type]
    )
    assert [row.outcome for row in report.partitions] == [Outcome.DONE], report.to_json()
    log.check()
    assert len(log.read()) == len({key for _, key, _ in log.rows})
