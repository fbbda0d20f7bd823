"""The errors of a damaged metadata chain. A message names the object, says what was wanted and found, and what to do.

Entries, and the bodies that they name, are deleted only when three snapshots cover them. A snapshot can be rebuilt if
one of these three can be read, or if all entries and bodies still exist. An entry cannot be rebuilt.
"""

from __future__ import annotations

from sparklog.core.errors import ChainDamaged
from sparklog.storage.keys import CHUNKS, COMMANDS, LOG, SNAPSHOTS, parse_entry_key, parse_snapshot_key

_FROM_BACKUP = "from a backup, or from an older version of it in the store"
PUT_BACK = (
    f"put this object back, with the same bytes: from copies/ on a store with a copy of the metadata, {_FROM_BACKUP}; "
    "until then nothing that needs it can continue; the data objects of the cluster are not affected"
)


def damage(key: str, found: str, store_url: str = "") -> ChainDamaged:
    """Return the error for the object under `key`. `found` says what is wrong with the object."""
    at = f" at {store_url}" if store_url else ""
    return ChainDamaged(f"{_named(key)}{at}: {found}; {_what_to_do(key)}")


def damaged_chunk(snapshot: str, chunk: str, found: str, store_url: str) -> ChainDamaged:
    """Return the error for the chunk under the key `chunk`, which the snapshot under the key `snapshot` names."""
    return ChainDamaged(
        f"{_named(chunk)} at {store_url}, which {snapshot} names: {found}; put {chunk} back {_FROM_BACKUP}; while an "
        "older snapshot without it, or every entry, can be read, the state is built from that, and 'sparklog chain "
        "snapshot' writes it again"
    )


def _named(key: str) -> str:
    if key.startswith(LOG):
        return f"entry {parse_entry_key(key)}, {key}"
    if key.startswith(SNAPSHOTS):
        return f"the snapshot of entry {parse_snapshot_key(key)}, {key}"
    if key.startswith(CHUNKS):
        return f"a part of a snapshot, {key}"
    return f"the body of a large append, {key}" if key.startswith(COMMANDS) else key


def _what_to_do(key: str) -> str:
    if key.startswith(CHUNKS):
        return f"move {key} away: the next snapshot writes it again"
    return _without(key) if key.startswith(SNAPSHOTS) else PUT_BACK


def _without(keys: str) -> str:
    return (
        f"move {keys} away: the state is then built from the snapshot before it, or from the entries, and "
        "'sparklog chain snapshot' writes a new one"
    )
