"""The plans of roll and retention jobs: the same as a dry run of the job shows. The user then runs the job elsewhere.

A page starts no job: a job moves bytes for minutes, in a process with memory of its own, often on Spark. A user who
starts a job by hand wants to see its output and to be able to stop it. Scheduled jobs are run by the coordinator that
leads.
"""

from __future__ import annotations

from typing import Final

from sparklog.coordinator.page.actions.action import Plan, Planning, command_line
from sparklog.coordinator.page.words import size
from sparklog.core.describe.readable import counted
from sparklog.core.errors import InvalidOption
from sparklog.core.lookup import topic_of
from sparklog.core.maintenance.retention_rule import RetentionCut, plan_retention
from sparklog.core.maintenance.roll_rule import SegmentToRoll, plan_roll

PLANNED: Final = ("roll", "retention")
MOST_PARTITIONS: Final = 10_000  # in one plan: about a second of a thread


def plan_job(planning: Planning) -> Plan:
    """Plan the work that the job would do now. The plan has no commands: the page only shows it.

    Raises InvalidOption (another job than PLANNED, or more than MOST_PARTITIONS partitions), UnknownTopicOrPartition.
    """
    state, job, name = planning.state, planning.wanted("job"), planning.text("topic")
    if job not in PLANNED:
        raise InvalidOption(f"job: wanted one of {', '.join(PLANNED)}, found {job[:30]!r}")
    topics = [topic_of(state, name)] if name else sorted(state.topics.values(), key=lambda topic: topic.name)
    partitions = sum(topic.partitions for topic in topics)
    if partitions > MOST_PARTITIONS:
        raise InvalidOption(
            f"topic: wanted one, as a plan has at most {MOST_PARTITIONS} partitions, found {partitions}"
        )
    due: list[SegmentToRoll | RetentionCut] = []
    for topic in topics:
        for partition in state.partitions_of(topic):
            if job == "roll":
                due += plan_roll(state, topic, partition, planning.now_ms)
            elif (cut := plan_retention(state, topic, partition, planning.now_ms)) is not None:
                due.append(cut)
    amount_due = (
        f"{counted(sum(part.records for part in due), 'record')} ({size(sum(part.size_bytes for part in due))})"
    )
    what = "segment" if job == "roll" else "partition"
    return Plan(
        f"Due now: {amount_due} of {counted(len(due), what)} {'to be sealed' if job == 'roll' else 'to be cut'}.",
        "",
        command_line(f"job {job}", "", *(["--topic", name] if name else [])),
        (),
        ("Topic", "Partition", "Up to offset", "Records", "Size", "Why"),
        tuple(
            (
                part.topic,
                part.partition.partition,
                part.end if isinstance(part, SegmentToRoll) else part.to,
                part.records,
                size(part.size_bytes),
                part.reason,
            )
            for part in due
        ),
    )
