"""Checks that this process can commit commands: the coordinator in force leads, and accepts the process's token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sparklog.client.commits.delivery import advice
from sparklog.client.connection import Connection
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.coordination import NO_COORDINATOR, Coordinator
from sparklog.core.describe.readable import duration
from sparklog.core.errors import AuthenticationFailed, SparklogError

PATIENCE_MS: Final = 5_000  # for an answer; a paused or hanging coordinator gives none
_LOOKS: Final = 3  # a coordinator may take over between two looks


@dataclass(frozen=True, slots=True)
class CoordinatorHealth:
    """The result of a check. `committer`: a text that says which process commits, as "c1 at https://… leads, epoch 3".

    `problem`: the reason why writes of this process fail; "" if they work.
    """

    committer: str
    problem: str = ""


def check_coordinator(connection: Connection) -> CoordinatorHealth:
    """Check that the coordinator in force answers as the leader, and accepts the token of this process.

    If no coordinator is in force, that is a problem only for a process that knows the cluster just by addresses of
    coordinators: it can't commit by itself. Waits at most `calls.CONNECT_S` seconds for a connection, then at most
    `PATIENCE_MS` for each answer.
    """
    known = connection.follower.catch_up().state.coordinator
    for _ in range(_LOOKS):
        if not known.in_force:
            return _without(connection)
        problem = _problem(connection, known)
        asked, known = known, connection.follower.catch_up().state.coordinator
        if not problem:
            return CoordinatorHealth(f"{asked.name} at {asked.address} leads, epoch {asked.epoch}")
        if known.epoch == asked.epoch and known.in_force:
            break
    return CoordinatorHealth(f"{asked.name} at {asked.address} should lead, epoch {asked.epoch}", problem)


def _without(connection: Connection) -> CoordinatorHealth:
    if connection.coordinators is None:
        return CoordinatorHealth("no coordinator: each process commits by itself")
    return CoordinatorHealth(
        "none", f"writes fail: no coordinator leads; {advice(NO_COORDINATOR, may_commit_here=False)}"
    )


def _problem(connection: Connection, known: Coordinator) -> str:
    leader = f"{known.name} coordinates the cluster, epoch {known.epoch}, but"
    mend = advice(known, may_commit_here=connection.coordinators is None)
    try:
        if connection.committer.answers_as_leader(known, PATIENCE_MS):
            connection.committer.check_token(known, PATIENCE_MS)
            return ""
    except AuthenticationFailed as error:
        return f"writes from here fail: {leader} {error.message}"
    except SparklogError as error:  # another machine may reach it
        return f"writes from here fail: {leader} {error.message}; {mend}"
    session = duration(effective_cluster(connection.follower.state.config).broker_session_timeout_ms)
    return (
        f"writes fail: {leader} the process at {known.address} stands by; a standby takes over within {session}; {mend}"
    )
