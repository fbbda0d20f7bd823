"""A flush of a producer: what waited together, and what a sender thread is asked to do with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, Protocol

from sparklog.core.errors import SparklogError
from sparklog.core.types import TopicPartition

ATTEMPT_MS: Final = 5_000  # of one attempt to commit, while a partition has no leader or there is no answer


class Rows(Protocol):
    """The records of a flush, as whoever sends them has them."""

    def only(self, parts: Collection[TopicPartition]) -> Rows:
        """The records of these partitions, in the same order."""
        ...


class Stage(Enum):
    """Where a flush is. With ROUTING, UPLOADING and COMMITTING a sender thread is at work on it."""

    ROUTING = auto()
    ROUTED = auto()
    UPLOADING = auto()
    UPLOADED = auto()
    COMMITTING = auto()


@dataclass(eq=False, slots=True)
class Flush:
    """Records that waited together, or those of some of their partitions.

    `order` rises with every take; the parts of one take share it, and no partition. `parts`: the number of records of
    each partition, None until they are known. `upload` is the sender's: what was uploaded. `numbers`: the first
    sequences of the commit that is under way, in doubt, or not on all replicas yet.

    `parked`: its partitions can't be written to for now. `patient`: it is committed only once the earlier flushes of
    its partitions are settled. `alone`: they were settled when its last commit began. `error`: what the last attempt
    ended with.
    """

    order: int
    since_ms: int
    rows: Rows
    parts: dict[TopicPartition, int] | None = None
    stage: Stage = Stage.ROUTING
    upload: Any = None
    numbers: dict[TopicPartition, int] | None = None
    in_doubt: bool = False
    is_written: bool = False
    parked: bool = False
    patient: bool = False
    alone: bool = False
    tries: int = 0
    attempt_ms: int = ATTEMPT_MS
    not_before_ms: int = 0
    error: SparklogError | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has certainly not landed, and no commit of it is under way."""
        return self.numbers is None

    def shares(self, other: Flush) -> bool:
        """Whether both have records of one partition, or may have."""
        return self.parts is None or other.parts is None or not self.parts.keys().isdisjoint(other.parts)

    def part(self, parts: Mapping[TopicPartition, int], *, parked: bool = False) -> Flush:
        """The records of these partitions as a flush of their own, routed."""
        return Flush(
            self.order,
            self.since_ms,
            self.rows.only(parts),
            dict(parts),
            Stage.ROUTED,
            parked=parked,
            tries=self.tries,
            attempt_ms=self.attempt_ms,
            error=self.error,
        )


@dataclass(frozen=True, slots=True)
class Upload:
    """Upload the rows of this flush."""

    flush: Flush
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit what this flush has uploaded, with these first sequences."""

    flush: Flush
    producer_id: int
    producer_epoch: int
    first_sequences: Mapping[TopicPartition, int]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Renew:
    """Ask for the next epoch of this producer, which is at `producer_epoch`; for a new producer if both are None."""

    producer_id: int | None
    producer_epoch: int | None
    timeout_ms: int = ATTEMPT_MS


Work = Upload | Commit | Renew


@dataclass(frozen=True, slots=True)
class Failed:
    """This flush failed for good; the error says whether it has landed."""

    flush: Flush
    error: SparklogError
