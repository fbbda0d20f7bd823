"""The requests to a coordinator, and its replies.

POST /v1/submit            SubmitRequest -> SubmitReply, or ErrorReply with an HTTP status of 400 and more if all failed
POST /v1/heartbeat         Heartbeat -> ClusterReply
POST /v1/member-heartbeat  MemberHeartbeat -> ClusterReply
POST /v1/wait              WaitRequest -> WaitReply, once it is done, or after its time
GET  /v1/cluster           -> ClusterReply
GET  /readyz               -> a line of text: "leads, epoch N" or "stands by, epoch N"; with 503, that nobody leads
"""

from __future__ import annotations

import msgspec

from sparklog.core.commands import Submission
from sparklog.core.coordination import Coordinator
from sparklog.core.purgatory import Wanted
from sparklog.core.records import CommandResult
from sparklog.core.types import EntryNumber, StoreId
from sparklog.wire.error_messages import ErrorReply

SUBMIT = "/v1/submit"
HEARTBEAT = "/v1/heartbeat"
MEMBER_HEARTBEAT = "/v1/member-heartbeat"
WAIT = "/v1/wait"
CLUSTER = "/v1/cluster"
READYZ = "/readyz"
LEADS, STANDS_BY, NOBODY_LEADS = "leads", "stands by", "nobody coordinates the cluster yet"  # answers of READYZ
CONTENT_TYPE = "application/msgpack"
JSON = "application/json"


MAX_COMMANDS = 1_000  # in one request


class SubmittedCommand(msgspec.Struct, frozen=True):
    """A command of a request. `timeout_ms`: how long it may try to win a slot."""

    submission: Submission
    timeout_ms: int


class SubmitRequest(msgspec.Struct, frozen=True):
    """Commit commands, each on its own: one may be refused and the others applied. At most MAX_COMMANDS.

    `seen` is the greatest chain position that the sender has seen: the answer is no older.
    """

    chain_id: str
    seen: EntryNumber
    commands: tuple[SubmittedCommand, ...]


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one command: it was applied, with this result, or this error ended it."""

    result: CommandResult | None = None
    error: ErrorReply | None = None


class SubmitReply(msgspec.Struct, frozen=True):
    """The outcomes, in the order of the commands. `position` is the newest entry that the coordinator has read."""

    position: EntryNumber
    outcomes: tuple[Outcome, ...]


class Heartbeat(msgspec.Struct, frozen=True):
    """The agent of a store is at work."""

    chain_id: str
    store: StoreId
    registration: int


class MemberHeartbeat(msgspec.Struct, frozen=True):
    """A member of a consumer group is at work. No entry of the chain says so: the coordinator remembers it."""

    chain_id: str
    group: str
    member_id: str


class WaitRequest(msgspec.Struct, frozen=True):
    """Answer once the chain has what is `wanted`, after `max_wait_ms` at the latest (`fetch.max.wait.ms`).

    `seen` is the greatest chain position that the sender has seen. A coordinator may answer sooner.
    """

    chain_id: str
    seen: EntryNumber
    wanted: Wanted
    max_wait_ms: int


class WaitReply(msgspec.Struct, frozen=True):
    """`position` is the newest entry that the coordinator has read. `done`: there is no reason to wait any longer.

    What there is instead, the chain says.
    """

    position: EntryNumber
    done: bool


class ClusterReply(msgspec.Struct, frozen=True):
    """Which cluster this is, where its metadata lives, and who coordinates it as far as the asked process knows."""

    chain_id: str
    metadata: str
    position: EntryNumber
    coordinator: Coordinator
