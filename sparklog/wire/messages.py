"""The requests to a coordinator, and its replies.

POST /v1/submit            SubmitRequest -> SubmitReply, or ErrorReply (status 400 or more) if the whole request fails
POST /v1/heartbeat         Heartbeat -> ClusterReply
POST /v1/member-heartbeat  MemberHeartbeat -> ClusterReply
POST /v1/wait              WaitRequest -> WaitReply, when the wait is over
GET  /v1/cluster           -> ClusterReply
GET  /readyz               -> a line of text: "leads, epoch N" or "stands by, epoch N"; 503 if no coordinator leads
"""

from __future__ import annotations

import msgspec

from sparklog.core.commands import Submission
from sparklog.core.coordination import Coordinator
from sparklog.core.purgatory import WaitCondition
from sparklog.core.records import CommandResult
from sparklog.core.types import CommandStoreId, EntryNumber, Name
from sparklog.wire.error_messages import ErrorReply

SUBMIT = "/v1/submit"
HEARTBEAT = "/v1/heartbeat"
MEMBER_HEARTBEAT = "/v1/member-heartbeat"
WAIT = "/v1/wait"
CLUSTER = "/v1/cluster"
READYZ = "/readyz"
LEADS, STANDS_BY, NO_LEADER = "leads", "stands by", "no coordinator leads the cluster yet"  # answers of READYZ
CONTENT_TYPE = "application/msgpack"
JSON = "application/json"


MAX_COMMANDS = 1_000  # in one request


class SubmittedCommand(msgspec.Struct, frozen=True):
    """A command of a request. `timeout_ms`: how long the coordinator may try to win a slot for it."""

    submission: Submission
    timeout_ms: int


class SubmitRequest(msgspec.Struct, frozen=True):
    """Commands to commit, each on its own: one may be refused and the others applied. At most MAX_COMMANDS.

    `seen` is the greatest chain position that the sender has seen. The coordinator first reads the chain up to it, or
    further.
    """

    chain_id: Name
    seen: EntryNumber
    commands: tuple[SubmittedCommand, ...]


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """Outcome of one command: the result if it was applied, otherwise the error that ended it."""

    result: CommandResult | None = None
    error: ErrorReply | None = None


class SubmitReply(msgspec.Struct, frozen=True):
    """The outcomes, in the order of the commands. `position` is the newest entry that the coordinator has read."""

    position: EntryNumber
    outcomes: tuple[Outcome, ...]


class Heartbeat(msgspec.Struct, frozen=True):
    """Says that the agent of a store is at work."""

    chain_id: Name
    store: CommandStoreId
    registration: int


class MemberHeartbeat(msgspec.Struct, frozen=True):
    """Says that a member of a consumer group is at work. The coordinator remembers it; the chain gets no entry."""

    chain_id: Name
    group: Name
    member_id: Name


class WaitRequest(msgspec.Struct, frozen=True):
    """Asks for a reply once the chain has what is `wanted`, or after `max_wait_ms` (Kafka's `fetch.max.wait.ms`).

    `seen` is the greatest chain position that the sender has seen. A coordinator may also reply earlier, with a
    WaitReply whose `done` is false.
    """

    chain_id: Name
    seen: EntryNumber
    wanted: WaitCondition
    max_wait_ms: int


class WaitReply(msgspec.Struct, frozen=True):
    """The end of a wait. `position` is the newest entry that the coordinator has read.

    `done` is true if there is no reason to wait any longer. Read the chain to learn why.
    """

    position: EntryNumber
    done: bool


class ClusterReply(msgspec.Struct, frozen=True):
    """The cluster's id, the address of its metadata, and its coordinator, as far as the answering process knows.

    `position` is the newest entry that this process has read.
    """

    chain_id: str
    metadata: str
    position: EntryNumber
    coordinator: Coordinator
