"""The requests that the chain's machines (`core/machine.py`) make of a shell, and the reply to each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from sparklog.chain.head import Head
from sparklog.core.errors import KeyNotFound, SparklogError
from sparklog.core.machine import Machine
from sparklog.storage.object_store import Bytes

FIRST_PAUSE_MS = 10.0
LONGEST_PAUSE_MS = 2_000.0


class Request:
    """A request of a machine to its shell. A reply belongs to a request object, even if another request is equal."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Put(Request):
    """Put `body` under `key` if the key is free. Reply: None, or the error of `ObjectStore.put_if_absent`."""

    key: str
    body: Bytes


@dataclass(frozen=True, slots=True, eq=False)
class Get(Request):
    """Read an object. Reply: its bytes, or the error of `ObjectStore.get`."""

    key: str


@dataclass(frozen=True, slots=True, eq=False)
class GetMany(Request):
    """Read several objects at once. Reply: a list of bodies (None: the object is missing), or the first other error."""

    keys: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class LoadSnapshot(Request):
    """Load the newest snapshot. Reply: a `Head`, None if there is no snapshot, or the error of reading it."""


@dataclass(frozen=True, slots=True, eq=False)
class MirrorEntry(Request):
    """Put the newest entry, `head.n`, on as many mirrors as the config in `head` asks for.

    Each of them also gets the earlier entries that it lacks. `body` is the body of the entry; None if it was deleted as
    old. Reply: None, or an error; `InconsistentClusterId` if the cluster was restored elsewhere.
    """

    head: Head
    body: bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class Pause(Request):
    """Wait for a random time between half of `longest_ms` and all of it, so that many waiters don't act at once."""

    longest_ms: float


Reply = object


@dataclass(frozen=True, slots=True)
class Now:
    """The time that a machine gets with a reply, by two clocks, and a fresh id.

    `wall_ms`: milliseconds since 1970. It becomes the time of an entry, and decides nothing in the machine.
    `monotonic_ms` is for deadlines. `nonce`, the id, makes entries with equal content distinct.
    """

    wall_ms: int
    monotonic_ms: int
    nonce: str


T = TypeVar("T")
ChainMachine = Machine[Request, tuple[Reply, Now], T]


def check_answered(reply: Reply) -> None:
    """Raise `reply` if it is an error other than KeyNotFound, which is an answer: the key is free."""
    if isinstance(reply, SparklogError) and not isinstance(reply, KeyNotFound):
        raise reply


def many(keys: Sequence[str]) -> ChainMachine[list[bytes | None]]:
    """Read the objects under these keys. Return their bodies, None for a missing one. Raises the first other error."""
    reply, _ = yield GetMany(keys)
    if isinstance(reply, SparklogError):
        raise reply
    bodies: list[bytes | None] = reply  # type: ignore[assignment]
    return bodies
