"""Decides which connections a server may drop, and when.

The connections are kept in order of time, so a decision takes no longer with 100,000 connections than with one. No I/O,
no clock: times are seconds of any monotonic clock, given as arguments.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar


class State(Enum):
    """The state of a connection. The value of each member says what the state means."""

    HANDSHAKE = "it is accepted, but its TLS handshake, if it needs one, is not complete"
    REFUSED = "it is accepted, but its only answer will be that there are too many connections"
    SILENT = "it never sent a byte"
    IDLE = "its last request was answered"
    RECEIVING = "its request is not complete"
    ANSWERING = "its request is being handled"
    STUCK = "it does not read its reply"
    LINGERING = "its last answer was sent, and further input is thrown away"


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of a server on its connections. Names that end in `_s` are times in seconds.

    The TLS handshake must be complete within `request_s`. After it, the first byte must arrive within `request_s`, and
    the head of a request must be complete within `request_s`. A body must be complete within `request_s`, or else grow
    by `body_bytes` in each `request_s`. A client that is slow to read its reply must read at least `body_bytes` of it
    in each `request_s`.
    """

    connections: int = 20_000  # at 10 to 20 KiB each a few hundred MiB
    request_s: float = 10.0
    idle_s: float = 90.0  # longer than uvicorn's own; this one also drops clients that do not read the end of a reply
    linger_s: float = 2.0
    body_bytes: int = 128 * 2**10
    head_bytes: int = 64 * 2**10
    pipelined: int = 32  # requests of one connection that wait for earlier ones
    lingering: int = 128  # connections at once, in addition to the others
    refusing: int = 128  # connections at once, in addition to the others
    sweep_s: float = 1.0
    evict_receiving_s: float = 1.0  # an honest client sends the head of a request in less


C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Admission(Generic[C]):
    """The way to accept a new connection: its first state, and the connection to drop for it, if any."""

    state: State
    victim: C | None = None


class ConnectionTable(Generic[C]):
    """The open connections, each in one state; those in the same state are ordered by the time when they entered it."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._states: dict[C, State] = {}
        self._since: dict[State, OrderedDict[C, float]] = {state: OrderedDict() for state in State}
        self._allowed_s = {
            State.HANDSHAKE: limits.request_s,
            State.REFUSED: limits.request_s,
            State.SILENT: limits.request_s,
            State.IDLE: limits.idle_s,
            State.RECEIVING: limits.request_s,
            State.STUCK: limits.request_s,
            State.LINGERING: limits.linger_s,
        }

    def __len__(self) -> int:
        return len(self._states)

    def count(self, state: State) -> int:
        """The number of connections in this state."""
        return len(self._since[state])

    def state(self, connection: C) -> State | None:
        """The state of a connection; None if it is not in the table."""
        return self._states.get(connection)

    @property
    def is_full(self) -> bool:
        """True if no further connection is allowed. Lingering and refused connections do not count."""
        beside = self.count(State.LINGERING) + self.count(State.REFUSED)
        return len(self._states) - beside >= self.limits.connections

    def admission(self, now_s: float) -> Admission[C] | None:
        """The way to accept one more connection; None if it has to wait in the listener's backlog."""
        if not self.is_full:
            return Admission(State.HANDSHAKE)
        victim = self.victim(now_s)
        if victim is not None:
            return Admission(State.HANDSHAKE, victim)
        return Admission(State.REFUSED) if self.count(State.REFUSED) < self.limits.refusing else None

    def enter(self, connection: C, state: State, now_s: float) -> None:
        """Put a connection, new or known, into this state. Its time in the state begins at `now_s`."""
        self.leave(connection)
        self._states[connection] = state
        self._since[state][connection] = now_s

    def leave(self, connection: C) -> None:
        """Remove a connection that was closed."""
        state = self._states.pop(connection, None)
        if state is not None:
            del self._since[state][connection]

    def victim(self, now_s: float) -> C | None:
        """The connection to drop so that a new one can be admitted; None if no connection may be dropped now.

        It is the connection that has been SILENT, or in its HANDSHAKE, for the longest time. If there is none, it is
        the one that has been IDLE longest. If none is IDLE either, it is the one that has been RECEIVING longest, if it
        has been so for at least `ConnectionLimits.evict_receiving_s`.
        """
        longest = (self._longest(state) for state in (State.HANDSHAKE, State.SILENT))
        if silent := [connection for connection in longest if connection is not None]:
            return min(silent, key=lambda connection: connection[1])[0]
        if idle := self._longest(State.IDLE):
            return idle[0]
        receiving = self._longest(State.RECEIVING)
        if receiving is not None and now_s >= receiving[1] + self.limits.evict_receiving_s:
            return receiving[0]
        return None

    def _longest(self, state: State) -> tuple[C, float] | None:
        """The connection that has been in this state longest, and since when."""
        return next(iter(self._since[state].items()), None)

    def overdue(self, now_s: float) -> Iterator[tuple[C, State]]:
        """The connections that have been in their state for longer than allowed, each with its state.

        Connections may enter and leave states during the iteration.
        """
        for state, allowed_s in self._allowed_s.items():
            since = self._since[state]
            late = []
            for connection, since_s in since.items():
                if now_s < since_s + allowed_s:
                    break
                late.append((connection, state))
            yield from late
