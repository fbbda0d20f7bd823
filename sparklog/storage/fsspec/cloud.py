"""The interface of store.py to each kind of cloud storage: single requests, each sent once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from sparklog.storage.fsspec.bodies import Body

CONNECT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class ListedObject:
    """One object of a listing, under its full name in the bucket."""

    name: str
    size_bytes: int
    modified_ms: int


class ObjectPart(NamedTuple):
    """Bytes of an object, the size of the whole object, and its version.

    Another object under the same name has another version. `version` is None if the object ends before the requested
    bytes.
    """

    body: bytes
    size_bytes: int
    version: str | None


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a listing: objects in ascending order, folders (ending with '/'), and the token of the next page."""

    objects: Sequence[ListedObject]
    folders: Sequence[str]
    token: str | None


class Cloud(Protocol):
    """This process's access to a bucket. Every call that fails raises CloudRequestFailed within `timeout_s`.
    Thread-safe.

    Names are the full names of objects in the bucket. `place` and `endpoint` name bucket and server in error messages.
    """

    place: str
    endpoint: str
    starts_listings_anywhere: bool  # True if `list_page` obeys `start`

    def put(self, name: str, write_id: str, body: Body, timeout_s: float) -> None:
        """Write an object if the name is free, with `write_id` in its metadata."""
        ...

    def write_id_of(self, name: str, timeout_s: float) -> str | None:
        """The write id in an object's metadata, or None if there is none."""
        ...

    def size(self, name: str, timeout_s: float) -> int:
        """Length of an object in bytes."""
        ...

    def read(self, name: str, start: int, end: int, timeout_s: float) -> ObjectPart:
        """The bytes [start, end) of an object, or fewer if the object ends earlier.

        Raises CloudRequestFailed if the object ends at `start` or before.
        """
        ...

    def list_page(
        self, prefix: str, timeout_s: float, *, token: str | None, start: str | None = None, by_folder: bool = False
    ) -> Page:
        """One page of the names that begin with `prefix` and are not less than `start`.

        `token`: from the page before, None for the first page. `by_folder`: names that share their part up to the next
        '/' after the prefix are listed as one folder.
        """
        ...

    def delete(self, name: str, timeout_s: float) -> None:
        """Remove an object. An absent one raises CloudRequestFailed."""
        ...
