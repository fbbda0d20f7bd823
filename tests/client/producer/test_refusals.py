"""A producer whose commit is refused: how long it waits before it sends the other partitions."""

from __future__ import annotations

from typing import Any

import pytest

from sparklog.client.producer import sending
from sparklog.core.producing.flush import ATTEMPT_MS
from sparklog.core.producing.flushes import SHORT_ATTEMPT_MS
from tests.kit.log import new_cluster


def test_a_partition_that_loses_its_leader_holds_up_a_commit_for_a_short_time_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # M: P-09
    """An answer may take longer than a refusal is waited out."""
    asked: list[tuple[int, int]] = []
    commit = sending.commit_append

    def watched(*given: Any, refusals_ms: int) -> Any:
        asked.append((given[-1], refusals_ms))
        return commit(*given, refusals_ms=refusals_ms)

    monkeypatch.setattr(sending, "commit_append", watched)
    with new_cluster("a") as cluster:
        cluster.create_topic("t", partitions=2)
        with cluster.producer(linger_ms=1) as producer:
            producer.send("t", "x", partition=0).result(60)
    assert asked == [(ATTEMPT_MS, SHORT_ATTEMPT_MS)]
