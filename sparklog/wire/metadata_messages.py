"""The metadata as any coordinator serves it, whether it leads or stands by, and the headers of all reads.

GET /v1/meta/…                          the object under this key of the metadata store; the keys begin with meta/, too
GET /v1/meta?prefix=P&after=K&limit=N   -> MetadataKeys: the first N keys after K that begin with P

A request may have headers with the cluster that it is for, and the chain position that its sender has read to. A reply
has the same headers for the coordinator.
"""

from __future__ import annotations

import msgspec

from sparklog.core.types import EntryNumber

METADATA = "/v1/meta"
CHAIN_HEADER = "sparklog-chain"  # the id of the cluster's chain
SEEN_HEADER = "sparklog-seen"  # the greatest chain position that the client has seen: the answer is no older
POSITION_HEADER = "sparklog-position"  # the newest entry that the coordinator has read
MOST_KEYS = 1_000  # in one reply


class MetadataKey(msgspec.Struct, frozen=True):
    """An object in a listing of the metadata store: its key, size and time of change."""

    key: str
    size_bytes: int
    modified_ms: int


class MetadataKeys(msgspec.Struct, frozen=True):
    """Keys in ascending order. `more`: there are more keys with this prefix, after the last one."""

    chain_id: str
    position: EntryNumber
    keys: tuple[MetadataKey, ...]
    more: bool
