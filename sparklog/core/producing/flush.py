"""A flush of a producer: records that waited together, and the work that a sender thread is asked to do with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Final, Protocol

from sparklog.core.commands import AllocateProducer
from sparklog.core.errors import Landed, SparklogError
from sparklog.core.types import TopicPartition

ATTEMPT_MS: Final = 5_000  # longest time of one attempt to commit, while a partition has no leader or no answer comes


class Rows(Protocol):
    """The records of a flush, in whatever form its sender uses."""

    def only(self, parts: Collection[TopicPartition]) -> Rows:
        """The records of the partitions `parts`, in the same order."""
        ...


class Stage(Enum):
    """The stage of a flush: a sender works on it, or it waits for a sender."""

    ROUTING = auto()  # a sender finds its partitions
    ROUTED = auto()  # it waits for an upload
    UPLOADING = auto()
    UPLOADED = auto()  # it waits for a commit
    OUT_OF_ORDER = auto()  # the same, but first all earlier flushes of its partitions must be settled
    COMMITTING = auto()
    COMMITTING_ALONE = auto()  # the same, and all earlier flushes of its partitions were settled when it began


@dataclass(eq=False, slots=True)
class Flush:
    """Records that are sent together: all that waited at one time, or those of some of their partitions.

    If flushes of one partition are joined, a single flush commits them all: they are in its `joined`, in their order,
    and its `rows` is None.

    `order`: a number that rises each time that waiting records are taken. Records taken together may be split by
    partition into several flushes, which then have the same order. `parts`: the number of records of each partition;
    empty in stage ROUTING. `upload`: the uploaded objects, in the sender's form. `numbers`: the first sequence in each
    partition, as in the last commit; None if that commit has certainly not landed, or if there was none. `landed`: NO
    if no commit has landed, as far as replies say; YES if one has, but not on enough replicas yet; UNKNOWN if one is in
    doubt.

    `parked`: its partitions can't be written to for now. `tries`: the pauses between attempts so far. `error`: the
    error of the last attempt.
    """

    order: int
    since_ms: int
    rows: Rows | None
    parts: Mapping[TopicPartition, int] = field(default_factory=dict)
    stage: Stage = Stage.ROUTING
    upload: Any = None
    numbers: dict[TopicPartition, int] | None = None
    landed: Landed = Landed.NO
    parked: bool = False
    tries: int = 0
    attempt_ms: int = ATTEMPT_MS
    not_before_ms: int = 0
    error: SparklogError | None = None
    joined: tuple[Flush, ...] = ()

    @property
    def pieces(self) -> tuple[Flush, ...]:
        """The flushes that have the rows: those in `joined`, or only this flush if `joined` is empty."""
        return self.joined or (self,)

    @property
    def is_open(self) -> bool:
        """True if the flush has certainly not landed, and no commit of it is under way."""
        return self.numbers is None

    @property
    def in_doubt(self) -> bool:
        """True if a commit of the flush is in doubt: it may have landed, or may land later."""
        return self.landed is Landed.UNKNOWN

    @property
    def is_idle(self) -> bool:
        """True if no sender works on the flush."""
        return self.stage is Stage.ROUTED or self.is_uploaded

    @property
    def is_uploaded(self) -> bool:
        """True if the flush waits for a commit."""
        return self.stage in (Stage.UPLOADED, Stage.OUT_OF_ORDER)

    @property
    def is_committing(self) -> bool:
        """True if a commit of the flush is under way."""
        return self.stage in (Stage.COMMITTING, Stage.COMMITTING_ALONE)

    def shares(self, other: Flush) -> bool:
        """True if both flushes have, or may have, records of the same partition."""
        return Stage.ROUTING in (self.stage, other.stage) or not self.parts.keys().isdisjoint(other.parts)

    def part(self, parts: Mapping[TopicPartition, int]) -> Flush:
        """Return a flush with only the records of these partitions, in stage ROUTED.

        This flush must be open, and not a joined one.
        """
        assert self.rows is not None
        rows = self.rows.only(parts)
        return replace(
            self, rows=rows, parts=dict(parts), stage=Stage.ROUTED, upload=None, parked=False, not_before_ms=0
        )

    def of(self, pieces: Sequence[Flush]) -> Flush:
        """Return a copy of this flush, in stage ROUTED, with the records of `pieces` in place of its own.

        This joins flushes, or splits a joined one. This flush and all pieces must be of the same single partition.
        """
        (key,) = self.parts
        parts = {key: sum(piece.parts.get(key, 0) for piece in pieces)}
        rows, joined = (pieces[0].rows, ()) if len(pieces) == 1 else (None, tuple(pieces))
        return replace(
            self,
            order=pieces[0].order,
            since_ms=pieces[0].since_ms,
            rows=rows,
            joined=joined,
            parts=parts,
            stage=Stage.ROUTED,
            upload=None,
        )


@dataclass(frozen=True, slots=True)
class FlushUpload:
    """A request to upload the rows of `flush`."""

    flush: Flush
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class FlushCommit:
    """A request to commit the uploaded rows of `flush`.

    `first_sequences`: for each partition, the sequence of the flush's first record there.
    """

    flush: Flush
    producer_id: int
    producer_epoch: int
    first_sequences: Mapping[TopicPartition, int]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Renew:
    """A request to submit `command`, which asks the chain for the producer's next epoch or for a new producer id."""

    command: AllocateProducer
    timeout_ms: int = ATTEMPT_MS


Work = FlushUpload | FlushCommit | Renew


@dataclass(frozen=True, slots=True)
class FailedFlush:
    """A flush that failed for good. `error.landed` says whether it has landed."""

    flush: Flush
    error: SparklogError
