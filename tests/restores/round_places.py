"""The stores of a round, and the places of its metadata: on a disk, S3 and HDFS by turns, or all on a disk."""

from __future__ import annotations

from collections.abc import Callable, Set
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


@dataclass(frozen=True)
class MetadataFolder:
    """The folder with the metadata, which everybody knows as `path`: a link, so that it goes and comes in one step."""

    path: Path

    @classmethod
    def create(cls, path: Path) -> MetadataFolder:
        made = cls(path)
        made._folder.mkdir(parents=True)
        path.symlink_to(made._folder)
        return made

    @property
    def _folder(self) -> Path:
        return self.path.with_name(f"{self.path.name}-folder")

    def lose(self) -> None:
        """It can't be reached: a file is in its place, so that nobody begins another one there."""
        self._put(lambda new: new.touch())

    def bring_back(self) -> None:
        """It is there as it was."""
        self._put(lambda new: new.symlink_to(self._folder))

    def _put(self, make: Callable[[Path], object]) -> None:
        new = self.path.with_name(f"{self.path.name}-new")
        make(new)
        new.replace(self.path)
