"""Compaction of a simulated cluster: the plan, the segments and the swaps are those of the real job.

Its shuffle is a dictionary here. Values are never null, so no tombstone goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from sparklog.core.commands import MoveCleaner, Submission
from sparklog.core.maintenance.compaction_rule import PartitionToCompact, plan_compaction
from sparklog.core.reading.plan import RangeToRead, plan_range, slices_to_read
from sparklog.core.state import ClusterState
from sparklog.core.types import CommandId, Offset, OffsetRange, TopicPartition, UploadId
from sparklog.log.cluster_stores import StoreAddresses
from sparklog.log.read.scan import scan
from sparklog.log.rewrite.segment_compaction import compact
from sparklog.log.write.segments_writer import Rewritten
from sparklog.maintenance.rewrite.compaction_swaps import Stretch, between_gaps, rewritten_anyway, swaps_of
from sparklog.maintenance.rewrite.compaction_tasks import RewriteOrder, StretchOutcome
from sparklog.maintenance.rewrite.swapping import obstacle, segment_target
from tests.sim.process import Process, Steps, retried
from tests.sim.stores import PAPER, Paper
from tests.sim.uploads import holders_among, put_on

_ADDRESSES = StoreAddresses("memory://nowhere", {})  # stores are the process's own here


class _Part(NamedTuple):
    """A stretch, and the offsets of its records of which no later one has the key."""

    stretch: Stretch
    kept: Sequence[int]


def compactor(process: Process) -> Steps:
    """Compacts one partition after the other."""
    return retried(process, lambda: _compact(process), 600)


def _compact(process: Process) -> Steps:
    state = yield from process.catch_up()
    now_ms = process.now_ms()
    planned = [
        due
        for topic in state.topics.values()
        for partition in state.partitions_of(topic)
        if (due := plan_compaction(state, topic, partition, now_ms, now_ms, everything=True)) is not None
        and obstacle(state, _key(due)) is None
    ]
    if not planned:
        return
    due = process.dice.choice(planned)
    yield process.dice.choice((0, 20, 500, 1_500))
    parts = _shuffled(process, state, due)
    yield process.dice.choice((0, 20, 500))
    runs = between_gaps([part.stretch for part in parts])
    kept = {part.stretch.range.start: part.kept for part in parts}
    done: list[list[Stretch]] = []
    for run in runs:
        anyway = rewritten_anyway(run)
        done.append([])
        for number, stretch in enumerate(run):
            done[-1].append((yield from _rewritten(process, state, stretch, kept, anyway=number in anyway)))
    for run in done:
        for swap in swaps_of(_key(due), run):
            n0 = run[0].order.target.n0
            yield from process.commit(Submission(CommandId(process.new_id()), n0, swap))
            process.world.compacted += 1
    position = None if due.cleaner is None else due.cleaner.position
    key = _key(due)
    yield from process.submit(MoveCleaner(key.topic_id, key.partition, position, due.end, due.tombstones_below, False))


def _shuffled(process: Process, state: ClusterState, due: PartitionToCompact) -> list[_Part]:
    """Read the keys of all stretches; of each key the last record is kept."""
    key, topic = _key(due), state.topics[due.partition.topic_id]
    position = due.partition.log_start if due.cleaner is None else due.cleaner.position
    last: dict[bytes, int] = {}
    stretches = []
    for part in due.stretches:
        offsets = OffsetRange(part.start, part.end)
        plan = plan_range(state, topic, key.partition, offsets)
        for batch in scan(plan, process.stores, ("offset", "key"), _as_planned):  # type: ignore[arg-type]
            last.update(zip(batch.column(1).to_pylist(), batch.column(0).to_pylist(), strict=True))
        order = RewriteOrder(
            _ADDRESSES,
            slices_to_read(state, due.partition, state.slices.find(key, offsets)),
            part.records,
            segment_target(state, key),
            position,
            due.tombstones_below,
            {},
            0,
        )
        stretches.append(Stretch(order, plan, StretchOutcome()))
    parts = []
    for stretch in stretches:
        kept = sorted(offset for offset in last.values() if stretch.range.start <= offset < stretch.range.end)
        unchanged = len(kept) == stretch.order.records and len(stretch.order.slices) == 1
        parts.append(_Part(stretch._replace(outcome=StretchOutcome(unchanged=unchanged)), kept))
    return parts


def _rewritten(
    process: Process, state: ClusterState, stretch: Stretch, kept: dict[Offset, Sequence[int]], *, anyway: bool
) -> Steps:
    """Upload the segments of a stretch that keeps something and not everything, or that is to cover its neighbours."""
    chosen = kept[stretch.range.start]
    if not chosen or (stretch.outcome.unchanged and not anyway):
        return stretch
    order = stretch.order
    paper, on_paper = Paper(), replace(order.target, holders=(PAPER,))
    new_upload_id = lambda: UploadId(process.new_id())  # noqa: E731
    offsets = np.array(chosen, np.int64)
    rewritten: Rewritten = compact(order.slices, offsets, on_paper, process.stores, paper.lanes(), new_upload_id)  # type: ignore[arg-type]
    taken = yield from put_on(paper.objects, [holder.store for holder in order.target.holders])
    holders = yield from holders_among(state, taken)
    objects = tuple(replace(each, holders=tuple(holders)) for each in rewritten.objects)
    return stretch._replace(outcome=StretchOutcome(rewritten=replace(rewritten, objects=objects)))


def _as_planned(plan: RangeToRead, at: int) -> RangeToRead:
    return plan


def _key(due: PartitionToCompact) -> TopicPartition:
    return TopicPartition(due.partition.topic_id, due.partition.partition)
