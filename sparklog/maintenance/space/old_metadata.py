"""The part of vacuum that keeps the metadata small: it deletes old entries, old snapshots, and what only they name.

    for the metadata, and for its copies on each store: find snapshots -> plan -> find them again -> delete snapshots,
    chunks and bodies -> delete blocks of entries (`chain/snapshot/old_snapshots.py`, `chain/old_entries.py`)

In each place, only the snapshots there decide what is old there. So even if this run is killed, the cluster can still
be restored from any store with copies: the store has the snapshots that stay, and every entry after the oldest of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from sparklog.chain.mirror.mirror_place import MirrorPlace
from sparklog.chain.old_entries import OldBlocks, OldEntries, blocks_found, decide_blocks, delete_blocks
from sparklog.chain.owner import check_owner
from sparklog.chain.snapshot.old_snapshots import Found, Old, decide_old, delete_old, find
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.describe.readable import counted
from sparklog.core.errors import SparklogError
from sparklog.maintenance.job_frame import JobFrame
from sparklog.maintenance.job_report import PartitionResult, Work, WorkOutcome, total
from sparklog.storage.keys import block_entries
from sparklog.storage.object_store import ObjectStore


class _Place(msgspec.Struct, frozen=True):
    """A place with metadata: the cluster's own, or the copies on one store.

    `check` raises an error if nothing may be deleted there.
    """

    name: str
    open: Callable[[], ObjectStore]
    check: Callable[[], None] = lambda: None


def plan_old_metadata(frame: JobFrame) -> list[PartitionResult]:
    """Return the old metadata to delete: that of the cluster itself, and that in the copies on each store.

    Each of these places has one row for old snapshots and one for old entries, if there are any. A place that can't be
    read has a failed row.
    """
    rows = []
    for place in _places(frame):
        try:
            store = place.open()
            snapshots = find(store)
            rows += [_snapshots_row(place, decide_old(snapshots)), _planned_entries(place, store, snapshots)]
        except SparklogError as error:
            rows.append(
                PartitionResult(place.name, None, None, "can't be read", Work()).noted(WorkOutcome.FAILED, str(error))
            )
    return _due(rows)


def delete_old_metadata(frame: JobFrame, planned: Sequence[PartitionResult]) -> list[PartitionResult]:
    """Decide again which metadata is old, and delete it. Returns rows like those in `planned`, with the work done.

    The plan is not relied on: a snapshot written since then may name objects that were old at that time.
    """
    rows = []
    plans = {row.place: row for row in planned}
    for place in _places(frame):
        row = PartitionResult(place.name, None, None, "can't be read", Work())
        try:
            store = place.open()
            snapshots = find(store)
            place.check()
            row = _snapshots_row(place, old := decide_old(snapshots))
            deleted = delete_old(store, snapshots, old)
            done = Work(deleted.objects, 0, deleted.size_bytes, deleted.objects)
            outcome = WorkOutcome.FAILED if deleted.failed else WorkOutcome.DONE
            rows.append(msgspec.structs.replace(row, done=done, outcome=outcome, messages=deleted.errors))
            blocks = decide_blocks(snapshots)
            row = _entries_row(place, blocks, ())
            rows.append(_delete_entries(frame, place, store, blocks, plans.get(row.place, row)))
        except SparklogError as error:
            rows.append(row.noted(WorkOutcome.FAILED, str(error)))
    return _due(rows)


def _places(frame: JobFrame) -> Iterator[_Place]:
    """Yield the metadata itself, then each store that may have copies of it, except fenced stores."""
    root = frame.connection.follower.store
    yield _Place("metadata", lambda: root)
    state = frame.connection.newest_state()
    if not effective_cluster(state.config).metadata_copies:
        return
    stores = frame.connection.stores(state)
    for name in sorted(state.registrations()):
        yield _Place(
            f"{name}:copies",
            lambda name=name: MirrorPlace(stores.get(name), state.chain_id),  # type: ignore[misc]
            lambda name=name: check_owner(stores.get(name), len(state.ancestors)),  # type: ignore[misc]
        )


def _snapshots_row(place: _Place, old: Old) -> PartitionResult:
    text = f"{counted(len(old.manifests), 'snapshot')}, {counted(len(old.chunks), 'chunk')} and "
    text += f"{counted(len(old.bodies), 'large command')} that nothing reads any more"
    count = len(old.in_order())
    planned = Work(count, 0, sum(block.size_bytes for block in old.in_order()), count)
    return PartitionResult(f"{place.name}:old", None, None, text, planned)


def _planned_entries(place: _Place, store: ObjectStore, snapshots: Found) -> PartitionResult:
    old = decide_blocks(snapshots)
    return _entries_row(place, old, blocks_found(store, old.end))


def _entries_row(place: _Place, old: OldBlocks, blocks: Iterable[OldEntries]) -> PartitionResult:
    text = f"entries before {block_entries(old.end).start:,}: FLOOR and the snapshots that stay have passed them"
    return PartitionResult(f"{place.name}:entries", None, None, text, total(map(_work, blocks)))


def _work(entries: OldEntries) -> Work:
    return Work(len(entries.entries), 0, entries.size_bytes, entries.requests)


def _delete_entries(
    frame: JobFrame, place: _Place, store: ObjectStore, old: OldBlocks, row: PartitionResult
) -> PartitionResult:
    done, error = Work(), None
    try:
        for deleted in delete_blocks(store, old, place.check):
            done += _work(deleted)
            frame.output.progress(f"old entries deleted, {place.name}", done.objects, row.planned.objects)
    except SparklogError as failure:  # the next run continues there
        error = failure
    row = msgspec.structs.replace(row, done=done, outcome=WorkOutcome.DONE)
    return row if error is None else row.noted(WorkOutcome.FAILED, str(error))


def _due(rows: list[PartitionResult]) -> list[PartitionResult]:
    """Drop the rows without work and without a failure. Return the others with `is_metadata` set."""
    return [
        msgspec.structs.replace(row, is_metadata=True)
        for row in rows
        if row.planned.objects or row.done.objects or row.outcome is WorkOutcome.FAILED
    ]
