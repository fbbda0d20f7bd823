"""The metadata as any coordinator serves it, whether it leads or stands by, and the headers of all reads.

GET /v1/meta/…                          the object of this key of the metadata store; the keys begin with meta/, too
GET /v1/meta?prefix=P&after=K&limit=N   -> MetadataKeys: the first N keys after K that begin with P

A request may say in headers which cluster it is for, and how far its sender has read; a reply says the same of the
coordinator.
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
    """One object of the metadata store."""

    key: str
    size_bytes: int
    modified_ms: int


class MetadataKeys(msgspec.Struct, frozen=True):
    """Keys in ascending order. `more`: the last one is not the last with this prefix; go on after it."""

    chain_id: str
    position: EntryNumber
    keys: tuple[MetadataKey, ...]
    more: bool
