"""The requests to a coordinator, and its replies.

POST /v1/submit     SubmitRequest -> SubmitReply, or ErrorReply with an HTTP status of 400 and more
POST /v1/heartbeat  Heartbeat -> ClusterReply
POST /v1/wait       WaitRequest -> WaitReply, once it is done, or after its time
GET  /v1/cluster    -> ClusterReply
"""

from __future__ import annotations

import msgspec

from sparklog.core.commands import Submission
from sparklog.core.coordinators import Coordinator
from sparklog.core.purgatory import Wanted
from sparklog.core.records import CommandResult
from sparklog.core.types import EntryNumber, StoreId

SUBMIT = "/v1/submit"
HEARTBEAT = "/v1/heartbeat"
WAIT = "/v1/wait"
CLUSTER = "/v1/cluster"
CONTENT_TYPE = "application/msgpack"
JSON = "application/json"


class SubmitRequest(msgspec.Struct, frozen=True):
    """Commit a command. `seen` is the greatest chain position that the sender has seen: the answer is no older.

    `timeout_ms`: how long the command may try to win a slot.
    """

    chain_id: str
    seen: EntryNumber
    submission: Submission
    timeout_ms: int


class SubmitReply(msgspec.Struct, frozen=True):
    """The command was applied. `position` is the newest entry that the coordinator has read."""

    position: EntryNumber
    result: CommandResult


class Heartbeat(msgspec.Struct, frozen=True):
    """The agent of a store is at work."""

    chain_id: str
    store: StoreId
    registration: int


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
