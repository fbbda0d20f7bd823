"""Decides a command: `decide` returns records to write or an earlier result, or raises an error.

The state is never changed. The checks, in order: if the command id is known, `decide` returns the entry that has the
result; if a producer or application repeats a write, it returns the earlier result; a command that began below FLOOR is
refused; then come the checks of that kind of command. There is no clock and no random number: the time of the entry and
all ids are arguments.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from sparklog.core import commands
from sparklog.core.coordination import decide_claim, decide_resign
from sparklog.core.decide.append import decide_append, known_append
from sparklog.core.decide.groups import (
    decide_commit_offsets,
    decide_consumed,
    decide_delete_groups,
    decide_join_group,
    decide_leave_group,
)
from sparklog.core.decide.job_reports import decide_report_job
from sparklog.core.decide.maintenance import (
    decide_confirm_deleted,
    decide_move_cleaner,
    decide_move_log_start,
    decide_raise_floor,
    decide_swap,
)
from sparklog.core.decide.replicas import (
    decide_drop_lagging,
    decide_elect_leaders,
    decide_move_replicas,
    decide_report_replicas,
)
from sparklog.core.decide.stores import (
    decide_agent_down,
    decide_agent_up,
    decide_fence_store,
    decide_move_recovery_point,
    decide_register_store,
    decide_remove_store,
    decide_report_loss,
    leaders_for,
)
from sparklog.core.decide.topics import (
    decide_add_partitions,
    decide_alter_cluster,
    decide_alter_topic,
    decide_create_cluster,
    decide_create_topic,
    decide_delete_topic,
    decide_promote_topic,
)
from sparklog.core.errors import (
    DuplicateResource,
    InvalidInput,
    InvalidProducerEpoch,
    Landed,
    SparklogError,
    UnknownProducerId,
    WriteExpired,
)
from sparklog.core.idempotence.applications import decide_forget_applications
from sparklog.core.idempotence.producers import by_producer, check_not_landed
from sparklog.core.records import At, CommandResult, ProducerAllocated, Record
from sparklog.core.replication.lost_records import unheard_loss
from sparklog.core.state import ClusterState
from sparklog.core.tables.result_table import COMMAND_ID
from sparklog.core.types import EntryNumber, ProducerId


class Decision(msgspec.Struct, frozen=True):
    """The `records` to write, or the result of an earlier submission of the command.

    An earlier result is `known`, or must be read from the entry `committed_in`. `records` is empty then, and also if
    the state is already as wanted.
    """

    records: tuple[Record, ...] = ()
    known: CommandResult | None = None
    committed_in: EntryNumber | None = None


def decide(state: ClusterState, submission: commands.Submission, at: At) -> Decision:
    """Return the decision on `submission`, assuming that `at` is the next entry. Raises the error of a refused command.

    Even if an earlier attempt is in doubt, an error may say `landed = no`: had the attempt landed, the state would know
    its id. But it does not keep the ids of appends of idempotent producers and of commits of members. If an attempt at
    one of these is in doubt, an error says `landed = unknown` instead of `no`.
    """
    if COMMAND_ID.fullmatch(submission.command_id) is None:
        raise InvalidInput(f"a command id is 32 lower-case hex digits, found {submission.command_id!r}")
    applied = state.results.get(submission.command_id)
    if applied is not None:
        return Decision(committed_in=applied.n)
    try:
        if isinstance(submission.command, commands.Append):
            known = known_append(state, submission.command)
            if known is not None:
                return Decision(known=known)
        _check_begun(at.n, submission)
        _check_floor(state.floor, submission)
        return Decision(records=_records(state, submission, at))
    except DuplicateResource as error:
        # An earlier attempt may have named the upload, and its result was forgotten.
        if submission.in_doubt:
            find = f"the command may have landed: look it up with 'sparklog chain write {submission.command_id}'"
            raise DuplicateResource(f"{error.message}: {find}", landed=Landed.UNKNOWN) from error
        raise DuplicateResource(f"{error.message}: upload the records again, under another id") from error
    except SparklogError as error:
        if error.landed is Landed.NO and submission.in_doubt and not _keeps_result(submission.command):
            error.landed = Landed.UNKNOWN
        raise


def _keeps_result(command: commands.Command) -> bool:
    """True if a command that is sent again after it was applied gets the same result.

    Either the state remembers it by its id (see `apply_command`), or it is a CLAIM, whose repeats change nothing.
    """
    match command:
        case commands.Append():
            return not by_producer(command.slices)
        case commands.CommitOffsets():
            return command.member_id is None
        case _:
            return True


def _records(state: ClusterState, submission: commands.Submission, at: At) -> tuple[Record, ...]:
    match submission.command:
        case commands.Append() as command:
            unheard = unheard_loss(state, command.application)
            if unheard is not None:
                return (unheard,)
            records = decide_append(state, command, at)
            consumed = () if command.consumed is None else decide_consumed(state, command.consumed)
            leaders = () if len(records) == 1 else leaders_for(state, command, records)
            return (*records, *leaders, *consumed)
        case commands.Swap() as command:
            return (decide_swap(state, command, at),)
        case commands.MoveLogStart() as command:
            return decide_move_log_start(state, command, at)
        case commands.MoveCleaner() as command:
            return decide_move_cleaner(state, command, at)
        case commands.ConfirmDeleted() as command:
            return decide_confirm_deleted(state, command)
        case commands.RaiseFloor() as command:
            return decide_raise_floor(state, command, at)
        case commands.ForgetApplications() as command:
            return decide_forget_applications(state, command)
        case commands.CreateCluster() as command:
            return decide_create_cluster(state, command)
        case commands.CreateTopic() as command:
            return decide_create_topic(state, command)
        case commands.AlterCluster() as command:
            return decide_alter_cluster(state, command)
        case commands.AlterTopic() as command:
            return decide_alter_topic(state, command)
        case commands.AddPartitions() as command:
            return decide_add_partitions(state, command)
        case commands.DeleteTopic() as command:
            return decide_delete_topic(state, command, at)
        case commands.AllocateProducer() as command:
            return (_allocate_producer(state, command),)
        case commands.ReportJob() as command:
            return (decide_report_job(command),)
        case commands.PromoteTopic() as command:
            return decide_promote_topic(state, command)
        case commands.RegisterStore() as command:
            return decide_register_store(state, command)
        case commands.FenceStore() as command:
            return decide_fence_store(state, command)
        case commands.RemoveStore() as command:
            return decide_remove_store(state, command)
        case commands.ReportLoss() as command:
            return decide_report_loss(state, command)
        case commands.AgentUp() as command:
            return decide_agent_up(state, command)
        case commands.AgentDown() as command:
            return decide_agent_down(state, command)
        case commands.ReportReplicas() as command:
            return decide_report_replicas(state, command)
        case commands.DropLagging() as command:
            return decide_drop_lagging(state, command)
        case commands.ElectLeaders() as command:
            return decide_elect_leaders(state, command)
        case commands.MoveReplicas() as command:
            return decide_move_replicas(state, command)
        case commands.ClaimCoordination() as command:
            return (decide_claim(state.coordinator, command),)
        case commands.ResignCoordination() as command:
            return (decide_resign(state.coordinator, command),)
        case commands.MoveRecoveryPoint() as command:
            return decide_move_recovery_point(state, command)
        case commands.JoinGroup() as command:
            return decide_join_group(state, command, at)
        case commands.LeaveGroup() as command:
            return decide_leave_group(state, command, at)
        case commands.CommitOffsets() as command:
            return decide_commit_offsets(state, command)
        case commands.DeleteGroups() as command:
            return decide_delete_groups(state, command)
        case _:
            assert_never(submission.command)


def _begin_positions(submission: commands.Submission) -> tuple[EntryNumber, ...]:
    """Return the chain positions at which the command and each of its uploads were begun."""
    command = submission.command
    objects = command.objects if isinstance(command, commands.Append | commands.Swap) else ()
    return (submission.n0, *(object_.n0 for object_ in objects))


def _check_begun(n: EntryNumber, submission: commands.Submission) -> None:
    """Refuse a command or an upload that claims to begin after entry `n`: FLOOR would pass it too late."""
    newest = max(_begin_positions(submission))
    if newest > n:
        what = "a command" if newest == submission.n0 else "an upload"
        raise InvalidInput(f"{what} begins at a chain position up to {n}, found {newest}")


def _check_floor(floor: EntryNumber, submission: commands.Submission) -> None:
    """Refuse a command begun before FLOOR, or with objects uploaded before FLOOR, which may have been deleted."""
    oldest = min(_begin_positions(submission))
    if oldest < floor:
        raise WriteExpired(
            f"a command must begin at chain position {floor} (FLOOR) or later, command "
            f"{submission.command_id} began at {oldest}: start the write again from the beginning",
            landed=Landed.UNKNOWN if submission.in_doubt else Landed.NO,
        )


def _allocate_producer(state: ClusterState, command: commands.AllocateProducer) -> ProducerAllocated:
    if command.in_doubt and None in (command.producer_id, command.producer_epoch):
        raise InvalidInput("batches in doubt belong to one producer and epoch: name both")
    if command.producer_id is None:
        return ProducerAllocated(ProducerId(state.next_producer_id), 0)
    producer = state.producers.get(ProducerId(command.producer_id))
    if producer is None:
        raise UnknownProducerId(f"producer {command.producer_id} is not known to the chain: ask for a new one")
    if command.producer_epoch not in (None, producer.producer_epoch):
        raise InvalidProducerEpoch(
            f"producer {producer.producer_id} is at epoch {producer.producer_epoch}, its next epoch was requested by "
            f"epoch {command.producer_epoch}: a newer instance is active"
        )
    for batch in command.in_doubt:
        check_not_landed(producer, batch)
    return ProducerAllocated(producer.producer_id, producer.producer_epoch + 1)
