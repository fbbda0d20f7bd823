"""Commits a write; if it is refused for a reason that may pass, submits it again under the same command id.

Nothing is uploaded again here, because an election does not change which stores hold an object. A write that was fenced
is submitted again under the new leader epoch. If the new leader's store lacks objects of the write, they are copied
there first. Once this has given up, a producer may upload again (`client/producer/sending.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from sparklog.chain.chain_requests import FIRST_PAUSE_MS, LONGEST_PAUSE_MS
from sparklog.client.commits.holder_copies import HolderCopies, lacking, with_present_holders
from sparklog.client.connection import Connection
from sparklog.client.plans.write_plan import TaskWritten, WritePlan
from sparklog.core.commands import Append, PartitionEpoch, Submission
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.decide.append import is_replicated
from sparklog.core.describe.readable import counted, duration
from sparklog.core.errors import (
    FencedLeaderEpoch,
    Landed,
    NoReplicaOnline,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RequestTimedOut,
    SparklogError,
    StaleBrokerEpoch,
    StoreUnavailable,
    UnknownLeaderEpoch,
)
from sparklog.core.maintenance.expired_writes import expired_writes
from sparklog.core.pauses import longer
from sparklog.core.purgatory import Replicated
from sparklog.core.records import CommandResult
from sparklog.core.replication.replica_append import Acks
from sparklog.core.state import ClusterState
from sparklog.core.types import StoreId
from sparklog.host.dice import jittered

log = logging.getLogger("sparklog")

# A producer tries again after these, as Kafka's does: a newer leader, a store that is back or an ISR that has grown
# may take the write.
_MAY_PASS = (
    FencedLeaderEpoch,
    UnknownLeaderEpoch,
    NotLeaderOrFollower,
    StaleBrokerEpoch,
    NoReplicaOnline,
    NotEnoughReplicas,
)


def commit_append(
    connection: Connection,
    plan: WritePlan,
    written: Sequence[TaskWritten],
    command: Append,
    timeout_ms: int,
    *,
    spent_ms: int = 0,
    refusals_ms: int | None = None,
) -> CommandResult:
    """Commit `command`, which appends the objects in `written`. Logs a warning for each store that lacks some of them.

    Also logs a warning for each topic with records that retention would remove at once, once per topic and connection.

    `timeout_ms` covers everything: attempts, copies, pauses, and, with `acks=all` and `pull`, the wait until the
    records are on every in-sync replica. `spent_ms` of it have already passed. `refusals_ms`: the time for further
    attempts after the first refusal (None: until `timeout_ms` is over).

    Raises the errors of `Committer.submit`. The wait for replicas may end with NotEnoughReplicasAfterAppend or
    RequestTimedOut: the write is committed even so, and the error's attribute `landed` is YES.
    """
    not_taken = {store: why for of_task in written for store, why in of_task.not_taken.items()}
    commit = _Commit(connection, plan, not_taken, timeout_ms, spent_ms, refusals_ms)
    result = commit.run(Submission(plan.command_id, plan.n0, command))
    warn_of_stores(plan, command, not_taken)
    _warn_of_expired(connection, command)
    return result


class _Commit:
    """The attempts to commit one write. `_reasons`: for each store that lacks objects, the reason as a text."""

    def __init__(
        self,
        connection: Connection,
        plan: WritePlan,
        not_taken: Mapping[StoreId, str],
        timeout_ms: int,
        spent_ms: int,
        refusals_ms: int | None,
    ) -> None:
        self._connection = connection
        self._plan = plan
        self._reasons = dict(not_taken)
        self._timeout_ms = timeout_ms
        self._refusals_ms = timeout_ms if refusals_ms is None else refusals_ms
        self._clock = connection.committer.clock
        self._deadline_ms = self._clock.monotonic_ms() + timeout_ms - spent_ms
        self._names = {topic.topic_id: topic.name for topic in plan.topics.values()}

    def run(self, submission: Submission) -> CommandResult:
        """Submit until the command is committed. Raises the last refusal when time is over, other errors at once."""
        end_ms = self._deadline_ms
        pause_ms = FIRST_PAUSE_MS
        tries = 1
        while True:
            try:
                result = self._connection.committer.submit(submission, max(1, self._left_ms()))
                if self._plan.durability.pull and self._plan.durability.acks is Acks.ALL:
                    self._await_followers(result)
                return result
            except _MAY_PASS as error:
                now_ms = self._clock.monotonic_ms()
                end_ms = min(end_ms, now_ms + self._refusals_ms)  # from the first refusal on
                if end_ms - now_ms <= pause_ms:
                    raise self._given_up(error, tries) from error
                in_doubt = submission.in_doubt or error.landed is not Landed.NO
            self._clock.pause(jittered(pause_ms))
            pause_ms = longer(pause_ms, LONGEST_PAUSE_MS)
            tries += 1
            command = submission.command
            assert isinstance(command, Append)
            submission = replace(submission, command=self._adapted(command), in_doubt=in_doubt)

    def _adapted(self, command: Append) -> Append:
        """Copy objects to stores that need and lack them. Returns the command adapted to the newest state.

        Its holders, its leader epochs and its flag `take_over` then fit that state. Returns `command` unchanged if the
        chain can't be read now.
        """
        try:
            state = self._connection.follower.catch_up().state
        except StoreUnavailable:  # the next submission waits for the chain
            return command
        wanted = lacking(state, command)
        if wanted:
            copies = HolderCopies(self._connection.stores(state), state, self._names)
            lag_ms = effective_cluster(state.config).replica_lag_time_max_ms
            command = copies.bring(command, wanted, min(max(1, self._left_ms()), lag_ms))
            self._reasons |= copies.failures
        pushed = command.acks is Acks.ALL and not command.pull
        take_over = pushed and (command.take_over or bool(lacking(state, command)))
        command = with_present_holders(state, command)
        return replace(command, epochs=_present_epochs(state, command), take_over=take_over)

    def _await_followers(self, result: CommandResult) -> None:
        """Wait until the high watermark has passed the write's records. They are committed even if this call raises."""
        follower, waiting = self._connection.follower, self._connection.waiting
        watch = waiting.watch(effective_cluster(follower.state.config).replica_fetch_wait_max_ms)
        while not is_replicated(follower.state, result.ranges):
            if self._left_ms() <= 0:
                raise RequestTimedOut(
                    f"the records are written, and were not on every in-sync replica within "
                    f"{duration(self._timeout_ms)}: they become visible once they are",
                    landed=Landed.YES,
                )
            watch.wait(Replicated(result.ranges), self._left_ms())

    def _left_ms(self) -> int:
        return self._deadline_ms - self._clock.monotonic_ms()

    def _given_up(self, error: SparklogError, tries: int) -> SparklogError:
        parts = [
            error.message,
            f"tried {counted(tries, 'time')} in {duration(min(self._timeout_ms, self._refusals_ms))}",
        ]
        parts += [f"store {store} did not take the write: {why}" for store, why in sorted(self._reasons.items())]
        return type(error)("; ".join(parts), landed=error.landed)


def _present_epochs(state: ClusterState, command: Append) -> tuple[PartitionEpoch, ...]:
    epochs = []
    for begun in command.epochs:
        partition = state.partition(begun.topic_id, begun.partition)
        epochs.append(begun if partition is None else replace(begun, leader_epoch=partition.replication.leader_epoch))
    return tuple(epochs)


def warn_of_stores(plan: WritePlan, command: Append, not_taken: Mapping[StoreId, str]) -> None:
    """Log a warning for each store that lacks some of a committed write. `not_taken`: see `TaskWritten`."""
    for store, why in sorted(not_taken.items()):
        count = counted(_partitions_without(plan, command, store), "partition")
        in_sync = command.acks is Acks.ALL and not command.pull
        log.warning(
            "store %s did not take the write: %s; %s until it has caught up",
            store,
            why,
            f"it leaves the ISR of {count}" if in_sync else f"it lacks records of {count}",
        )


def _warn_of_expired(connection: Connection, command: Append) -> None:
    at_ms = connection.committer.clock.now_ms()
    for write in expired_writes(connection.follower.state, command.slices, at_ms):
        if write.topic_id not in connection.warned_of_expired:
            connection.warned_of_expired.add(write.topic_id)
            log.warning("%s", write.warning(at_ms))


def _partitions_without(plan: WritePlan, command: Append, store: StoreId) -> int:
    """Number of the write's partitions for which `store` should have all objects, but lacks one or more."""
    topics = {topic.topic_id: topic for topic in plan.topics.values()}
    holders = [{holder.store for holder in named.holders} for named in command.objects]
    return len(
        {
            (slice_.topic_id, slice_.partition)
            for slice_ in command.slices
            if store not in holders[slice_.object_index]
            and any(holder.store == store for holder in topics[slice_.topic_id].stores_of(slice_.partition))
        }
    )
