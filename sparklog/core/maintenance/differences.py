"""Differences between the chain and the stored bytes, as `verify` reports them: one row each.

Every kind has a name that does not change, so that dashboards and alerts can depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

METADATA: Final = "metadata"  # used as the store of differences at the place of the chain itself


class DifferenceKind(StrEnum):
    """The kind of a difference. The first group is about data objects, the second about the metadata."""

    OBJECT_MISSING = "object-missing"
    OBJECT_SIZE = "object-size"
    OBJECT_CHECKSUM = "object-checksum"
    BATCH_CHECKSUM = "batch-checksum"
    BATCH_CONTENT = "batch-content"
    INDEX_MISSING = "index-missing"
    INDEX_SIZE = "index-size"
    INDEX_CHECKSUM = "index-checksum"
    SLICE = "slice"
    UNREADABLE = "unreadable"
    INCARNATION = "incarnation"

    ENTRY_MISSING = "entry-missing"
    ENTRY_DAMAGED = "entry-damaged"
    ENTRY_LINK = "entry-link"
    COMMAND_MISSING = "command-missing"
    COMMAND_DAMAGED = "command-damaged"
    SNAPSHOT_DAMAGED = "snapshot-damaged"
    SNAPSHOT_STATE = "snapshot-state"
    VOID_MARK = "void-mark"
    INVARIANT = "invariant"
    COPY_DAMAGED = "copy-damaged"
    COPY_MISSING = "copy-missing"


class Difference(msgspec.Struct, frozen=True):
    """One difference. `store` is the id of a store, or METADATA; `object` is a key on that store.

    `wanted` and `found` describe, as text, what should be there and what is. Records with offsets [start, end) of the
    partition are affected; `start` and `end` are None if no record is. `repairable`: True if the right bytes are
    available elsewhere, False if not, None if that was not checked. `advice` is the next step for the operator.
    """

    kind: DifferenceKind
    store: str
    object: str | None
    wanted: str
    found: str
    topic: str | None = None
    partition: int | None = None
    start: int | None = None
    end: int | None = None
    repairable: bool | None = None
    advice: str = ""

    @property
    def place(self) -> str:
        """The store, object and offsets of the difference, as text for messages and tables."""
        partition = "" if self.partition is None else f"-{self.partition}"
        offsets = "" if self.start is None else f" [{self.start}, {self.end})"
        of = "" if self.topic is None else f"{self.topic}{partition}{offsets} on "
        return f"{of}{self.store}: {self.object or 'the store'}"

    def __str__(self) -> str:
        return f"{self.place}: {self.kind}: wanted {self.wanted}, found {self.found}"


_BACKUP: Final = "put it back from a backup, or from an older version of it in the store"
_OF_METADATA: Final[Mapping[DifferenceKind, str]] = {
    DifferenceKind.SNAPSHOT_DAMAGED: "move it away, then run 'sparklog chain snapshot': it is written again",
    DifferenceKind.SNAPSHOT_STATE: "report it: this is a fault of sparklog; move it away, and run "
    "'sparklog chain snapshot'",
    DifferenceKind.VOID_MARK: "find out what deletes under meta/: only sparklog may",
    DifferenceKind.INVARIANT: "report it, with the output of 'sparklog chain tail': this is a fault of sparklog",
    DifferenceKind.COPY_DAMAGED: "move it away: with the next snapshot the store has a whole copy again",
    DifferenceKind.COPY_MISSING: "run 'sparklog chain snapshot': with it the store has a whole copy again",
}


def advice_for_metadata(kind: DifferenceKind, *, mirrored: bool) -> str:
    """The advice to the operator on a difference of the metadata. `mirrored`: another store has a copy of the chain."""
    text = _OF_METADATA.get(kind)
    if text is not None:
        return text
    return f"copy it from copies/ on another store, or {_BACKUP}" if mirrored else _BACKUP


def advice_for_object(difference: Difference) -> str:
    """The advice to the operator about a difference of a data object."""
    on = f"--store {difference.store}"
    if difference.kind is DifferenceKind.INCARNATION:
        return f"run 'sparklog agent {on} --once': it reports the loss and fills the store again"
    if difference.kind is DifferenceKind.UNREADABLE:
        return f"bring the store back, then run 'sparklog job verify {on}'"
    if difference.repairable is False:
        dump = ""
        if difference.topic is not None and difference.start is not None:
            place = f"{difference.topic} -p {difference.partition} --offset {difference.start}"
            dump = f"; 'sparklog segment dump {place}' shows what can still be read"
        return f"{_BACKUP}; no store that was asked has it whole{dump}"
    return f"run 'sparklog job recovery --full {on}'"
