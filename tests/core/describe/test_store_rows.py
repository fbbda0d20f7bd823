"""The rows of stores."""

from __future__ import annotations

from sparklog.core.describe.store_rows import store_rows
from sparklog.core.placement.counts import replica_counts
from tests.core.describe.test_topic_rows import log
from tests.core.replicated_log import ReplicatedLog

__all__ = ["log"]


def test_the_use_of_stores_counts_what_their_replicas_hold(log: ReplicatedLog) -> None:
    log.write("abc", 2)
    log.write("ab", 2)
    rows = store_rows(log.state, replica_counts(log.state), lambda url: f"seen from here: {url}")
    assert {row.store: (row.replicas, row.leaders, row.behind, row.lag_records) for row in rows} == {
        "a": (3, 2, 0, 0),
        "b": (3, 1, 0, 0),
        "c": (2, 0, 1, 2),
        "d": (0, 0, 0, 0),
    }
    a, b, c, d = (row.size_bytes for row in rows)
    assert a == b == 2 * c > d == 0
    assert {row.url for row in rows} == {f"seen from here: {store.url}" for store in log.state.stores.values()}
