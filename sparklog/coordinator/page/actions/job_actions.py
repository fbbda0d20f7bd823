"""The plans of roll and retention jobs: the same as a dry run of the job shows. The user then runs the job elsewhere.

A page starts no job: a job moves bytes for minutes, in a process with memory of its own, often on Spark. A user who
starts a job by hand wants to see its output and to be able to stop it. Scheduled jobs are run by the coordinator that
leads.
"""

from __future__ import annotations

from typing import Final

from sparklog.coordinator.page.actions.action import Plan, Planning, command_line
from sparklog.core.describe.planned_changes import PlannedChange
from sparklog.core.describe.readable import amount, counted
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
    records = counted(sum(part.records for part in due), "record")
    size = amount(sum(part.size_bytes for part in due))
    change = PlannedChange(
        commands=(),
        verb="seal" if job == "roll" else "delete",
        what=f"{records} ({size}) of {counted(len(due), 'segment' if job == 'roll' else 'partition')}",
        rows=tuple(
            {
                "topic": part.topic,
                "partition": part.partition.partition,
                "up_to_offset": part.end if isinstance(part, SegmentToRoll) else part.to,
                "records": part.records,
                "size_bytes": part.size_bytes,
                "why": part.reason,
            }
            for part in due
        ),
    )
    return Plan(change, command_line(f"job {job}", "", *(["--topic", name] if name else [])))
