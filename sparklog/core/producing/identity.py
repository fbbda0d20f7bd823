"""The id and epoch under which a producer writes, and its renewal: the next epoch, or a new id. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from sparklog.core.commands import AllocateProducer, BatchInDoubt
from sparklog.core.errors import OutOfOrderSequence, SparklogError, UnknownProducerId

RENEW_PAUSE_MS: Final = 100  # between attempts


class Renewal(Enum):
    """The renewal that a producer needs before it can continue: its next epoch, or a new id."""

    NONE = auto()
    EPOCH = auto()  # its next epoch
    ID = auto()  # a new id: the chain no longer knows the old one


@dataclass(slots=True)
class Identity:
    """The identity of a producer: its id and epoch.

    `needed`: the renewal to request, which is the next epoch or a new id. `asked`: the renewal that was requested and
    may have been granted, even if no reply came. `is_under_way`: a request has no reply yet. `not_before_ms`: the
    earliest time of the next request.
    """

    producer_id: int
    producer_epoch: int
    needed: Renewal = Renewal.NONE
    asked: Renewal = Renewal.NONE
    not_before_ms: int = 0
    is_under_way: bool = False

    @property
    def current(self) -> tuple[int, int]:
        """The producer's id and epoch."""
        return self.producer_id, self.producer_epoch

    def need(self, renewal: Renewal) -> None:
        """Record that the next epoch, or a new id, is needed. A new id takes precedence over the next epoch."""
        if self.needed is Renewal.NONE or renewal is Renewal.ID:
            self.needed = renewal

    def is_due(self, now_ms: int) -> bool:
        """True if the next epoch or a new id is needed, and can be requested at `now_ms`.

        It can be requested if no request is under way, and the pause after a failed request is over.
        """
        return self.needed is not Renewal.NONE and not self.is_under_way and now_ms >= self.not_before_ms

    def ask(self, in_doubt: tuple[BatchInDoubt, ...]) -> AllocateProducer:
        """Return the command that requests the next epoch or a new id, as needed. From then on a request is under way.

        The chain refuses the next epoch if a batch of `in_doubt` has landed.
        """
        self.asked, self.is_under_way = self.needed, True
        if self.needed is Renewal.ID:
            return AllocateProducer()
        return AllocateProducer(self.producer_id, self.producer_epoch, in_doubt)

    def begin(self, producer_id: int, producer_epoch: int) -> None:
        """Take the id and epoch that the chain has granted."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.needed = self.asked = Renewal.NONE
        self.is_under_way = False

    def refused(self, error: SparklogError, now_ms: int) -> None:
        """Note that the request for the next epoch or a new id failed, or got no answer.

        Another request may follow after RENEW_PAUSE_MS. After UnknownProducerId it is for a new id.
        """
        self.is_under_way, self.not_before_ms = False, now_ms + RENEW_PAUSE_MS
        if isinstance(error, UnknownProducerId):
            self.needed = Renewal.ID
        if isinstance(error, UnknownProducerId | OutOfOrderSequence):
            self.asked = Renewal.NONE
