"""Which connections a server may drop, and when: kept in order, so that a hundred thousand cost no more than one.

No I/O, no clock: times are seconds of any monotonic clock, given as arguments.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar


class State(Enum):
    """What a connection is doing."""

    SILENT = "it never sent a byte"
    IDLE = "its last request was answered"
    RECEIVING = "its request is not complete"
    ANSWERING = "its request is being handled"
    STUCK = "it does not read its reply"
    LINGERING = "it was answered for the last time, and what it still sends is thrown away"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a server. Times in seconds.

    `request_s`: for the first byte of a connection, and for the head of a request. A body, and a reply that the client
    is slow to read, must move by `body_bytes` in each `request_s`, or be complete.
    """

    connections: int = 20_000  # at 10 to 20 KiB each a few hundred MiB
    request_s: float = 10.0
    idle_s: float = 90.0  # longer than uvicorn's own: this one also drops those that do not read the end of a reply
    linger_s: float = 2.0
    body_bytes: int = 128 * 2**10
    head_bytes: int = 64 * 2**10
    pipelined: int = 32  # requests of one connection that wait for the one before them
    lingering: int = 128  # connections at once; they come on top of the others
    sweep_s: float = 1.0
    evict_receiving_s: float = 1.0  # an honest client sends the head of a request in less


C = TypeVar("C")


class ConnectionTable(Generic[C]):
    """The open connections, each in one state; those of a state in the order in which they came into it."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._states: dict[C, State] = {}
        self._since: dict[State, OrderedDict[C, float]] = {state: OrderedDict() for state in State}
        self._allowed_s = {
            State.SILENT: limits.request_s,
            State.IDLE: limits.idle_s,
            State.RECEIVING: limits.request_s,
            State.STUCK: limits.request_s,
            State.LINGERING: limits.linger_s,
        }

    def __len__(self) -> int:
        return len(self._states)

    def count(self, state: State) -> int:
        """How many are in this state."""
        return len(self._since[state])

    def state(self, connection: C) -> State | None:
        """The state of a connection; None if it is not here any more."""
        return self._states.get(connection)

    @property
    def is_full(self) -> bool:
        """Whether a further connection would be one too many."""
        return len(self._states) - self.count(State.LINGERING) >= self.limits.connections

    def enter(self, connection: C, state: State, now_s: float) -> None:
        """The connection is in this state from now on."""
        self.leave(connection)
        self._states[connection] = state
        self._since[state][connection] = now_s

    def leave(self, connection: C) -> None:
        """The connection is closed."""
        state = self._states.pop(connection, None)
        if state is not None:
            del self._since[state][connection]

    def victim(self, now_s: float) -> C | None:
        """The connection that makes room for a new one: idle ones first, the longest; None if all are at work."""
        for state in (State.SILENT, State.IDLE):
            if self._since[state]:
                return next(iter(self._since[state]))
        for connection, since_s in self._since[State.RECEIVING].items():
            return connection if now_s >= since_s + self.limits.evict_receiving_s else None
        return None

    def overdue(self, now_s: float) -> Iterator[tuple[C, State]]:
        """The connections whose time is over. They may enter and leave states meanwhile."""
        for state, allowed_s in self._allowed_s.items():
            since = self._since[state]
            late = []
            for connection, since_s in since.items():
                if now_s < since_s + allowed_s:
                    break
                late.append((connection, state))
            yield from late
