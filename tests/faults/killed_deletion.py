"""Runs `delete_records` in a process that kills itself at one change of the store; see `killed_runs`.

Arguments: offsets by partition (as text, the keys of JSON), step, url. It dies before its `step`-th change, and calls
`note` for each change that it comes to.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from unittest.mock import patch

from sparklog.client import delete_records
from sparklog.client.cluster import connect
from tests.faults.deadly_calls import every_change, kill_at
from tests.faults.killed_runs import serve

TOPIC = "t"


def run_until_killed(note: Callable[[], object], offsets: Mapping[str, int], step: int, url: str) -> int:
    """One commit after the other: whether commands that wait at the same time share an entry is a matter of luck."""
    os.fsync = lambda fd: None
    commit_many = delete_records.commit_many
    kill_at(every_change(url), "before", step, reads=False, counted=note)
    with (
        patch.object(delete_records, "commit_many", lambda commit, items: commit_many(commit, items, 1)),
        connect(url) as cluster,
    ):
        cluster.delete_records(TOPIC, {int(partition): offset for partition, offset in offsets.items()})
    return 0


if __name__ == "__main__":
    serve(run_until_killed)
