"""The retention job: drops old slices from the log; after the delay their objects are deleted."""

from __future__ import annotations

from typing import Unpack

import msgspec

from sparklog.core.commands import MoveLogStart
from sparklog.core.errors import PolicyViolation, SparklogError, UnknownTopicOrPartition
from sparklog.core.maintenance.retention_rule import RetentionCut, plan_retention
from sparklog.maintenance.job_frame import JobFrame, JobOptions, run_job
from sparklog.maintenance.job_report import JobReport, PartitionResult, Work, WorkOutcome

_CHAIN_REQUESTS = 2  # the entry, and the check for its void mark


def run_retention(cluster_url: str, **options: Unpack[JobOptions]) -> JobReport:
    """Raise log starts as `retention.ms` (counted from `now_ms`) and `retention.bytes` require.

    Its only tasks are those that delete retired objects, if there are many. Raises UnknownTopicOrPartition,
    ClusterNotFound, and errors from reading the chain.
    """
    return run_job(RetentionJob(), cluster_url, **options)


class RetentionJob:
    """Plans and does the work of `run_retention`, as a `job_frame.Job`."""

    name = "retention"
    unit = "slices"
    notes = ()

    def __init__(self) -> None:
        self._due: list[tuple[PartitionResult, RetentionCut]] = []

    def plan(self, frame: JobFrame) -> list[PartitionResult]:
        """Return a row for each partition with slices to drop."""
        state = frame.connection.newest_state()
        for topic in frame.chosen_topics(state):
            for partition in state.partitions_of(topic):
                index = partition.partition
                cut = plan_retention(state, topic, partition, frame.now_ms)
                if cut is not None:
                    planned = Work(cut.slices, cut.records, cut.size_bytes, _CHAIN_REQUESTS)
                    reason = f"{cut.reason}: log start {partition.log_start} -> {cut.to}"
                    row = PartitionResult(f"{topic.name}-{index}", topic.name, index, reason, planned)
                    self._due.append((row, cut))
        return [row for row, _ in self._due]

    def execute(self, frame: JobFrame) -> list[PartitionResult]:
        """Raise each log start to the planned offset, with one command each, unless it is already there or above."""
        commands = [MoveLogStart(cut.partition.topic_id, cut.partition.partition, cut.to) for _, cut in self._due]
        rows = []
        for (row, _), result in zip(self._due, frame.commit_all(commands), strict=True):
            if isinstance(result, UnknownTopicOrPartition | PolicyViolation):  # deleted or altered since the plan
                row = row.noted(WorkOutcome.OVERTAKEN, str(result))
            elif isinstance(result, SparklogError):
                row = row.noted(WorkOutcome.FAILED, str(result))
            else:
                row = msgspec.structs.replace(row, outcome=WorkOutcome.DONE, done=row.planned)
            rows.append(row)
        return rows
