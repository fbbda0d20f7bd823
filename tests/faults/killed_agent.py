"""Runs the agent of a store that kills its process at one change of a store; see `killed_runs`.

Arguments: step, url. The agent of store c catches up once, and dies before its `step`-th change. It calls `note` for
each change that it comes to.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import sparklog
from sparklog.agent.run import AgentRun
from sparklog.core.types import StoreId
from sparklog.storage.local.upload import LocalUpload
from tests.faults.deadly_calls import every_change, import_clients, kill_at
from tests.faults.killed_runs import serve


def run_until_killed(note: Callable[[], object], step: int, url: str) -> int:
    os.fsync = lambda fd: None
    kill_at((*every_change(url), (LocalUpload, "copy")), "before", step, reads=False, counted=note)
    with sparklog.connect(url) as cluster:
        AgentRun(cluster.connection, StoreId("c"), lambda note: None, once=True).run()
    return 0


if __name__ == "__main__":
    import_clients()
    serve(run_until_killed)
