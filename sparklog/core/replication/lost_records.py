"""Acknowledged records that an unclean election gave up, and the errors that notify their authors (rule E4).

A producer is refused until it begins its next epoch. An application gets the error once, in place of its next write,
and a record in the chain notes that. A command that is submitted again gets an error that names the lost part.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sparklog.core.commands import Application
from sparklog.core.errors import Landed, WriteLost
from sparklog.core.records import AppendedRange, CommandResult, LossReported, LostRecords, LostVersion
from sparklog.core.state import ClusterState
from sparklog.core.types import Offset, OffsetRange, TopicPartition


def listed(lost: Sequence[LostRecords]) -> str:
    """The lost ranges in words, separated by commas, for messages."""
    return ", ".join(map(str, lost))


def unheard_loss(state: ClusterState, application: Application | None) -> LossReported | None:
    """Return the record that takes the place of this write by `application`, to notify the application of a loss.

    Returns None if `application` is None, or if no loss is left of which it has not been notified.
    """
    known = None if application is None else state.applications.get(application.app_id)
    if application is None or known is None or known.lost is None:
        return None
    return LossReported(application, known.lost)


def version_lost(application: Application, lost: LostVersion) -> WriteLost:
    """Return the error that an application gets instead of its write, to notify it that it has lost records."""
    left = "write it again" if lost.is_whole else "its other records are left, and it counts as written"
    return WriteLost(
        f"version {lost.version} of {application.app_id} was lost in an unclean election: {listed(lost.records)}; "
        f"{left}. Version {application.version} was not written now. This error comes once: the next write will succeed"
    )


def check_left(state: ClusterState, result: CommandResult) -> None:
    """Raise WriteLost if an election or an operator has given up a part of the records that this command wrote.

    Records removed by retention or by deleting the topic are no loss.
    """
    lost, is_whole = given_up(state, result.ranges)
    if lost:
        advice = "write it again" if is_whole else "the rest of it is there: write only what is missing"
        raise WriteLost(
            f"the command was applied by entry {result.n}, and an election has given up {listed(lost)} since; "
            f"{advice}, with a new command",
            landed=Landed.NO if is_whole else Landed.YES,
        )


def given_up(state: ClusterState, written: Sequence[AppendedRange]) -> tuple[tuple[LostRecords, ...], bool]:
    """Return the parts of a write that an election or an operator gave up, and True if they are the whole write.

    Records that were removed by retention or by deleting the topic are no loss.
    """
    gaps = tuple(gap for range_ in written for gap in _gaps(state, range_))
    return gaps, sum(gap.end - gap.start for gap in gaps) == sum(range_.end - range_.start for range_ in written)


def _gaps(state: ClusterState, written: AppendedRange) -> list[LostRecords]:
    """Return the parts of a written range that no slice covers, above the log start; [] if the topic was deleted.

    Such gaps exist only if an election or an operator gave up records.
    """
    key = TopicPartition(written.topic_id, written.partition)
    partition = state.partitions.get(key)
    if partition is None or written.end <= partition.log_start:
        return []
    start = max(written.start, partition.log_start)
    columns = state.slices.find(key, OffsetRange(start, written.end)).columns
    slices = zip(columns["start"].tolist(), columns["end"].tolist(), strict=True)
    edges = [start, *(edge for slice_ in slices for edge in slice_)]
    place = f"{state.topics[written.topic_id].name}-{written.partition}"
    gaps = list(pairwise([*edges, written.end]))[::2]
    return [LostRecords(place, Offset(low), Offset(high)) for low, high in gaps if low < high]
