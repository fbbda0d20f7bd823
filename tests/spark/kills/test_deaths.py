"""Which worker brings the death that is planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.kills.deaths import Death, Deaths, Victim, Worker


def test_the_first_worker_to_reach_the_step_kills_though_another_began_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one may never reach it: Spark gives up an attempt of a task when a copy was faster."""
    killed: list[str] = []
    monkeypatch.setattr(Death, "bring", lambda death: killed.append(death.id))
    late, busy = Worker(tmp_path), Worker(tmp_path)
    with Deaths(tmp_path).planned(Victim.EXECUTOR, 2) as death:
        late.come(True)
        busy.come(False)  # a read is no step
        for _ in range(2):
            busy.come(True)
        assert not killed
        for worker in (busy, busy, late, late):
            worker.come(True)
        assert killed == [death.id], "it was killed once"
