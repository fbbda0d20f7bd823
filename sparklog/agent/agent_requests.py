"""The requests of the agent to its shell, and its notes for people. Every reply may be a SparklogError instead."""

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
    """Commit a command that begins now. Reply: its CommandResult."""

    command: Command


@dataclass(frozen=True, slots=True, eq=False)
class ReadIncarnation:
    """Read the INCARNATION of the agent's store. Reply: an Incarnation, or None if there is none."""


@dataclass(frozen=True, slots=True, eq=False)
class PutIncarnation:
    """Put this INCARNATION into the agent's store if it has none. Reply: None, even if there was one already."""

    mark: Incarnation


@dataclass(frozen=True, slots=True, eq=False)
class LookForObject:
    """Look for an object on the agent's store. Reply: True if it is there, with its length."""

    held: HeldObject


@dataclass(frozen=True, slots=True, eq=False)
class Fetch:
    """Copy an object to the agent's store (`object_copy.fetch_object`), and check that the store is still in its life.

    Reply: a Fetched. An error is the error of the agent's store.
    """

    wanted: ObjectToFetch


@dataclass(frozen=True, slots=True, eq=False)
class SendHeartbeat:
    """Send a heartbeat to the coordinator: the agent is at work. Reply: None."""

    registration: int


@dataclass(frozen=True, slots=True, eq=False)
class AwaitNews:
    """Wait at most `longest_ms` until entries after `seen` have something for the store. Reply: True if they have.

    None if no coordinator can be asked. Any reply but True counts as no news.
    """

    seen: EntryNumber
    longest_ms: int


Request = Follow | Submit | ReadIncarnation | PutIncarnation | LookForObject | Fetch | SendHeartbeat | AwaitNews
Reply = object


@dataclass(frozen=True, slots=True, eq=False)
class AllOf:
    """Perform these requests at once. Reply: the list of their replies."""

    requests: Sequence[Request]


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """Wait until this time; if `for_copies`, at most until a batch of copies has ended. Reply: None."""

    until_ms: float
    for_copies: bool


T = TypeVar("T")
AgentMachine = Machine[Request | AllOf | Wait, Any, T]


@dataclass(frozen=True, slots=True)
class Note:
    """A change of the agent's state, for people: `event` is one of up, behind, caught-up, lag, error, loss, down."""

    event: str
    text: str
