"""What store.py asks of each kind of cloud storage: single requests, each sent once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from sparklog.storage.fsspec.bodies import Body

CONNECT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of a listing, under its whole name in the bucket."""

    name: str
    size_bytes: int
    modified_ms: int


class ObjectPart(NamedTuple):
    """Bytes of an object, the size of the whole, and its version: another object under its name has another one.

    `version` is None if the object ends before the bytes that were asked for.
    """

    body: bytes
    size_bytes: int
    version: str | None


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a listing: objects in ascending order, folders (ending with '/'), and the token of the next page."""

    objects: Sequence[Entry]
    folders: Sequence[str]
    token: str | None


class Cloud(Protocol):
    """A bucket, as this process reaches it. Every call raises Failed, at the latest after `timeout_s`. Thread-safe.

    Names are those of objects in the bucket. `place` and `endpoint` are for messages.
    """

    place: str
    endpoint: str
    starts_listings_anywhere: bool  # whether `list_page` obeys `start`

    def put(self, name: str, write_id: str, body: Body, timeout_s: float) -> None:
        """Write an object if the name is free, with `write_id` in its metadata."""
        ...

    def write_id_of(self, name: str, timeout_s: float) -> str | None:
        """The id of the write that made an object."""
        ...

    def size(self, name: str, timeout_s: float) -> int:
        """Length of an object in bytes."""
        ...

    def read(self, name: str, start: int, end: int, timeout_s: float) -> ObjectPart:
        """The bytes [start, end) of an object, as far as it goes. Failed says if it ends before."""
        ...

    def list_page(
        self, prefix: str, timeout_s: float, *, token: str | None, start: str | None = None, by_folder: bool = False
    ) -> Page:
        """Part of the listing of names that begin with `prefix` and are not less than `start`.

        `by_folder`: names that continue after a '/' behind the prefix are given as one folder.
        """
        ...

    def delete(self, name: str, timeout_s: float) -> None:
        """Remove an object."""
        ...
