"""Clusters whose chain is long enough for vacuum to delete old entries: with small blocks, and copies on request."""

from __future__ import annotations

import pytest

import sparklog
from sparklog.chain.follow import catch_up
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.storage import keys
from sparklog.storage.keys import LOG, SNAPSHOTS, VOID, parse_entry_key
from sparklog.storage.object_store import ObjectStore
from tests.maintenance.maintained_log import DAY_MS, MaintainedLog

BLOCK = 8  # entries
OLD_MS = 8 * DAY_MS  # how far --now is ahead of the clock, so that FLOOR passes what was written
STORES = ("a", "b")


def small_blocks(patch: pytest.MonkeyPatch) -> None:
    """Blocks of BLOCK entries in this process."""
    patch.setattr(keys, "ENTRIES_PER_BLOCK", BLOCK)
    patch.setattr(catch_up, "ROUND_ENTRIES", BLOCK)


def new_cluster(url: str, *, copies: bool = False) -> Cluster:
    """A cluster at `url`; with copies of its metadata on two stores beside it."""
    if copies:
        name = url.rpartition("/")[2]
        stores = {store: f"../{name}-{store}" for store in STORES}  # relative: tests copy the whole cluster
        init_cluster(url, stores=stores, config={"metadata.copies": 2})
    else:
        init_cluster(url)
    return sparklog.connect(url)


def grow(log: MaintainedLog) -> None:
    """Write so much that vacuum may delete three blocks, and fewer snapshots than there are stay."""
    log.topic("t")
    snapshots = log.cluster.connection.committer.snapshots
    while log.cluster.connection.follower.state.n < 3 * BLOCK:
        log.append("t", 0, 1)
    snapshots.write()
    log.vacuum(now_ms=log.clock.at_ms + OLD_MS)  # FLOOR rises to here, and nothing goes yet
    while log.cluster.connection.follower.state.n < 5 * BLOCK:
        log.append("t", 0, 1)
    for _ in range(3):
        log.append("t", 0, 1)
        snapshots.write()


def entries(store: ObjectStore) -> list[int]:
    """The entries that there are."""
    return [int(parse_entry_key(stored.key)) for stored in store.list_keys(LOG)]


def counts(store: ObjectStore) -> tuple[int, int]:
    """How many snapshots and marks of blocks there are."""
    return len(list(store.list_keys(SNAPSHOTS))), len(list(store.list_keys(VOID)))
