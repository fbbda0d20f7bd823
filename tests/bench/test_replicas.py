"""The benchmark of stores that die, with one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import replicas


@pytest.mark.campaign
@pytest.mark.slow
def test_the_time_without_a_store_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "DEADLINE_MS", 200)
    gone, killed, mute = replicas.deaths(tmp_path, runs=1)
    for _, text in (gone, killed, mute):
        assert "the next write is acknowledged after" in text
    assert "0.2 s of it the deadline" in mute[1]
