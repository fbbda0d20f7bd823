"""The roll job: rewrites append objects into sealed segments, one swap per segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import msgspec

from sparklog.chain.commit.committer import new_command_id
from sparklog.core.commands import Submission, Swap
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.errors import Landed, SparklogError, SwapRefused, UnknownTopicOrPartition
from sparklog.core.maintenance.roll_rule import MOST_SLICES, SegmentToRoll, plan_roll
from sparklog.core.reading.plan import SliceToRead, slices_to_read
from sparklog.core.state import ClusterState, Topic
from sparklog.core.types import EntryNumber, OffsetRange, StoreId, TopicPartition, UploadId
from sparklog.host.dice import new_id
from sparklog.log.cluster_stores import StoreAddresses, Stores
from sparklog.log.read.ranged_reads import RANGED_READ_BYTES
from sparklog.log.rewrite.segment_roll import reads_of, rewrite
from sparklog.log.write.segments_writer import Rewritten, SegmentTarget
from sparklog.log.write.store_lanes import StoreLanes
from sparklog.maintenance.job_frame import JobFrame, JobOptions, chunks, run_job
from sparklog.maintenance.job_report import JobReport, PartitionResult, Work, WorkOutcome, ended, total
from sparklog.maintenance.rewrite.swapping import obstacle, segment_target, still_there, without_stores
from sparklog.maintenance.task_runner import packs

TASK_BYTES = 64 << 20  # small segments share a task up to this many stored bytes
FEWEST_TASKS = 16  # … but many segments are spread over at least this many tasks
MORE_SEGMENTS = (
    "segments are counted by the bytes stored now; slices larger than segment.bytes are cut into smaller batches, "
    "which compress less, and very small ones not at all: there are more, and with a small segment.bytes many more"
)
_CHAIN_REQUESTS = 2  # put the entry, look for its void mark


def run_roll(cluster_url: str, *, everything: bool = False, **options: Unpack[JobOptions]) -> JobReport:
    """Roll the slices that are due into sealed segments; with `everything`, also those that are neither full nor old.

    Raises UnknownTopicOrPartition, ClusterNotFound, and any error of reading the chain.
    """
    return run_job(RollJob(everything=everything), cluster_url, **options)


class RollJob:
    """Plans and does the work of `run_roll`, as a `job_frame.Job`."""

    name = "roll"
    unit = "segments, about"

    def __init__(self, *, everything: bool) -> None:
        self.notes: list[str] = []
        self._everything = everything
        self._due: list[SegmentToRoll] = []
        self._rows: dict[TopicPartition, PartitionResult] = {}

    def plan(self, frame: JobFrame) -> list[PartitionResult]:
        """Return a row for each partition with segments that are due."""
        state = frame.connection.newest_state()
        for topic in frame.chosen_topics(state):
            for partition in state.partitions_of(topic):
                due = plan_roll(state, topic, partition, frame.now_ms, everything=self._everything)
                if due:
                    self._rows[_key(due[0])] = self._planned(state, topic, due)
        return list(self._rows.values())

    def _planned(self, state: ClusterState, topic: Topic, due: Sequence[SegmentToRoll]) -> PartitionResult:
        """Return the row of a partition, with the work of its segments that are `due`.

        If a swap would be refused now, the row is postponed and has no work.
        """
        key = _key(due[0])
        row = PartitionResult(f"{topic.name}-{key.partition}", topic.name, key.partition, "", Work())
        refusal = obstacle(state, key)
        if refusal is not None:
            reason, messages = f"left for later: {refusal.message}", (str(refusal),)
            return msgspec.structs.replace(row, reason=reason, outcome=WorkOutcome.POSTPONED, messages=messages)
        self._due += due
        segment_bytes = state.topic_config(topic).segment_bytes
        if any(segment.size_bytes > segment_bytes for segment in due) and not self.notes:
            self.notes.append(MORE_SEGMENTS)
        reason = ", ".join(dict.fromkeys(segment.reason for segment in due))
        planned = total(_work(segment, segment_bytes) for segment in due)
        return msgspec.structs.replace(row, reason=reason, planned=planned)

    def execute(self, frame: JobFrame) -> list[PartitionResult]:
        """Rewrite segments in rounds of tasks. After each round, swap in its segments, with one command for each."""
        rolled = 0
        for round_ in chunks(_packed(self._due), frame.tasks.tasks_at_once):
            orders = [self._order(frame, pack) for pack in round_]
            for order, outcomes in zip(orders, _run(frame, orders), strict=True):
                self._swap(frame, order, outcomes)
            rolled += sum(len(pack) for pack in round_)
            frame.output.progress("stretches of slices rolled", rolled, len(self._due))
        return ended(self._rows.values())

    def _order(self, frame: JobFrame, pack: Sequence[SegmentToRoll]) -> RollOrder:
        """Return the work of one task, based on the newest state.

        Segments that changed since the plan, or whose swap would be refused now, are left out.
        """
        state = frame.connection.newest_state()
        orders = []
        for segment in pack:
            slices = _slices(state, segment)
            if slices is None:
                message = f"[{segment.start}, {segment.end}) was changed since it was planned"
                self._note(segment, WorkOutcome.OVERTAKEN, message)
            elif (refusal := obstacle(state, _key(segment))) is not None:
                self._note(segment, WorkOutcome.POSTPONED, str(refusal))
            else:
                target = segment_target(state, _key(segment))
                orders.append(SegmentOrder(segment, target, slices))
        return RollOrder(
            frame.connection.addresses(state),
            EntryNumber(state.n),
            tuple(orders),
            {store.store: store.incarnation for store in state.stores.values()},
            effective_cluster(state.config).replica_lag_time_max_ms,
        )

    def _swap(self, frame: JobFrame, order: RollOrder, outcomes: Sequence[RollOutcome]) -> None:
        """Submit a swap for each uploaded segment, and record its outcome."""
        uploaded = []
        for rolled, outcome in zip(order.segments, outcomes, strict=True):
            if outcome.rewritten is not None:
                uploaded.append((rolled, outcome.rewritten))
                continue
            state = frame.connection.newest_state()
            unchanged = _slices(state, rolled.segment) is not None
            self._note(rolled.segment, WorkOutcome.FAILED if unchanged else WorkOutcome.OVERTAKEN, outcome.error)
        submissions = [
            Submission(new_command_id(), order.n0, _command(rolled.segment, rewritten))
            for rolled, rewritten in uploaded
        ]
        for (rolled, rewritten), result in zip(uploaded, frame.submit_all(submissions), strict=True):
            if isinstance(result, SwapRefused | UnknownTopicOrPartition):
                self._note(rolled.segment, WorkOutcome.OVERTAKEN, str(result))
            elif isinstance(result, SparklogError):
                state = frame.connection.newest_state()
                refusal = obstacle(state, _key(rolled.segment))
                if refusal is not None and result.landed is Landed.NO:  # the replicas changed since the upload began
                    self._note(rolled.segment, WorkOutcome.POSTPONED, str(refusal))
                else:
                    self._note(rolled.segment, WorkOutcome.FAILED, str(result))
            else:
                self._count(rolled, rewritten)

    def _note(self, segment: SegmentToRoll, outcome: WorkOutcome, message: str) -> None:
        """Record a segment's outcome on its partition. One failed segment makes the whole partition failed."""
        self._rows[_key(segment)] = self._rows[_key(segment)].noted(outcome, message)

    def _count(self, order: SegmentOrder, rewritten: Rewritten) -> None:
        row = self._rows[_key(order.segment)]
        writes = 2 * sum(len(uploaded.holders) for uploaded in rewritten.objects)
        requests = reads_of(order.slices) + writes + _CHAIN_REQUESTS
        size_bytes = sum(slice_.new.length for slice_ in rewritten.slices)
        done = Work(len(rewritten.objects), order.segment.records, size_bytes, requests)
        self._rows[_key(order.segment)] = msgspec.structs.replace(row, done=row.done + done)


# ---- from the plan to tasks and back ----------------------------------------------------------------


class SegmentOrder(msgspec.Struct, frozen=True):
    """One segment to roll: the slices that it is made of, and the partition and stores to write it to."""

    segment: SegmentToRoll
    target: SegmentTarget
    slices: tuple[SliceToRead, ...]


class RollOrder(msgspec.Struct, frozen=True):
    """The work of one task. `n0`: the newest entry when this order was made; the task's swaps are submitted with it.

    `incarnations`: those with which the stores are registered. `lag_time_max_ms`: how long the task may wait for one
    store in total.
    """

    addresses: StoreAddresses
    n0: EntryNumber
    segments: tuple[SegmentOrder, ...]
    incarnations: dict[StoreId, str]
    lag_time_max_ms: int


class RollOutcome(msgspec.Struct, frozen=True):
    """The outcome of rolling the slices of one SegmentOrder: the uploaded segments (`rewritten`), or `error`."""

    rewritten: Rewritten | None
    error: str = ""


def roll_segments(payload: bytes) -> bytes:
    """Task: rewrite the segments of a RollOrder, and return a list of RollOutcome, in the same order.

    A failure of one segment does not stop the others.
    """
    order = msgspec.msgpack.decode(payload, type=RollOrder)
    stores = Stores(order.addresses)
    outcomes = []
    with StoreLanes(stores, order.incarnations, order.lag_time_max_ms) as lanes:
        for segment in order.segments:
            try:
                rewritten = rewrite(segment.slices, segment.target, stores, lanes, lambda: UploadId(new_id()))
                outcomes.append(RollOutcome(rewritten))
            except Exception as error:  # of any kind: roll the other segments of the task
                outcomes.append(RollOutcome(None, str(error) or repr(error)))
    lost = lanes.of_another_incarnation()
    return msgspec.msgpack.encode([_without(outcome, lost) if lost else outcome for outcome in outcomes])


def _without(outcome: RollOutcome, stores: frozenset[StoreId]) -> RollOutcome:
    """Return the outcome without `stores`, which were wiped or swapped and have lost the uploaded objects.

    A failure if a segment was on no other store.
    """
    if outcome.rewritten is None:
        return outcome
    rewritten = without_stores(outcome.rewritten, stores)
    if rewritten is None:
        return RollOutcome(None, f"its segments were on {', '.join(sorted(stores))} alone, which lost them")
    return RollOutcome(rewritten)


def _run(frame: JobFrame, orders: Sequence[RollOrder]) -> list[list[RollOutcome]]:
    try:
        bodies = frame.tasks.run(roll_segments, [msgspec.msgpack.encode(order) for order in orders])
    except SparklogError as error:  # the tasks of another round may still work
        return [[RollOutcome(None, str(error))] * len(order.segments) for order in orders]
    return [msgspec.msgpack.decode(body, type=list[RollOutcome]) for body in bodies]


def _packed(segments: Sequence[SegmentToRoll]) -> list[tuple[SegmentToRoll, ...]]:
    """Distribute segments over tasks, in order. Small ones share a task, within TASK_BYTES and MOST_SLICES.

    If there are enough segments, they are spread over about FEWEST_TASKS tasks or more.
    """
    task_bytes = min(TASK_BYTES, sum(segment.size_bytes for segment in segments) // FEWEST_TASKS)
    return list(
        packs(segments, (lambda segment: segment.size_bytes, task_bytes), (lambda segment: segment.slices, MOST_SLICES))
    )


def _slices(state: ClusterState, segment: SegmentToRoll) -> tuple[SliceToRead, ...] | None:
    """Return the slices to roll into a segment, or None if they have changed since the plan."""
    partition = state.partitions.get(_key(segment))
    if partition is None:
        return None
    slices = still_there(state, _key(segment), OffsetRange(segment.start, segment.end), segment.digest)
    return None if slices is None else slices_to_read(state, partition, slices)


def _command(segment: SegmentToRoll, rewritten: Rewritten) -> Swap:
    key = _key(segment)
    return Swap(
        key.topic_id,
        key.partition,
        segment.start,
        segment.end,
        segment.digest,
        rewritten.objects,
        rewritten.slices,
    )


def _key(segment: SegmentToRoll) -> TopicPartition:
    return TopicPartition(segment.partition.topic_id, segment.partition.partition)


def _work(segment: SegmentToRoll, segment_bytes: int) -> Work:
    """Return an estimate of the work to roll the segment: as if each slice were in an object of its own.

    The rolled segments are assumed to have as many bytes as the old slices.
    """
    outputs = max(1, -(-segment.size_bytes // segment_bytes))
    reads = 2 * segment.slices + segment.size_bytes // RANGED_READ_BYTES
    writes = 2 * outputs * len(segment.partition.replication.isr)
    return Work(outputs, segment.records, segment.size_bytes, reads + writes + _CHAIN_REQUESTS)
