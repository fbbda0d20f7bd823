"""The benchmark of agents, on a log that is small."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import replication


def test_the_catch_up_is_measured_beside_a_plain_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replication, "ROUNDS", 1)
    found = replication.catch_up(tmp_path, objects=3, object_bytes=10_000)
    assert [each.goal for each in found] == [">= 0.8", ">= 0.8"]
    assert list(tmp_path.iterdir()) == []
