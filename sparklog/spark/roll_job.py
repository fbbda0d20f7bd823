"""The roll job: append objects become sealed segments, one swap per segment (S-06)."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from sparklog.chain.clock import Clock
from sparklog.chain.committer import new_command_id
from sparklog.core.commands import Submission, Swap
from sparklog.core.errors import SparklogError, SwapRefused, UnknownTopicOrPartition
from sparklog.core.plan import SliceToRead, named_object
from sparklog.core.rolling import MOST_SLICES, SegmentToRoll, plan_roll
from sparklog.core.slice_table import digest
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber, Holder, OffsetRange, StoreId, TopicPartition, UploadId
from sparklog.log.object_reader import RANGED_READ_BYTES
from sparklog.log.segment_roll import Rewritten, SegmentTarget, reads_of, rewrite
from sparklog.log.stores import Stores
from sparklog.spark.job_frame import JobFrame, chunks, run_job
from sparklog.spark.job_report import JobReport, Outcome, PartitionResult, Work, total
from sparklog.spark.job_tasks import Session

if TYPE_CHECKING:
    from rich.console import Console

TASK_BYTES = 64 << 20  # small segments share a task until they have this many stored bytes
FEWEST_TASKS = 16  # … but work for many segments is shared out to at least so many
_CHAIN_REQUESTS = 2  # the entry and the look for its void mark


def run_roll(
    cluster_url: str,
    *,
    topics: Collection[str] | None = None,
    now_ms: int | None = None,
    dry_run: bool = False,
    spark: Session = None,
    everything: bool = False,
    console: Console | None = None,
    clock: Clock | None = None,
) -> JobReport:
    """Roll what is due into sealed segments; with `everything` also what is neither full nor old.

    `topics` None: all. `spark`: a session, a function that makes one when there is work, or None to work here.
    Raises UnknownTopicOrPartition, ClusterNotFound, and what keeps the chain from being read.
    """
    frame = JobFrame(
        "roll",
        cluster_url,
        topics=topics,
        now_ms=now_ms,
        dry_run=dry_run,
        session=spark,
        console=console,
        clock=clock,
    )
    return run_job(RollJob(everything=everything), frame)


class RollJob:
    """See `job_frame.Job`."""

    name = "roll"

    def __init__(self, *, everything: bool) -> None:
        self._everything = everything
        self._due: list[SegmentToRoll] = []
        self._rows: dict[TopicPartition, PartitionResult] = {}

    def plan(self, frame: JobFrame) -> list[PartitionResult]:
        """The segments that are due, by partition."""
        with frame.connection.follower.current() as state:
            for topic in frame.chosen_topics(state):
                for index in range(topic.partitions):
                    partition = state.partition(topic.topic_id, index)
                    if partition is None:
                        raise AssertionError(f"{topic.name} has no partition {index}")
                    due = plan_roll(state, topic, partition, frame.now_ms, everything=self._everything)
                    if due:
                        segment_bytes = state.topic_config(topic).segment_bytes
                        self._due += due
                        self._rows[_key(due[0])] = PartitionResult(
                            f"{topic.name}-{index}",
                            topic.name,
                            index,
                            ", ".join(dict.fromkeys(each.reason for each in due)),
                            total(_planned(each, segment_bytes) for each in due),
                        )
        return list(self._rows.values())

    def execute(self, frame: JobFrame) -> list[PartitionResult]:
        """Rewrite in tasks; after each round its segments are swapped in, one command each."""
        rolled = 0
        for round_ in chunks(_packed(self._due), frame.runner.tasks_at_once):
            prepared = [_prepare(frame, pack) for pack in round_]
            orders = [order for order, _, _ in prepared]
            try:
                bodies = frame.runner.run(roll_segments, [msgspec.msgpack.encode(each) for each in orders])
            except Exception as error:  # whatever Spark raises: the other rounds may still work
                outcomes = [[_RollOutcome(None, f"the tasks failed: {error}")] * len(each.segments) for each in orders]
            else:
                outcomes = [msgspec.msgpack.decode(each, type=list[_RollOutcome]) for each in bodies]
            for (order, segments, gone), of_order in zip(prepared, outcomes, strict=True):
                self._overtaken(gone)
                self._swap(frame, order, segments, of_order)
            rolled += sum(len(pack) for pack in round_)
            frame.output.progress("segments rolled", rolled, len(self._due))
        return [
            msgspec.structs.replace(each, outcome=Outcome.DONE) if each.outcome is Outcome.PLANNED else each
            for each in self._rows.values()
        ]

    def _swap(
        self, frame: JobFrame, order: _RollOrder, segments: Sequence[SegmentToRoll], outcomes: Sequence[_RollOutcome]
    ) -> None:
        """Submit a swap for each segment that was uploaded, and note what became of each."""
        uploaded = [(each, one.rewritten) for each, one in zip(segments, outcomes, strict=True) if one.rewritten]
        submissions = [Submission(new_command_id(), order.n0, _command(each, one)) for each, one in uploaded]
        for (segment, rewritten), result in zip(uploaded, frame.submit_all(submissions), strict=True):
            if isinstance(result, SwapRefused | UnknownTopicOrPartition):
                self._note(segment, Outcome.OVERTAKEN, str(result))
            elif isinstance(result, SparklogError):
                self._note(segment, Outcome.FAILED, str(result))
            else:
                self._count(segment, rewritten, order)
        for segment, one in zip(segments, outcomes, strict=True):
            if one.rewritten is None:
                with frame.connection.follower.current() as state:
                    still = _slices(state, segment) is not None
                self._note(segment, Outcome.FAILED if still else Outcome.OVERTAKEN, one.error)

    def _overtaken(self, segments: Sequence[SegmentToRoll]) -> None:
        for each in segments:
            self._note(each, Outcome.OVERTAKEN, f"[{each.start}, {each.end}) was changed since it was planned")

    def _note(self, segment: SegmentToRoll, outcome: Outcome, message: str) -> None:
        """A failure in one segment is the partition's outcome, whatever the others came to."""
        row = self._rows[_key(segment)]
        worst = Outcome.FAILED if Outcome.FAILED in (row.outcome, outcome) else outcome
        self._rows[_key(segment)] = msgspec.structs.replace(row, outcome=worst, messages=(*row.messages, message))

    def _count(self, segment: SegmentToRoll, rewritten: Rewritten, order: _RollOrder) -> None:
        row = self._rows[_key(segment)]
        slices = next(each.slices for each in order.segments if each.target.partition == segment.partition.partition)
        requests = reads_of(slices) + 2 * sum(len(each.holders) for each in rewritten.objects) + _CHAIN_REQUESTS
        size_bytes = sum(each.new.length for each in rewritten.slices)
        done = Work(len(rewritten.objects), segment.records, size_bytes, requests)
        self._rows[_key(segment)] = msgspec.structs.replace(row, done=row.done + done)


# ---- from the plan to tasks and back ----------------------------------------------------------------


class _SegmentOrder(msgspec.Struct, frozen=True):
    target: SegmentTarget
    slices: tuple[SliceToRead, ...]


class _RollOrder(msgspec.Struct, frozen=True):
    """What one task does. `n0`: the chain position it was made on."""

    cluster: str
    store_urls: dict[StoreId, str]
    n0: EntryNumber
    segments: tuple[_SegmentOrder, ...]


class _RollOutcome(msgspec.Struct, frozen=True):
    """Of one segment: what was uploaded, or why not."""

    rewritten: Rewritten | None
    error: str = ""


def roll_segments(payload: bytes) -> bytes:
    """Task: rewrite some segments. One that fails stops no other."""
    order = msgspec.msgpack.decode(payload, type=_RollOrder)
    stores = Stores(order.cluster, order.store_urls)
    outcomes = []
    for each in order.segments:
        try:
            rewritten = rewrite(each.slices, each.target, stores, lambda: UploadId(uuid.uuid4().hex))
            outcomes.append(_RollOutcome(rewritten))
        except Exception as error:  # also what is no SparklogError: the other segments of the task are to be rolled
            outcomes.append(_RollOutcome(None, str(error) or repr(error)))
    return msgspec.msgpack.encode(outcomes)
