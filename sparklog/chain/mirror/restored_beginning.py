"""The beginning of a restored chain: its first entry, and the manifest of the snapshot as of that entry.

First both are put as one object, then each one under its own key. So a later process that finds the object can finish
an interrupted restore, even if none of the restore's sources can be read any more.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sparklog.chain.damaged_chain import damage
from sparklog.chain.framing import frame, unframe
from sparklog.chain.owner import is_owner_mark
from sparklog.chain.snapshot.snapshot import Manifest, decoded_manifest
from sparklog.core.state import first_entry
from sparklog.storage.keys import RESTORES, parse_restore_key, snapshot_key
from sparklog.storage.object_store import ObjectStore


class Beginning(msgspec.Struct, frozen=True):
    """The bodies of the first entry and of the manifest. The manifest's chunks are already in the store."""

    entry: bytes
    manifest: bytes


def encoded_beginning(beginning: Beginning) -> bytes:
    """Return the body, with a checksum, of the object that holds the whole beginning. Its key is `keys.restore_key`."""
    return frame("restore", msgspec.msgpack.encode(beginning))


def decoded_beginning(body: bytes, key: str, url: str) -> Beginning:
    """Decode the beginning that was read from `key` at `url`. Raises ChainDamaged, UnsupportedVersion."""
    try:
        return msgspec.msgpack.decode(unframe("restore", body, key, url), type=Beginning)
    except msgspec.DecodeError as error:
        raise damage(key, f"its checksum is right, but it can't be read: {error}", url) from error


def beginnings_at(place: ObjectStore) -> Iterator[tuple[int, Beginning]]:
    """Yield the beginnings of restored chains at the place, each with the number of its restore, in order.

    Raises ChainDamaged, UnsupportedVersion, and the store's errors.
    """
    for stored in place.list_keys(RESTORES):
        number = parse_restore_key(stored.key)
        if number is None:
            continue
        body = bytes(place.get(stored.key))
        if not is_owner_mark(body):
            yield number, decoded_beginning(body, stored.key, place.url)


def manifest_in(beginning: Beginning, number: int, url: str) -> Manifest:
    """Decode the manifest in the beginning of the `number`-th restore. Raises ChainDamaged, UnsupportedVersion."""
    return decoded_manifest(beginning.manifest, snapshot_key(first_entry(number)), url)
