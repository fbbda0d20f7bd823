"""What the chain's state machines ask of a shell, and how a shell does it.

A machine holds no store, clock, lock or dice. It hands out requests, a shell performs them in any way it likes (in
threads, in an event loop, under a test's control) and gives each reply back, an error of the store like a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparklog.storage.object_store import Bytes

FIRST_PAUSE_MS = 10.0
LONGEST_PAUSE_MS = 2_000.0


class Request:
    """One thing to do. Two equal requests are two: replies find theirs by identity."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Put(Request):
    """Put `body` under `key` if nothing is there. Reply: None, or what `ObjectStore.put_if_absent` raises."""

    key: str
    body: Bytes


@dataclass(frozen=True, slots=True, eq=False)
class Get(Request):
    """Read an object. Reply: its bytes, or what `ObjectStore.get` raises."""

    key: str


@dataclass(frozen=True, slots=True, eq=False)
class GetMany(Request):
    """Read objects at once. Reply: the bytes of each, None where there is nothing, or the first other error."""

    keys: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class LoadSnapshot(Request):
    """Load the newest snapshot. Reply: a `Head`, None if there is no snapshot, or what reading it raises."""


@dataclass(frozen=True, slots=True, eq=False)
class Pause(Request):
    """Wait for `longest_ms`, or, so that many who wait do not act at once, for anything down to half of it."""

    longest_ms: float


Reply = object


@dataclass(frozen=True, slots=True)
class Now:
    """What a machine may know of the moment: clocks, and an id that nobody has drawn before.

    `wall_ms` becomes the time of an entry and never decides anything; `monotonic_ms` is for deadlines; `nonce` tells
    two entries of equal content apart.
    """

    wall_ms: int
    monotonic_ms: int
    nonce: str


def longer(pause_ms: float) -> float:
    """The pause after one of `pause_ms`."""
    return min(pause_ms * 2, LONGEST_PAUSE_MS)
