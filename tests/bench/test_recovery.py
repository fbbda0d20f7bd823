"""The benchmark of recovery, on a log that is small."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import recovery


def test_recovery_is_measured_beside_plain_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "ROUNDS", 1)
    (found,) = recovery.recovery(tmp_path, objects=2, object_bytes=10_000)
    assert found.goal == ">= 0.5"
    assert list(tmp_path.iterdir()) == []
