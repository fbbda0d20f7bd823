"""The stores of a round, and the places of its metadata: on a disk, S3 and HDFS by turns, or all on a disk."""

from __future__ import annotations

import shutil
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sparklog.core.errors import KeyNotFound
from sparklog.storage.open_store import open_store

STORES = "mno"  # those that every round has; others sort before or after them


@dataclass
class RoundPlaces:
    """Addresses of one round. `roots` are where new places may be: the folder is on the disk, so it is one of them."""

    folder: Path
    roots: list[str]
    _given: dict[str, str] = field(default_factory=dict)

    def address(self, name: str) -> str:
        """The address of a store or of a place for metadata; the roots take turns."""
        if name not in self._given:
            self._given[name] = f"{self.roots[len(self._given) % len(self.roots)]}/{name}"
        return self._given[name]

    # ---- a store is hurt ------------------------------------------------------------------------

    def keys(self, name: str) -> set[str]:
        """The keys of all that is on a store."""
        return {stored.key for stored in open_store(self.address(name)).list_keys("")}

    def put_back(self, name: str, old: Set[str]) -> int:
        """Let a store be as it was when it had these keys, as one restored from a backup. Returns how many are gone."""
        store = open_store(self.address(name))
        new = self.keys(name) - old
        for key in new:
            with suppress(KeyNotFound):
                store.delete(key)
        return len(new)


@dataclass
class MetadataFolder:
    """The folder at `path` with the metadata. While it is away, those who come find nothing, or no folder at all."""

    path: Path

    @property
    def _away(self) -> Path:
        return self.path.with_name(f"{self.path.name}-away")

    def lose(self, *, can_be_begun_again: bool) -> None:
        """It is gone. Unless `can_be_begun_again`, what is in its place keeps everybody from writing there."""
        self.path.rename(self._away)
        if not can_be_begun_again:
            with suppress(FileExistsError, IsADirectoryError), self.path.open("x"):
                pass

    def bring_back(self) -> None:
        """It is there as it was, in place of whatever was begun there."""
        trash = self.path.with_name(f"{self.path.name}-trash")
        for number in range(1_000):  # a writer may begin it again at any moment
            with suppress(FileNotFoundError):
                self.path.rename(f"{trash}-{number}")
            with suppress(OSError):
                self._away.rename(self.path)
                return
        raise AssertionError(f"{self.path} can't be brought back")

    def forget(self) -> None:
        """It is gone for good."""
        shutil.rmtree(self._away, ignore_errors=True)
