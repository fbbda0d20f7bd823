"""The interface between store.py and one kind of cloud storage: requests, none of which is sent a second time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from sparklog.storage.cloud.bodies import Body


@dataclass(frozen=True, slots=True)
class ListedObject:
    """One object of a listing, under its full name in the bucket.

    `modified_ms`: the time of its last change by the cloud's clock, in ms since the epoch.
    """

    name: str
    size_bytes: int
    modified_ms: int


class ObjectPart(NamedTuple):
    """Bytes of an object, the size of the whole object, and its version.

    A new object under the same name has another version. `version` is None if `body` is empty because the object ends
    before the requested bytes.
    """

    body: bytes
    size_bytes: int
    version: str | None


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a listing: objects in ascending order of name, and folders, whose names end with '/'.

    `token` is the token of the next page; None if there is none.
    """

    objects: Sequence[ListedObject]
    folders: Sequence[str]
    token: str | None


class Cloud(Protocol):
    """Access to a bucket for one process. Thread-safe.

    A call that fails raises CloudRequestFailed within `timeout_s`, or StoreUnavailable if no credentials can be used.
    Names are the full names of objects in the bucket. Error messages show `place` (the bucket) and `endpoint` (the
    server).
    """

    place: str
    endpoint: str
    starts_listings_anywhere: bool  # True if `list_page` obeys `start`

    def put(self, name: str, write_id: str, body: Body, timeout_s: float) -> None:
        """Write an object if the name is free, with `write_id` in its metadata.

        The id is drawn for this write: after a lost reply, `write_id_of` shows whether the object is ours.

        A large body goes to Azure in several requests. Raises CloudRequestFailed with EXISTS if the name is taken.
        """
        ...

    def write_id_of(self, name: str, timeout_s: float) -> str | None:
        """The write id in an object's metadata, or None if the metadata has no write id."""
        ...

    def size(self, name: str, timeout_s: float) -> int:
        """Length of an object in bytes."""
        ...

    def read(self, name: str, start: int, end: int, timeout_s: float) -> ObjectPart:
        """The bytes [start, end) of an object, or fewer if the object ends earlier.

        Raises CloudRequestFailed if the object ends at `start` or before. For an empty object, it may return no bytes
        instead.
        """
        ...

    def list_page(
        self, prefix: str, timeout_s: float, *, token: str | None, start: str | None = None, by_folder: bool = False
    ) -> Page:
        """Return one page of the objects whose names begin with `prefix` and are not less than `start`.

        If the field `starts_listings_anywhere` is False, `start` is ignored. `token` comes from the page before; None
        asks for the first page. A page may be short, or even empty, although more follow: Google's has at most two
        names if there is a `start`. With `by_folder`, names with a '/' after the prefix are not listed: the page has
        their folders instead, each once.
        """
        ...

    def delete(self, name: str, timeout_s: float) -> None:
        """Remove an object. An absent one raises CloudRequestFailed."""
        ...
