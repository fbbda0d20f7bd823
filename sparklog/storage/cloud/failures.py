"""Failures of one request to a cloud's object storage, sorted into the kinds that a caller treats differently."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from sparklog.core.errors import (
    InvalidInput,
    SparklogError,
    StoreAccessDenied,
    StoreReadOnly,
    StoreUnavailable,
)
from sparklog.storage.conditional_write import RequestFailed

_LONGEST_REASON: Final = 200


class CloudFailure(Enum):
    """The reason why a request failed. After BUSY, NO_ANSWER or NOT_THE_STORE, a write may have been carried out."""

    EXISTS = auto()  # a conditional write found its key taken
    ABSENT = auto()  # the store itself says that the key is not there
    PAST_END = auto()  # the object ends before the requested bytes, or is empty
    NO_BUCKET = auto()
    DENIED = auto()
    REFUSED = auto()  # a repeat would fail the same way
    NOT_DONE = auto()  # it certainly did nothing, and may succeed when it is sent again
    BUSY = auto()  # the server got the request but can't do it now
    NO_ANSWER = auto()
    NOT_THE_STORE = auto()  # something in between answered


_MAY_PASS: Final = frozenset(
    {CloudFailure.NOT_DONE, CloudFailure.BUSY, CloudFailure.NO_ANSWER, CloudFailure.NOT_THE_STORE}
)


class CloudRequestFailed(RequestFailed):
    """The failure of one request: its kind, and the reason in one line."""

    def __init__(self, kind: CloudFailure, reason: str) -> None:
        line = " ".join(reason.split())
        self.reason = line if len(line) <= _LONGEST_REASON else f"{line[: _LONGEST_REASON - 1]}…"
        super().__init__(f"{kind.name}: {self.reason}")
        self.kind = kind

    @property
    def exists(self) -> bool:
        """True if a conditional write found its key taken."""
        return self.kind is CloudFailure.EXISTS

    @property
    def absent(self) -> bool:
        """True if the store itself says that the key is not there."""
        return self.kind is CloudFailure.ABSENT

    @property
    def may_pass(self) -> bool:
        """True if the same request may succeed when it is sent again."""
        return self.kind in _MAY_PASS

    @property
    def in_doubt(self) -> bool:
        """True if a write that failed like this may have been carried out."""
        return self.may_pass and self.kind is not CloudFailure.NOT_DONE

    def error(self, wanted: str, place: str, endpoint: str, *, writing: bool) -> SparklogError:
        """Return the error to raise to the store's caller, for a request that wrote nothing.

        `wanted` is the request in words, such as "read a/b"; `writing` is True if it is a write. `place` is the bucket
        in words, such as "the bucket 'logs'".
        """
        where = f"wanted to {wanted} at {endpoint}"
        match self.kind:
            case CloudFailure.NO_BUCKET:
                return InvalidInput(f"{where}, did not find {place}: make it first, or correct the address")
            case CloudFailure.DENIED if writing:
                return StoreReadOnly(f"{where}, found that these credentials may not write there ({self.reason})")
            case CloudFailure.DENIED:
                return StoreAccessDenied(f"{where}, found that these credentials may not read there ({self.reason})")
            case CloudFailure.REFUSED:
                return InvalidInput(f"{where}, found: {self.reason}")
            case CloudFailure.NOT_THE_STORE | CloudFailure.ABSENT:
                return StoreUnavailable(f"{where}, found that it does not answer as object storage does: {self.reason}")
        return StoreUnavailable(f"{where}, found: {self.reason}")
