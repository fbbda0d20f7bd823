"""The benchmark of roll and compaction beside Spark, on logs that are small."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench import rewrites


@pytest.mark.spark
@pytest.mark.campaign
def test_rewrites_are_measured_beside_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewrites, "ROUNDS", 1)
    monkeypatch.setattr(rewrites, "MANY_TASKS", 8)
    comparisons, figures = rewrites.rewrites(spark, tmp_path, 1_000)
    assert (len(comparisons), len(figures)) == (7, 5)
    assert list(tmp_path.iterdir()) == []
