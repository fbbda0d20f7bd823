"""The compaction job: the log keeps the last record of each key.

    plan -> shuffle the keys, rewrite the stretches (`compaction_tasks.py`) -> one swap per stretch -> move the cleaner

Each swap is correct by itself: it drops a record only if a later record of its key stays, or if it is a tombstone that
may be dropped. So a run may be killed between two swaps, or overlap with another run. The cleaner's position moves only
after all swaps.

Meanwhile, records may be deleted (retention, delete-records). A swap that begins below the new log start is refused. A
stretch that lies wholly below it needs no swap any more. If a stretch is deleted in part, the rest is planned again in
the same run. Otherwise a compaction that meets such a deletion in every run would never finish.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, Unpack

import msgspec

from sparklog.chain.commit.committer import new_command_id
from sparklog.core.commands import MoveCleaner, Submission, Swap
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.errors import Landed, PolicyViolation, SparklogError, SwapRefused, UnknownTopicOrPartition
from sparklog.core.maintenance.compaction_rule import PartitionToCompact, plan_compaction
from sparklog.core.reading.plan import RangeToRead, WeighedRange, pack, plan_range, slices_to_read
from sparklog.core.state import ClusterState
from sparklog.core.tables.slice_table import SliceColumns
from sparklog.core.types import OffsetRange, TopicPartition
from sparklog.log.rewrite.segment_roll import reads_of
from sparklog.maintenance.job_frame import JobFrame, JobOptions, run_job
from sparklog.maintenance.job_report import Compacted, JobReport, PartitionResult, Work, WorkOutcome
from sparklog.maintenance.rewrite.compaction_swaps import (
    Stretch,
    between_gaps,
    rewritten_anyway,
    swaps_of,
    without_spares,
)
from sparklog.maintenance.rewrite.compaction_tasks import (
    KeyShuffle,
    KeysOrder,
    RewriteOrder,
    StretchOutcome,
    rewrite_anyway,
)
from sparklog.maintenance.rewrite.swapping import obstacle, segment_target, still_there
from sparklog.maintenance.task_runner import packs

READ_BYTES = 64 << 20  # stored bytes whose keys one task reads
ROUND_STRETCHES = 400  # partitions share a shuffle up to this many stretches
MOST_PLANS = 3  # of a partition in a run
_CHAIN_REQUESTS = 2  # put the entry, look for its void mark


def run_compaction(
    cluster_url: str, *, shuffle: KeyShuffle, everything: bool = False, **options: Unpack[JobOptions]
) -> JobReport:
    """Compact the partitions that are due; with `everything`, also those that `min.cleanable.dirty.ratio` defers.

    Raises UnknownTopicOrPartition, ClusterNotFound, and any error of reading the chain.
    """
    return run_job(CompactionJob(shuffle, everything=everything), cluster_url, **options)


class _Ordered(NamedTuple):
    """A partition in a shuffle: its plan and, for each of its stretches, the order to rewrite it and its range."""

    planned: PartitionToCompact
    rewrites: list[RewriteOrder]
    ranges: list[RangeToRead]


class CompactionJob:
    """Plans and does the work of `run_compaction`, as a `job_frame.Job`."""

    name = "compaction"
    unit = "segments"
    notes = ()

    def __init__(self, shuffle: KeyShuffle, *, everything: bool) -> None:
        self._shuffle = shuffle
        self._everything = everything
        self._due: list[PartitionToCompact] = []
        self._rows: dict[TopicPartition, PartitionResult] = {}
        self._again: list[PartitionToCompact] = []  # planned again, because they lost records since their plan

    def plan(self, frame: JobFrame) -> list[PartitionResult]:
        """Return a row for each partition that is due.

        If a partition's swaps would be refused now, its row is postponed and has no work.
        """
        state = frame.connection.newest_state()
        clock_ms = frame.job_time(state)
        for topic in frame.chosen_topics(state):
            for partition in state.partitions_of(topic):
                due = plan_compaction(state, topic, partition, frame.now_ms, clock_ms, everything=self._everything)
                if due is not None:
                    self._rows[_key(due)] = self._planned(state, due)
        return list(self._rows.values())

    def _planned(self, state: ClusterState, due: PartitionToCompact) -> PartitionResult:
        index = due.partition.partition
        row = PartitionResult(f"{due.topic}-{index}", due.topic, index, due.reason, Work())
        refusal = obstacle(state, _key(due))
        if refusal is not None:
            reason, messages = f"left for later: {refusal.message}", (str(refusal),)
            return msgspec.structs.replace(row, reason=reason, outcome=WorkOutcome.POSTPONED, messages=messages)
        self._due.append(due)
        whole = due.stretches.sums()
        requests = 2 * whole.segments + 2 * len(due.stretches) * len(due.partition.replication.isr)
        return msgspec.structs.replace(row, planned=Work(whole.segments, whole.records, whole.size_bytes, requests))

    def execute(self, frame: JobFrame) -> list[PartitionResult]:
        """Compact the partitions that are due. One shuffle reads the keys of many partitions."""
        compacted = 0
        for round_ in packs(self._due, (lambda due: len(due.stretches), ROUND_STRETCHES)):
            self._again = list(round_)
            for _ in range(MOST_PLANS):
                due, self._again = self._again, []
                self._compact(frame, due)
            compacted += len(round_)
            frame.output.progress("partitions compacted", compacted, len(self._due))
        return list(self._rows.values())

    def _compact(self, frame: JobFrame, round_: Sequence[PartitionToCompact]) -> None:
        state = frame.connection.newest_state()
        ordered = [order for due in round_ if (order := self._order(frame, state, due)) is not None]
        reads = _reads(frame, state, ordered) if ordered else []
        if not ordered:
            return
        rewrites = [msgspec.msgpack.encode(rewrite) for order in ordered for rewrite in order.rewrites]
        try:
            results = iter(self._shuffle.run(reads, rewrites))
        except SparklogError as error:
            if len(ordered) > 1:  # one failure must not stop the others
                for order in ordered:
                    self._compact(frame, [order.planned])
            else:
                self._fail(frame, ordered[0], str(error))
            return
        moves = []
        for order in ordered:
            outcomes = [msgspec.msgpack.decode(next(results), type=StretchOutcome) for _ in order.rewrites]
            move = self._swap(frame, order, outcomes)
            if move is not None:
                moves.append((order.planned, move))
        for (planned, _), result in zip(moves, frame.commit_all([move for _, move in moves]), strict=True):
            if isinstance(result, SwapRefused | UnknownTopicOrPartition):
                self._note(planned, WorkOutcome.OVERTAKEN, str(result))
            elif isinstance(result, SparklogError):
                self._note(planned, WorkOutcome.FAILED, str(result))
            else:
                self._note(planned, WorkOutcome.DONE)

    def _order(self, frame: JobFrame, state: ClusterState, due: PartitionToCompact) -> _Ordered | None:
        """Return the orders for a partition's rewrites.

        Returns None if its segments changed since the plan, or if its swaps would be refused now. The partition's row
        then says so, and a changed partition may be planned again.
        """
        key = _key(due)
        slices = _still_there(state, due)
        if slices is None:
            self._note(due, WorkOutcome.OVERTAKEN, "its segments were changed since they were planned")
            self._plan_again(frame, state, due)
            return None
        refusal = obstacle(state, key)
        if refusal is not None:
            self._note(due, WorkOutcome.POSTPONED, str(refusal))
            return None
        position = due.partition.log_start if due.cleaner is None else due.cleaner.position
        edges = pairwise(accumulate((part.segments for part in due.stretches), initial=0))
        rewrites = [
            RewriteOrder(
                frame.connection.addresses(state),
                slices_to_read(state, state.partitions[key], slices.rows(low, high)),
                part.records,
                segment_target(state, key),
                position,
                due.tombstones_below,
                {store.store: store.incarnation for store in state.stores.values()},
                effective_cluster(state.config).replica_lag_time_max_ms,
            )
            for part, (low, high) in zip(due.stretches, edges, strict=True)
        ]
        topic = state.topics[key.topic_id]
        ranges = [plan_range(state, topic, key.partition, OffsetRange(part.start, part.end)) for part in due.stretches]
        return _Ordered(due, rewrites, ranges)

    def _swap(self, frame: JobFrame, order: _Ordered, outcomes: Sequence[StretchOutcome]) -> MoveCleaner | None:
        """Swap in the rewritten stretches of a partition, and return the command that moves its cleaner.

        Returns None if a rewrite failed, or if a swap was refused. But if swaps were refused only because all their
        records had been deleted, the cleaner moves, so the command is returned.
        """
        planned, key = order.planned, _key(order.planned)
        errors = [outcome.error for outcome in outcomes if outcome.error]
        stretches = [Stretch(*part) for part in zip(order.rewrites, order.ranges, outcomes, strict=True)]
        runs = [without_spares(run) for run in between_gaps(stretches)]
        keeps_superseded = any(all(stretch.is_empty for stretch in run) for run in runs)
        if not errors:
            errors = self._rewrite_anyway(frame, runs)
        if errors:
            self._fail(frame, order, "; ".join(dict.fromkeys(errors)))
            return None
        n0 = order.rewrites[0].target.n0
        swaps = [swap for run in runs for swap in swaps_of(key, run)]
        submissions = [Submission(new_command_id(), n0, swap) for swap in swaps]
        refused: list[Swap] = []
        others = False
        for swap, result in zip(swaps, frame.submit_all(submissions), strict=True):
            if isinstance(result, SwapRefused | UnknownTopicOrPartition | PolicyViolation):  # or not compacted any more
                self._note(planned, WorkOutcome.OVERTAKEN, str(result))
            elif isinstance(result, SparklogError):
                state = frame.connection.newest_state()
                refusal = obstacle(state, key)
                postponed = refusal is not None and result.landed is Landed.NO
                self._note(planned, WorkOutcome.POSTPONED if postponed else WorkOutcome.FAILED, str(result))
            else:
                continue
            refused.append(swap)
            others |= not isinstance(result, SwapRefused)
        if len(refused) < len(swaps) or not swaps:
            self._count(order, [stretch.outcome for run in runs for stretch in run], refused)
        if refused:
            self._note(planned, None, f"{len(swaps) - len(refused)} of {len(swaps)} rewrites took effect")
            state = frame.connection.newest_state()
            partition = state.partitions.get(key)
            if others or partition is None or any(swap.end > partition.log_start for swap in refused):
                self._plan_again(frame, state, planned)
                return None
        position = None if planned.cleaner is None else planned.cleaner.position
        passes = any(outcome.passes_tombstones for outcome in outcomes)
        below = planned.tombstones_below
        return MoveCleaner(key.topic_id, key.partition, position, planned.end, below, passes, keeps_superseded)

    def _rewrite_anyway(self, frame: JobFrame, runs: Sequence[list[Stretch]]) -> list[str]:
        """Rewrite some stretches although they stay unchanged or keep no record. Return the errors.

        A stretch that keeps no record gets no slice, so a new slice beside it must also cover its offsets. In each run
        of neighbouring stretches (`runs`), `rewritten_anyway` chooses the stretches that get such a new slice. Their
        new outcomes replace the old ones in `runs`.
        """
        numbers = [(run, number) for run in runs for number in rewritten_anyway(run)]
        payloads = [
            msgspec.msgpack.encode((run[number].order, run[number].range, run[number].is_empty))
            for run, number in numbers
        ]
        try:
            bodies = frame.tasks.run(rewrite_anyway, payloads)
        except SparklogError as error:
            return [str(error)]
        errors = []
        for (run, number), body in zip(numbers, bodies, strict=True):
            outcome = msgspec.msgpack.decode(body, type=StretchOutcome)
            superseded = max(0, run[number].outcome.superseded - outcome.kept)
            run[number] = run[number]._replace(outcome=msgspec.structs.replace(outcome, superseded=superseded))
            errors += [outcome.error] if outcome.error else []
        return errors

    def _plan_again(self, frame: JobFrame, state: ClusterState, due: PartitionToCompact) -> None:
        """Plan a partition once more in this run, if its log start rose since the plan.

        If it did not, the partition is left to a later run.
        """
        partition = state.partitions.get(_key(due))
        if partition is not None and partition.log_start > due.partition.log_start:
            topic, clock_ms = state.topics[partition.topic_id], frame.job_time(state)
            again = plan_compaction(state, topic, partition, frame.now_ms, clock_ms, everything=True)
            self._again += [] if again is None else [again]

    def _fail(self, frame: JobFrame, order: _Ordered, message: str) -> None:
        state = frame.connection.newest_state()
        unchanged = _still_there(state, order.planned) is not None
        self._plan_again(frame, state, order.planned)
        self._note(order.planned, WorkOutcome.FAILED if unchanged else WorkOutcome.OVERTAKEN, message)

    def _note(self, planned: PartitionToCompact, outcome: WorkOutcome | None, *messages: str) -> None:
        """Add messages to the partition's row, and set its outcome (None: unchanged). A failure stays a failure."""
        self._rows[_key(planned)] = self._rows[_key(planned)].noted(outcome, *messages)

    def _count(self, order: _Ordered, every: Sequence[StretchOutcome], refused: Sequence[Swap]) -> None:
        """Add the work done to the partition's row. For stretches of the `refused` swaps, only requests are counted."""
        uploads = sum(len(outcome.rewritten.objects) for outcome in every if outcome.rewritten is not None)
        parts = [
            (part, outcome)
            for part, outcome in zip(order.planned.stretches, every, strict=True)
            if not any(swap.start <= part.start < swap.end for swap in refused)
        ]
        outcomes = [outcome for _, outcome in parts]
        landed = [outcome.rewritten for outcome in outcomes if outcome.rewritten is not None]
        written_bytes = sum(slice_.new.length for rewritten in landed for slice_ in rewritten.slices)
        compacted = Compacted(
            sum(part.records for part, _ in parts),
            sum(outcome.kept for outcome in outcomes),
            sum(part.size_bytes for part, _ in parts),
            sum(part.size_bytes for part, outcome in parts if outcome.unchanged) + written_bytes,
            sum(outcome.superseded for outcome in outcomes),
            sum(outcome.tombstones for outcome in outcomes),
            sum(outcome.keyless for outcome in outcomes),
        )
        kept = sum(outcome.kept for outcome in outcomes if outcome.rewritten is not None)
        reads = sum(2 * reads_of(rewrite.slices) for rewrite in order.rewrites)
        writes = 2 * uploads * len(order.planned.partition.replication.isr)
        objects = sum(len(rewritten.objects) for rewritten in landed)
        done = Work(objects, kept, written_bytes, reads + writes + _CHAIN_REQUESTS)
        key = _key(order.planned)
        row = self._rows[key]
        if row.compacted is not None:  # by an earlier plan of this run
            done, compacted = row.done + done, row.compacted.then(compacted)
        self._rows[key] = msgspec.structs.replace(row, done=done, compacted=compacted)


def _reads(frame: JobFrame, state: ClusterState, ordered: Sequence[_Ordered]) -> list[bytes]:
    """Return KeysOrders in MessagePack: the ranges whose keys are read, in tasks of about READ_BYTES.

    Large stretches are cut, and small ones share a task.
    """
    addresses = frame.connection.addresses(state)
    weighed = [
        (log, WeighedRange(planned.topic_id, planned.partition, planned.start, planned.end, part.size_bytes))
        for log, order in enumerate(ordered)
        for part, planned in zip(order.planned.stretches, order.ranges, strict=True)
    ]
    stretches = enumerate(weighed)
    stretch, (log, whole) = next(stretches)
    payloads = []
    for task in pack([whole for _, whole in weighed], READ_BYTES):
        ranges = []
        for piece in task:
            while (piece.topic_id, piece.partition) != (whole.topic_id, whole.partition) or piece.end > whole.end:
                stretch, (log, whole) = next(stretches)
            topic, offsets = state.topics[piece.topic_id], OffsetRange(piece.start, piece.end)
            ranges.append((log, stretch, plan_range(state, topic, piece.partition, offsets)))
        payloads.append(msgspec.msgpack.encode(KeysOrder(addresses, tuple(ranges))))
    return payloads


def _still_there(state: ClusterState, planned: PartitionToCompact) -> SliceColumns | None:
    """Return the segments of all stretches; None if the log has other segments there than planned."""
    whole = planned.stretches.sums()
    return still_there(state, _key(planned), OffsetRange(whole.start, whole.end), planned.digest)


def _key(planned: PartitionToCompact) -> TopicPartition:
    return TopicPartition(planned.partition.topic_id, planned.partition.partition)
