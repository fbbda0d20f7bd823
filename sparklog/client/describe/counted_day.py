"""Estimates the work of a cluster in the last day, from the entries of its chain, and counts its stored bytes.

At most `SAMPLE` entries are read, evenly spread over the day: one GET for each, and about thirty GETs to find the first
entry of the day.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sparklog.chain.arrow_table import NoArrowTable
from sparklog.chain.commit.command_body import decode_body
from sparklog.chain.damaged_chain import damage
from sparklog.chain.follow.stored_entries import StoredEntry, stored_entry
from sparklog.chain.snapshot.snapshot_writer import SNAPSHOT_EVERY
from sparklog.client.connection import Connection
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.cost.request_costs import stored
from sparklog.core.cost.usage import EntryWork, Usage, WrittenObjects, written
from sparklog.core.errors import ChainDamaged, KeyNotFound
from sparklog.core.records import Appended, AppendedByReference, JobRan, SlicesSwapped
from sparklog.core.state import ClusterState
from sparklog.core.types import StoreId
from sparklog.storage.keys import command_key
from sparklog.storage.object_store import ObjectStore

SAMPLE: Final = 512
DAY_MS: Final = 86_400_000
_READ_WIDTH: Final = 16


def counted_day(connection: Connection, state: ClusterState, now_ms: int) -> Usage:
    """The estimated work of the 24 hours before `now_ms`, and the cluster's present size. Raises StoreUnavailable."""
    follower = connection.follower
    first = _first_since(follower.store, state, now_ms - DAY_MS)
    entries = state.n + 1 - first
    numbers = [first + at * entries // min(entries, SAMPLE) for at in range(min(entries, SAMPLE))]
    with ThreadPoolExecutor(_READ_WIDTH) as pool:
        sample = [entry for entry in pool.map(lambda n: _entry(follower.store, n), numbers) if entry is not None]
    zones = {store.store: store.zone for store in state.stores.values()}
    sampled = EntryWork()
    for entry in sample:
        sampled += _work(follower.store, entry, zones)
    work = sampled.times(entries / len(sample)) if sample else sampled
    kept = state.n + 1 - max(state.floor, state.first_entry)
    sizes = [entry.size_bytes for entry in sample or (_entry(follower.store, state.n),) if entry is not None]
    kept_bytes = kept * sum(sizes) // max(1, len(sizes))
    is_first = first == state.first_entry or _entry(follower.store, first - 1) is None  # no older one is there
    config = effective_cluster(state.config)
    copies = 0 if follower.mirrors is None else follower.mirrors.wanted(state)
    agents = [store for store in state.stores.values() if store.agent_up]
    return Usage(
        from_ms=sample[0].entry.time_ms if sample and is_first else now_ms - DAY_MS,
        to_ms=now_ms,
        work=work,
        sampled=len(sample),
        stored_bytes=_stored_bytes(state),
        metadata_bytes=kept_bytes * (1 + copies),
        copies=copies,
        agents=len(agents),
        coordinator_in_force=state.coordinator.in_force,
        snapshot_every=SNAPSHOT_EVERY,
        fetch_wait_ms=config.replica_fetch_wait_max_ms,
        rolled="roll" in state.jobs,
    )


def _first_since(store: ObjectStore, state: ClusterState, since_ms: int) -> int:
    """The number of the first entry written at `since_ms` or later; `state.n + 1` if there is none.

    Searches by bisection. An entry that was deleted or can't be read counts as older.
    """
    low, high = int(state.first_entry), state.n + 1
    while low < high:
        middle = (low + high) // 2
        entry = _entry(store, middle)
        if entry is None or entry.entry.time_ms < since_ms:
            low = middle + 1
        else:
            high = middle
    return low


def _entry(store: ObjectStore, n: int) -> StoredEntry | None:
    try:
        return stored_entry(store, n)
    except ChainDamaged:  # a snapshot covers it; sparklog job verify names it
        return None


def _work(store: ObjectStore, stored_: StoredEntry, zones: dict[StoreId, str]) -> EntryWork:
    """Return the work recorded in one entry. An object counts once for each holder. `zones`: the zone of each store."""
    work = EntryWork(1, stored_.size_bytes, int(stored_.entry.author.kind != "coordinator"))
    for command in stored_.entry.commands:
        for record in command.records:
            match record:
                case Appended():
                    objects = [named.object for named in record.objects]
                    work += EntryWork(appended=written(objects, len(record.slices), zones))
                case AppendedByReference():
                    key = command_key(command.n0, command.command_id, record.body)
                    work += EntryWork(
                        appended=_by_reference(store, key, record.slice_count, zones),
                        bodies=stored(record.body_size_bytes),
                    )
                case SlicesSwapped():
                    work += EntryWork(rewritten=written([named.object for named in record.objects], 0, zones))
                case JobRan():
                    work += EntryWork(job_runs=1)
                case _:
                    pass
    return work


def _by_reference(store: ObjectStore, key: str, slices: int, zones: dict[StoreId, str]) -> WrittenObjects:
    try:
        objects, _ = decode_body(store.get(key))
    except KeyNotFound:  # vacuum has deleted the body
        return WrittenObjects()
    except NoArrowTable as error:
        raise damage(key, str(error), store.url) from error
    return written(objects, slices, zones)


def _stored_bytes(state: ClusterState) -> dict[StoreId, int]:
    """Estimate the bytes of objects and indexes on each store.

    The size of a partition counts the batches of its log, but neither indexes nor the other bytes of objects. So the
    sizes of the store's partitions are summed and multiplied by a factor, the same for all stores. The factor is the
    size of all objects and indexes, divided by the size of all partitions. It counts each of them once, however many
    stores have it.
    """
    sizes = dict.fromkeys(state.stores.keys(), 0)
    once = 0
    for partition in state.partitions.values():
        once += partition.size_bytes
        for store in partition.replication.replicas:
            sizes[store] = sizes.get(store, 0) + partition.size_bytes
    share = state.objects.total_bytes() / once if once else 0.0
    return {store: round(share * size) for store, size in sizes.items()}
