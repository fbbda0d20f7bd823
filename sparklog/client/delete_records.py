"""Deletes the records of partitions below given offsets (Kafka's DeleteRecords): plan, then commit.

All offsets are checked before any command is sent, so a call with an invalid offset changes nothing. Then one command
is sent for each partition. A command raises the log start or leaves it as it is, so a failed command may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparklog.client.commits.many import commit_many
from sparklog.client.connection import Connection
from sparklog.core.describe.readable import counted
from sparklog.core.errors import Landed, SparklogError
from sparklog.core.maintenance.record_deletion import RecordDeletion, plan_record_deletion
from sparklog.core.types import Offset
from sparklog.host.clock import now_ms

HIGH_WATERMARK = -1  # as in Kafka's tools


def plan_deletions(connection: Connection, topic: str, offsets: Mapping[int, int]) -> list[RecordDeletion]:
    """Plan a deletion for each partition in `offsets`; the offset -1 stands for the high watermark. Commits nothing.

    Raises UnknownTopicOrPartition, OffsetOutOfRange, PolicyViolation, and InvalidInput if `offsets` is empty.
    """
    chosen = {number: None if offset == HIGH_WATERMARK else offset for number, offset in offsets.items()}
    state = connection.newest_state()
    return plan_record_deletion(state, topic, chosen, now_ms())


def delete_records(connection: Connection, planned: Sequence[RecordDeletion]) -> list[Offset | SparklogError]:
    """Commit the planned deletions. Returns, in their order, each partition's new log start or its command's error."""
    commands = [deletion.command for deletion in planned]
    results = commit_many(connection.submit, commands)
    state = connection.newest_state()
    outcomes: list[Offset | SparklogError] = []
    for command, result in zip(commands, results, strict=True):
        partition = state.partition(command.topic_id, command.partition)
        if isinstance(result, SparklogError):
            outcomes.append(result)
        else:  # a topic that was deleted since has no log start any more
            outcomes.append(command.to if partition is None else partition.log_start)
    return outcomes


def all_done(planned: Sequence[RecordDeletion], outcomes: Sequence[Offset | SparklogError]) -> dict[int, int]:
    """Return the new log start of each partition, from `outcomes`, the result of `delete_records`.

    If commands failed, raises the first error instead. Its text says how many partitions are done. Its `landed` is
    UNKNOWN if any partition is done.
    """
    done: dict[int, int] = {
        deletion.command.partition: outcome
        for deletion, outcome in zip(planned, outcomes, strict=True)
        if not isinstance(outcome, SparklogError)
    }
    for deletion, outcome in zip(planned, outcomes, strict=True):
        if isinstance(outcome, SparklogError):
            raise type(outcome)(
                f"{deletion.place}: {outcome.message}; {len(done)} of {counted(len(planned), 'partition')} done; the "
                "same call may be made again",
                landed=Landed.UNKNOWN if done else outcome.landed,
            ) from outcome
    return done
