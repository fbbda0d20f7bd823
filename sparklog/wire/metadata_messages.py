"""The metadata as any coordinator serves them, whether it leads or stands by, and the headers of reads.

GET /v1/meta/…                          the object of the metadata store under the key meta/…
GET /v1/meta?prefix=P&after=K&limit=N   -> MetadataKeys: the first N keys after K that begin with P

A request may name its chain in a header. A request for topics or groups may also say up to which position the client
has read the chain, so that the answer is no older. Requests for metadata need no position: they are answered from the
store itself. A reply names the coordinator's chain and position: in headers if its body is an object, otherwise as
fields.
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
    """Keys in ascending order. `more` is true if further keys with this prefix follow the last one."""

    chain_id: str
    position: EntryNumber
    keys: tuple[MetadataKey, ...]
    more: bool
