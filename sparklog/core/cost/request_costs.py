"""The requests that operations send to an object store: the one home of these numbers.

docs/cost.md shows them, `sparklog cluster cost` multiplies them, and tests/faults/test_s3_requests.py measures them on
an S3 server. HEAD and DELETE are missing: no operation here sends a HEAD, and deletes are free at all providers.
"""

from __future__ import annotations

from typing import Final

import msgspec

PART_BYTES: Final = 8 * 1024 * 1024  # a larger object is sent, and read, in parts of this size


class Requests(msgspec.Struct, frozen=True):
    """Numbers of requests of each kind. Providers bill PUT, POST and LIST as writes, GET as a read."""

    puts: int = 0
    posts: int = 0
    gets: int = 0
    lists: int = 0

    @property
    def writes(self) -> int:
        """The number of requests that are billed as writes: PUT, POST and LIST."""
        return self.puts + self.posts + self.lists

    @property
    def total(self) -> int:
        """The number of all requests."""
        return self.writes + self.gets

    def __add__(self, other: Requests) -> Requests:
        return Requests(
            self.puts + other.puts, self.posts + other.posts, self.gets + other.gets, self.lists + other.lists
        )

    def times(self, factor: float) -> Requests:
        """These requests times `factor`, each kind rounded."""
        return Requests(*(round(factor * count) for count in (self.puts, self.posts, self.gets, self.lists)))


NONE: Final = Requests()
OPEN: Final = Requests(gets=42, lists=2)  # more if the cluster is large, or the newest snapshot old
START_JOB: Final = OPEN + Requests(lists=1)  # to compare its clock with the store's
PLAN: Final = Requests(gets=2)  # the next entry, which is not there yet, and the void mark of its block
NEXT_ENTRY: Final = Requests(gets=1)  # one for each process that follows the chain
ENTRY: Final = Requests(puts=1, gets=1)  # the entry, and the void mark before the acknowledgement
COPY_OF_ENTRY: Final = Requests(puts=1, gets=2)  # the copy, the one before it, and the owner of the store
SNAPSHOT: Final = Requests(puts=5, gets=9)  # puts: the manifest and the changed chunks; gets: a check of each chunk
READ_SLICE: Final = Requests(gets=2)  # the index of its object, and one ranged read
LOOK_UP_TIME: Final = Requests(gets=2)  # the index, and the timestamps of one batch


def stored(size_bytes: int) -> Requests:
    """Return the requests to put an object of this size and its index on one store, and to check that the store was not
    wiped or swapped.
    """
    if size_bytes <= PART_BYTES:
        return Requests(puts=2, gets=1)
    return Requests(puts=1 + -(-size_bytes // PART_BYTES), posts=2, gets=1)


def on_stores(size_bytes: int, stores: int) -> Requests:
    """The requests to put an object of this size and its index on several stores, and to check each of these stores."""
    return stored(size_bytes).times(stores)


# The operations that docs/cost.md lists, in its order. The test that measures them has one for each name.
OPERATIONS: Final[dict[str, Requests]] = {
    "open a cluster": OPEN,
    "plan a read": PLAN,
    "read 10 records of one object, planning included": PLAN + READ_SLICE,
    "look up an offset by time": PLAN + LOOK_UP_TIME,
    "append: one object": PLAN + stored(1) + ENTRY,
    "append: one object, on two stores": PLAN + on_stores(1, 2) + ENTRY,
    "append: one object, metadata.copies=1": PLAN + stored(1) + ENTRY + COPY_OF_ENTRY,
    "bulk write: 4 tasks, 4 objects, one commit": PLAN + stored(1).times(4) + ENTRY,
    "bulk write: one object of 20 MB, sent in parts": PLAN + stored(20_000_000) + ENTRY,
    "write a snapshot of the chain": SNAPSHOT,
}
