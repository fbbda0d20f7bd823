"""Upkeep of a simulated cluster: roll, retention, deletion, FLOOR and vacuum, snapshots and old blocks of the chain."""

from __future__ import annotations

from msgspec.structs import replace

from sparklog.chain.floor import time_shown
from sparklog.chain.old_entries import OldBlocks, OldEntries, PutMark, decide_blocks, deletion
from sparklog.chain.snapshot import snapshot
from sparklog.chain.snapshot.old_snapshots import decide_old, delete_old, find
from sparklog.core.commands import ConfirmDeleted, MoveLogStart, RaiseFloor, Submission
from sparklog.core.errors import KeyExists, SparklogError
from sparklog.core.maintenance.job_clock import job_time
from sparklog.core.maintenance.named_uploads import NamedUploads
from sparklog.core.maintenance.retention_rule import plan_retention
from sparklog.core.maintenance.retired_objects import due_for_deletion
from sparklog.core.maintenance.roll_rule import plan_roll
from sparklog.core.state import ClusterState
from sparklog.core.types import CommandId, EntryNumber, Offset, StoreId, UploadId
from sparklog.log.objects.object_deletion import ObjectToDelete, delete_objects
from sparklog.log.objects.orphans import OrphanSearch, search_orphans, topic_folders
from sparklog.log.rewrite.segment_roll import rewrite
from sparklog.maintenance import job_frame
from sparklog.maintenance.rewrite import roll_job
from sparklog.maintenance.rewrite.swapping import obstacle, segment_target
from sparklog.maintenance.space.vacuum_job import _topic_id
from sparklog.storage.keys import APPENDS, data_key
from tests.sim.process import Process, Steps, retried
from tests.sim.stores import META, PAPER, Call, Paper
from tests.sim.uploads import holders_among, put_on

FLOOR_LAG = 20  # entries
DIGITS = "0123456789abcdef"


def roller(process: Process) -> Steps:
    """Rolls what is due into segments."""
    return retried(process, lambda: _roll(process), 800)


def retention(process: Process) -> Steps:
    """Drops old segments, and deletes what was retired long enough ago."""
    return retried(process, lambda: _retain(process), 1_500)


def deleter(process: Process) -> Steps:
    """Deletes records below some offset."""
    return retried(process, lambda: _delete_records(process), 3_000)


def vacuum(process: Process) -> Steps:
    """Raises FLOOR, and deletes orphans below it."""
    return retried(process, lambda: _vacuum(process), 1_500)


def keeper(process: Process) -> Steps:
    """Writes snapshots, and deletes what is old of the chain."""
    return retried(process, lambda: _keep(process), 2_000)


# ---- roll -------------------------------------------------------------------------------------------


def _roll(process: Process) -> Steps:
    state = yield from process.catch_up()
    due = [
        segment
        for topic in state.topics.values()
        for partition in state.partitions_of(topic)
        for segment in plan_roll(state, topic, partition, process.now_ms(), everything=True)
        if obstacle(state, roll_job._key(segment)) is None
    ]
    if not due:
        return
    segment = process.dice.choice(due)
    slices = roll_job._slices(state, segment)
    assert slices is not None
    target = segment_target(state, roll_job._key(segment))
    n0 = process.position
    yield process.dice.choice((0, 20, 500, 1_500))
    paper, on_paper = Paper(), replace(target, holders=(PAPER,))
    new_upload_id = lambda: UploadId(process.new_id())  # noqa: E731
    rewritten = rewrite(slices, on_paper, process.stores, paper.lanes(), new_upload_id)  # type: ignore[arg-type]
    taken = yield from put_on(paper.objects, [each.store for each in target.holders])
    holders = yield from holders_among(state, taken)
    if holders:
        objects = tuple(replace(each, holders=tuple(holders)) for each in rewritten.objects)
        command = roll_job._command(segment, replace(rewritten, objects=objects))
        yield from process.commit(Submission(CommandId(process.new_id()), n0, command))
        process.world.rolled += 1


# ---- retention and deletion -------------------------------------------------------------------------


def _retain(process: Process) -> Steps:
    state = yield from process.catch_up()
    for topic in state.topics.values():
        for partition in state.partitions_of(topic):
            cut = plan_retention(state, topic, partition, process.now_ms())
            if cut is not None:
                yield from process.submit(MoveLogStart(topic.topic_id, partition.partition, cut.to))
    yield from delete_due(process, state)


def _delete_records(process: Process) -> Steps:
    state = yield from process.catch_up()
    if state.partitions:
        partition = state.partitions[process.dice.choice(sorted(state.partitions))]
        low, high = partition.log_start, partition.high_watermark
        to = Offset(low + int((high - low) * process.dice.random() ** 2))
        yield from process.submit(MoveLogStart(partition.topic_id, partition.partition, to))


def delete_due(process: Process, state: ClusterState) -> Steps:
    """Delete the retired objects whose delay has passed, and say so."""
    for retired in state.retired.of(due_for_deletion(state, job_time(state, process.now_ms()))[:20].tolist()):
        is_due = retired.delete_after_ms <= state.time_ms or not state.coordinator.in_force
        assert is_due, f"21: {retired} is deleted at {state.time_ms}"
        named = state.objects.get(retired.number)
        assert named is not None
        may_hold = dict.fromkeys([*(holder.store for holder in named.holders), *retired.stores])
        stores = tuple(store for store in may_hold if store in state.stores)
        order = ObjectToDelete(retired.number, data_key(named, retired.topic), stores, named.size_bytes)
        deleted = delete_objects([order], process.stores)  # type: ignore[arg-type]
        yield 1
        if deleted.numbers:
            yield from process.submit(ConfirmDeleted(deleted.numbers))


# ---- FLOOR and vacuum -------------------------------------------------------------------------------


def _vacuum(process: Process) -> Steps:
    state = yield from process.catch_up()
    floor = EntryNumber(max(state.floor, state.n - FLOOR_LAG))
    if floor > state.floor:
        shown_ms = process.now_ms()
        if job_frame._expires(state, shown_ms):
            shown_ms = time_shown(process.view(META), state.n + 1, shown_ms)
        yield from process.submit(RaiseFloor(floor, shown_ms=shown_ms))
        state = yield from process.catch_up()
    named = NamedUploads(state)
    for store in state.stores:
        digits = process.dice.choice(DIGITS)
        searches = [OrphanSearch(store, f"{APPENDS}{digits}", floor, named.of_appends(digits).tobytes())]
        searches += _segment_searches(process, state, store, floor, named)
        for search in searches:
            yield process.dice.choice((0, 5, 300))
            found = search_orphans(search, process.view(store), delete=True)
            process.world.vacuumed += found.deleted


def _segment_searches(
    process: Process, state: ClusterState, store: StoreId, floor: EntryNumber, named: NamedUploads
) -> list[OrphanSearch]:
    searches = []
    try:
        for folder in topic_folders(process.view(store)):
            topic_id = _topic_id(folder)
            if topic_id is not None:
                searches.append(OrphanSearch(store, folder, floor, named.of_topic(topic_id).tobytes()))
    except SparklogError:
        pass
    return searches


# ---- the chain --------------------------------------------------------------------------------------


def _keep(process: Process) -> Steps:
    state = yield from process.catch_up()
    head, view = process.head, process.view(META)
    prepared = snapshot.prepare(state.fork(), head.entry_hash, {})
    for key, body in snapshot.objects_of(prepared):
        (reply,) = yield [Call(META, "put", key, bytes(body))]
        if not isinstance(reply, KeyExists | None):
            return
    if snapshot.missing_chunks(view, prepared.manifest):
        return
    found = find(view)
    yield process.dice.choice((0, 20))
    delete_old(view, found, decide_old(found))
    yield from _delete_blocks(process, decide_blocks(found))


def _delete_blocks(process: Process, old: OldBlocks) -> Steps:
    """Delete old blocks of entries as vacuum does, one entry at a time."""
    for change in deletion(process.view(META), old):
        match change:
            case PutMark():
                (reply,) = yield [Call(META, "put", change.key, change.body)]
                if not isinstance(reply, KeyExists | None):
                    return
                process.world.marked += reply is None
            case OldEntries():
                for stored in change.entries:
                    yield [Call(META, "delete", stored.key)]
