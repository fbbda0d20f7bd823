"""Write the checkpoints of a state to the stores that they describe.

    copies/checkpoints/<chain id>/<name>/<n, 20 digits>      as of entry n

The newest three checkpoints of each name are kept. A checkpoint is a new object that appears whole or not at all. It is
written only if its text differs from the one before it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from sparklog.core.describe.checkpoints import checkpoints_of
from sparklog.core.errors import KeyExists, OutcomeUnknown, SparklogError
from sparklog.core.state import ClusterState, Store
from sparklog.core.types import StoreId
from sparklog.log.cluster_stores import Stores
from sparklog.log.incarnation import check_incarnation
from sparklog.storage.keys import checkpoint_key, checkpoints_prefix, parse_checkpoint_key
from sparklog.storage.object_store import ObjectStore

KEPT: Final = 3


class CheckpointFiles:
    """Writes checkpoints for one process. It remembers the last texts, so it reads a store's checkpoints only once."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, StoreId, int], dict[str, str]] = {}  # by chain, store and registration

    def write(self, state: ClusterState, stores: Stores) -> dict[StoreId, str]:
        """Write the checkpoints that have changed to each store that is not fenced. Return the errors by store."""
        failed = {}
        for store in sorted(state.stores.values(), key=lambda store: store.store):
            if not store.fenced:
                try:
                    self._write(state, store, stores)
                except SparklogError as error:
                    failed[store.store] = str(error)
        return failed

    def _write(self, state: ClusterState, store: Store, stores: Stores) -> None:
        files = checkpoints_of(state, store.store)
        of = state.chain_id, store.store, store.registration
        if self._newest.get(of) == files:
            return
        target = stores.get(store.store)
        check_incarnation(target, store.incarnation)
        there = _listed(target, state.chain_id)
        before = self._newest.get(of) or {name: _read(target, keys[-1]) for name, keys in there.items()}
        stores.check_owner(store.store)
        for name, text in files.items():
            if before.get(name) == text:
                continue
            key = checkpoint_key(state.chain_id, name, state.n)
            with suppress(KeyExists, OutcomeUnknown):  # another process wrote the same, or the next one replaces it
                target.put_if_absent(key, text.encode())
            keys = sorted({*there.get(name, ()), key})
            for old in keys[:-KEPT]:
                target.delete(old)
        self._newest = {known: texts for known, texts in self._newest.items() if known[:2] != of[:2]} | {of: files}


def newest_checkpoint(target: ObjectStore, chain_id: str, name: str) -> tuple[int, str] | None:
    """Return the entry number and text of a store's newest checkpoint of this name, or None if the store has none."""
    keys = _listed(target, chain_id).get(name)
    if not keys:
        return None
    parsed = parse_checkpoint_key(keys[-1])
    assert parsed is not None
    return parsed[2], _read(target, keys[-1])


def _listed(target: ObjectStore, chain_id: str) -> dict[str, list[str]]:
    """The keys of a chain's checkpoints on `target`, by the checkpoint's name, each list ascending."""
    by_name: dict[str, list[str]] = {}
    for stored in target.list_keys(checkpoints_prefix(chain_id)):
        parsed = parse_checkpoint_key(stored.key)
        if parsed is not None and parsed[0] == chain_id:
            by_name.setdefault(parsed[1], []).append(stored.key)
    return by_name


def _read(target: ObjectStore, key: str) -> str:
    return bytes(target.get(key)).decode(errors="replace")
