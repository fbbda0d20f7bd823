"""The requests of the agent to its shell, and its human-readable notes. Any reply may be a SparklogError instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sparklog.core.commands import Command
from sparklog.core.machine import Machine
from sparklog.core.placement.held_objects import HeldObject
from sparklog.core.placement.replica_fetch import ObjectToFetch
from sparklog.core.types import EntryNumber
from sparklog.log.incarnation import Incarnation


@dataclass(frozen=True, slots=True, eq=False)
class Follow:
    """Catch up with the chain. Reply: the ClusterState."""


@dataclass(frozen=True, slots=True, eq=False)
class Submit:
    """Submit a new command to the chain. Reply: its CommandResult."""

    command: Command


@dataclass(frozen=True, slots=True, eq=False)
class ReadIncarnation:
    """Read the INCARNATION of the agent's store. Reply: an Incarnation, or None if the store has no such file."""


@dataclass(frozen=True, slots=True, eq=False)
class PutIncarnation:
    """Put this INCARNATION into the agent's store if it has none. Reply: None, even if it had one already."""

    mark: Incarnation


@dataclass(frozen=True, slots=True, eq=False)
class LookForObject:
    """Look for an object on the agent's store. Reply: True if it is there in full length, False if not."""

    held: HeldObject


@dataclass(frozen=True, slots=True, eq=False)
class Fetch:
    """Copy an object to the agent's store, and check that the store's INCARNATION is the registered one.

    Reply: a FetchResult, which also lists the failures of the stores that were asked for the object. If the reply is an
    error, the agent's own store is the cause.
    """

    wanted: ObjectToFetch


@dataclass(frozen=True, slots=True, eq=False)
class SendHeartbeat:
    """Send a heartbeat to the coordinator: the agent is running. Reply: None."""

    registration: int


@dataclass(frozen=True, slots=True, eq=False)
class AwaitNews:
    """Ask the coordinator to reply once an entry newer than `seen` concerns the store, or when `longest_ms` are over.

    Reply: True if there was such an entry, False if not, None if no coordinator can be asked. An error counts as False.
    """

    seen: EntryNumber
    longest_ms: int


Request = Follow | Submit | ReadIncarnation | PutIncarnation | LookForObject | Fetch | SendHeartbeat | AwaitNews
Reply = object


@dataclass(frozen=True, slots=True, eq=False)
class AllOf:
    """Perform these requests in parallel. Reply: the list of their replies, in the same order."""

    requests: Sequence[Request]


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """Wait until `until_ms`, on the clock of `Agent.step`. Reply: None.

    Without `for_copies`, the wait ends earlier only if the agent is to stop.

    With `for_copies`, it ends earlier if there are fetched objects to report, if AwaitNews was answered with True, or
    if the agent is to stop and no copy is under way. If an idle agent waits for a reply to AwaitNews that is due later
    than `until_ms`, the wait lasts until that reply is due.
    """

    until_ms: float
    for_copies: bool


T = TypeVar("T")
AgentMachine = Machine[Request | AllOf | Wait, Any, T]


@dataclass(frozen=True, slots=True)
class Note:
    """A human-readable note. `event` is one of up, behind, caught-up, lag, error, loss, down."""

    event: str
    text: str
