"""The errors of a producer's uploads and commits: one table of what each concerns, and what may help. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from sparklog.core.errors import (
    AccessRefused,
    FencedLeaderEpoch,
    InvalidInput,
    InvalidProducerEpoch,
    NoReplicaOnline,
    NotEnoughReplicas,
    NotFound,
    NotLeaderOrFollower,
    OutcomeUnknown,
    OutOfOrderSequence,
    SparklogError,
    StaleBrokerEpoch,
    TryAgain,
    UnknownProducerId,
    WriteLost,
)


class Scope(Enum):
    """The part of a producer's work that an error of a flush concerns."""

    PARTITIONS = auto()  # some partitions that can't be written to for now: the others need not wait for them
    STORES = auto()  # some stores, and so perhaps only some partitions
    RECORDS = auto()  # perhaps only the records of one topic or partition
    FLUSH = auto()  # the whole flush
    ORDER = auto()  # its sequences, which don't continue the last ones in the chain
    EPOCH = auto()  # the producer's epoch, of which records were lost
    ID = auto()  # the producer's id, which the chain no longer knows
    PRODUCER = auto()  # the producer: a newer instance of it is active


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """A rule for an error, by which the producer continues.

    `retry`: the same attempt may succeed later. `upload_again`: if a commit that has not landed was refused with the
    error, another upload may help; otherwise the last upload stays valid.
    """

    scope: Scope
    retry: bool
    upload_again: bool


_OF_PARTITIONS: Final = ErrorRule(Scope.PARTITIONS, retry=True, upload_again=True)
_OF_RECORDS: Final = ErrorRule(Scope.RECORDS, retry=False, upload_again=True)
# The rule of a class holds for its subclasses that have none of their own.
_RULES: Final[Mapping[type[BaseException], ErrorRule]] = {
    NoReplicaOnline: _OF_PARTITIONS,
    NotEnoughReplicas: _OF_PARTITIONS,
    NotLeaderOrFollower: _OF_PARTITIONS,
    FencedLeaderEpoch: _OF_PARTITIONS,
    StaleBrokerEpoch: ErrorRule(Scope.STORES, retry=True, upload_again=True),
    InvalidInput: _OF_RECORDS,
    NotFound: _OF_RECORDS,
    AccessRefused: _OF_RECORDS,
    TryAgain: ErrorRule(Scope.FLUSH, retry=True, upload_again=False),
    OutcomeUnknown: ErrorRule(Scope.FLUSH, retry=True, upload_again=True),
    OutOfOrderSequence: ErrorRule(Scope.ORDER, retry=True, upload_again=False),
    WriteLost: ErrorRule(Scope.EPOCH, retry=False, upload_again=False),
    UnknownProducerId: ErrorRule(Scope.ID, retry=True, upload_again=False),
    InvalidProducerEpoch: ErrorRule(Scope.PRODUCER, retry=False, upload_again=False),
}


def rule_of(error: SparklogError) -> ErrorRule:
    """Return the rule for this error. An error that the table does not have concerns the whole flush."""
    for kind in type(error).__mro__:
        if kind in _RULES:
            return _RULES[kind]
    return ErrorRule(Scope.FLUSH, error.retriable, upload_again=True)


def is_of_stores(error: SparklogError | None) -> bool:
    """True if the error comes from some stores or partitions, which may stay so for long."""
    return error is not None and rule_of(error).scope in (Scope.PARTITIONS, Scope.STORES)
