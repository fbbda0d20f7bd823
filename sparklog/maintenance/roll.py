"""The roll job: append objects become sealed segments, one swap per segment (S-06)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import msgspec

from sparklog.chain.committer import new_command_id
from sparklog.core.commands import Submission, Swap
from sparklog.core.errors import SparklogError, SwapRefused, UnknownTopicOrPartition
from sparklog.core.plan import SliceToRead, slices_to_read
from sparklog.core.rolling import MOST_SLICES, SegmentToRoll, plan_roll
from sparklog.core.slice_table import digest
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber, Holder, OffsetRange, TopicPartition, UploadId
from sparklog.host.dice import new_id
from sparklog.log.ranged_reads import RANGED_READ_BYTES
from sparklog.log.segment_roll import Rewritten, SegmentTarget, reads_of, rewrite
from sparklog.log.stores import StorePlaces, Stores
from sparklog.maintenance.frame import JobFrame, JobOptions, chunks, run_job
from sparklog.maintenance.report import JobReport, Outcome, PartitionResult, Work, total

TASK_BYTES = 64 << 20  # small segments share a task until they have this many stored bytes
FEWEST_TASKS = 16  # … but work for many segments is shared out to at least so many
MORE_SEGMENTS = (
    "segments are counted by the bytes stored now; slices larger than segment.bytes are cut into smaller batches, "
    "which compress less, and very small ones not at all: there are more, and with a small segment.bytes many more"
)
_CHAIN_REQUESTS = 2  # the entry and the look for its void mark


def run_roll(cluster_url: str, *, everything: bool = False, **options: Unpack[JobOptions]) -> JobReport:
    """Roll what is due into sealed segments; with `everything` also what is neither full nor old.

    Raises UnknownTopicOrPartition, ClusterNotFound, and what keeps the chain from being read.
    """
    return run_job(RollJob(everything=everything), cluster_url, **options)


class RollJob:
    """See `frame.Job`."""

    name = "roll"
    unit = "segments, about"

    def __init__(self, *, everything: bool) -> None:
        self.notes: list[str] = []
        self._everything = everything
        self._due: list[SegmentToRoll] = []
        self._rows: dict[TopicPartition, PartitionResult] = {}

    def plan(self, frame: JobFrame) -> list[PartitionResult]:
        """The segments that are due, by partition."""
        with frame.connection.follower.current() as state:
            for topic in frame.chosen_topics(state):
                for partition in state.partitions_of(topic):
                    due = plan_roll(state, topic, partition, frame.now_ms, everything=self._everything)
                    if due:
                        segment_bytes = state.topic_config(topic).segment_bytes
                        self._due += due
                        if any(each.size_bytes > segment_bytes for each in due) and not self.notes:
                            self.notes.append(MORE_SEGMENTS)
                        self._rows[_key(due[0])] = PartitionResult(
                            f"{topic.name}-{partition.partition}",
                            topic.name,
                            partition.partition,
                            ", ".join(dict.fromkeys(each.reason for each in due)),
                            total(_planned(each, segment_bytes) for each in due),
                        )
        return list(self._rows.values())

    def execute(self, frame: JobFrame) -> list[PartitionResult]:
        """Rewrite in tasks; after each round its segments are swapped in, one command each."""
        rolled = 0
        for round_ in chunks(_packed(self._due), frame.tasks.tasks_at_once):
            orders = [self._order(frame, pack) for pack in round_]
            for order, outcomes in zip(orders, _run(frame, orders), strict=True):
                self._swap(frame, order, outcomes)
            rolled += sum(len(pack) for pack in round_)
            frame.output.progress("stretches of slices rolled", rolled, len(self._due))
        return [
            msgspec.structs.replace(each, outcome=Outcome.DONE) if each.outcome is Outcome.PLANNED else each
            for each in self._rows.values()
        ]

    def _order(self, frame: JobFrame, pack: Sequence[SegmentToRoll]) -> RollOrder:
        """What one task is to do, on the state as it is now. Segments that changed since the plan are left out."""
        with frame.connection.follower.current() as state:
            orders = []
            for each in pack:
                slices = _slices(state, each)
                if slices is None:
                    self._note(each, Outcome.OVERTAKEN, f"[{each.start}, {each.end}) was changed since it was planned")
                else:
                    orders.append(SegmentOrder(each, _target(state, each), slices))
            return RollOrder(frame.connection.places(state), EntryNumber(state.n), tuple(orders))

    def _swap(self, frame: JobFrame, order: RollOrder, outcomes: Sequence[RollOutcome]) -> None:
        """Submit a swap for each segment that was uploaded, and note what became of each."""
        uploaded = []
        for each, outcome in zip(order.segments, outcomes, strict=True):
            if outcome.rewritten is not None:
                uploaded.append((each, outcome.rewritten))
                continue
            with frame.connection.follower.current() as state:
                still = _slices(state, each.segment) is not None
            self._note(each.segment, Outcome.FAILED if still else Outcome.OVERTAKEN, outcome.error)
        submissions = [
            Submission(new_command_id(), order.n0, _command(each.segment, rewritten)) for each, rewritten in uploaded
        ]
        for (each, rewritten), result in zip(uploaded, frame.submit_all(submissions), strict=True):
            if isinstance(result, SwapRefused | UnknownTopicOrPartition):
                self._note(each.segment, Outcome.OVERTAKEN, str(result))
            elif isinstance(result, SparklogError):
                self._note(each.segment, Outcome.FAILED, str(result))
            else:
                self._count(each, rewritten)

    def _note(self, segment: SegmentToRoll, outcome: Outcome, message: str) -> None:
        """A failure in one segment is the partition's outcome, whatever the others came to."""
        row = self._rows[_key(segment)]
        worst = Outcome.FAILED if row.outcome is Outcome.FAILED else outcome
        self._rows[_key(segment)] = msgspec.structs.replace(row, outcome=worst, messages=(*row.messages, message))

    def _count(self, order: SegmentOrder, rewritten: Rewritten) -> None:
        row = self._rows[_key(order.segment)]
        requests = reads_of(order.slices) + 2 * sum(len(each.holders) for each in rewritten.objects) + _CHAIN_REQUESTS
        size_bytes = sum(each.new.length for each in rewritten.slices)
        done = Work(len(rewritten.objects), order.segment.records, size_bytes, requests)
        self._rows[_key(order.segment)] = msgspec.structs.replace(row, done=row.done + done)


# ---- from the plan to tasks and back ----------------------------------------------------------------


class SegmentOrder(msgspec.Struct, frozen=True):
    """One segment to roll: its slices as they were found, and what becomes of them."""

    segment: SegmentToRoll
    target: SegmentTarget
    slices: tuple[SliceToRead, ...]


class RollOrder(msgspec.Struct, frozen=True):
    """What one task does. `n0`: the chain position it was made on, for its uploads and its swaps."""

    places: StorePlaces
    n0: EntryNumber
    segments: tuple[SegmentOrder, ...]


class RollOutcome(msgspec.Struct, frozen=True):
    """Of one segment: what was uploaded, or why nothing was."""

    rewritten: Rewritten | None
    error: str = ""


def roll_segments(payload: bytes) -> bytes:
    """Task: rewrite some segments (a RollOrder); a list of RollOutcome. One that fails stops no other."""
    order = msgspec.msgpack.decode(payload, type=RollOrder)
    stores = Stores(order.places)
    outcomes = []
    for each in order.segments:
        try:
            rewritten = rewrite(each.slices, each.target, stores, lambda: UploadId(new_id()))
            outcomes.append(RollOutcome(rewritten))
        except Exception as error:  # whatever it is, the other segments of the task are to be rolled
            outcomes.append(RollOutcome(None, str(error) or repr(error)))
    return msgspec.msgpack.encode(outcomes)


def _run(frame: JobFrame, orders: Sequence[RollOrder]) -> list[list[RollOutcome]]:
    try:
        bodies = frame.tasks.run(roll_segments, [msgspec.msgpack.encode(each) for each in orders])
    except SparklogError as error:  # the tasks of another round may still work
        return [[RollOutcome(None, str(error))] * len(each.segments) for each in orders]
    return [msgspec.msgpack.decode(each, type=list[RollOutcome]) for each in bodies]


def _packed(segments: Sequence[SegmentToRoll]) -> list[list[SegmentToRoll]]:
    """Segments shared out to tasks: small ones together, in order, within TASK_BYTES and MOST_SLICES."""
    limit_bytes = min(TASK_BYTES, sum(each.size_bytes for each in segments) // FEWEST_TASKS)
    packs: list[list[SegmentToRoll]] = []
    size_bytes = slices = 0
    for each in segments:
        if not packs or size_bytes + each.size_bytes > limit_bytes or slices + each.slices > MOST_SLICES:
            packs.append([])
            size_bytes = slices = 0
        packs[-1].append(each)
        size_bytes, slices = size_bytes + each.size_bytes, slices + each.slices
    return packs


def _slices(state: ClusterState, segment: SegmentToRoll) -> tuple[SliceToRead, ...] | None:
    """The slices that were planned, or None if others are there by now."""
    partition = state.partitions.get(_key(segment))
    if partition is None:
        return None
    found = state.slices.find(_key(segment), OffsetRange(segment.start, segment.end))
    if digest(found) != segment.digest:
        return None
    return slices_to_read(state, partition, found)


def _target(state: ClusterState, segment: SegmentToRoll) -> SegmentTarget:
    key = _key(segment)
    config = state.topic_config(state.topics[key.topic_id])
    return SegmentTarget(
        key.topic_id,
        segment.topic,
        key.partition,
        segment.leader_epoch,
        EntryNumber(state.n),
        tuple(Holder(store, state.stores[store].registration) for store in state.partitions[key].replication.isr),
        config.segment_bytes,
        config.compression_type or "zstd",
    )


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


def _planned(segment: SegmentToRoll, segment_bytes: int) -> Work:
    """What rolling the segment will take, about: each slice in an object of its own, and stored bytes as they are."""
    outputs = max(1, -(-segment.size_bytes // segment_bytes))
    reads = 2 * segment.slices + segment.size_bytes // RANGED_READ_BYTES
    writes = 2 * outputs * len(segment.partition.replication.isr)
    return Work(outputs, segment.records, segment.size_bytes, reads + writes + _CHAIN_REQUESTS)
