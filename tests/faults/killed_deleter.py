"""Runs a vacuum that kills its process before one of its changes; see `killed_runs`. Blocks of the chain are small.

Arguments: clock_ms, step, url. It calls `note` for each change that it comes to.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sparklog.storage.hdfs.store import HdfsStore
from sparklog.storage.local.store import LocalStore
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.s3.store import S3Store
from tests.faults.deadly_calls import every_change, import_clients, kill_at
from tests.faults.killed_maintenance import run
from tests.faults.killed_runs import serve
from tests.maintenance.old_chain import small_blocks

STORES = (LocalStore, HdfsStore, S3Store)


def one_by_one(store: ObjectStore, keys: Sequence[str]) -> None:
    """Delete as a store without bulk deletion does, so that the process can die between two entries."""
    for key in keys:
        store.delete(key)


def run_until_killed(note: Callable[[], object], clock_ms: int, step: int, url: str) -> int:
    os.fsync = lambda fd: None
    patch: Any = pytest.MonkeyPatch()
    small_blocks(patch)
    for kind in STORES:
        patch.setattr(kind, "delete_many", one_by_one)
    kill_at(every_change(url), "before", step, reads=False, counted=note)
    return run("vacuum", clock_ms, clock_ms, url)


if __name__ == "__main__":
    import_clients()
    serve(run_until_killed)
