"""Checks that the snapshots of a chain can be read: manifests, chunks by name and checksum, and the states in them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from sparklog.chain.snapshot import snapshot
from sparklog.chain.snapshot.snapshot import Manifest
from sparklog.core.errors import ChainDamaged, KeyNotFound
from sparklog.core.maintenance.differences import DifferenceKind
from sparklog.core.state import ClusterState
from sparklog.storage.keys import SNAPSHOTS, chunk_key, snapshot_key
from sparklog.storage.object_store import ObjectStore, exists

Differs = Callable[[DifferenceKind, str, str, str], None]  # kind, key, wanted, found


def read_manifests(store: ObjectStore, differs: Differs) -> list[Manifest]:
    """Return the manifests that can be read, oldest first. `differs` is called for damaged ones.

    Manifests that were deleted meanwhile are left out.
    """
    manifests = []
    for stored in list(store.list_keys(SNAPSHOTS)):
        try:
            manifests.append(snapshot.read_manifest(store, stored.key))
        except ChainDamaged as error:
            differs(DifferenceKind.SNAPSHOT_DAMAGED, stored.key, "a snapshot", error.message)
        except KeyNotFound:
            pass
    return sorted(manifests, key=lambda manifest: manifest.n)


def load_state(store: ObjectStore, manifest: Manifest, differs: Differs) -> ClusterState | None:
    """Return the state that a snapshot holds. None if the snapshot is damaged, or was deleted meanwhile.

    `differs` is called only for a damaged snapshot.
    """
    damaged: list[tuple[str, str, str]] = []
    for sha256 in snapshot.known_chunks(manifest):
        key = chunk_key(sha256)
        try:
            sha256_read = hashlib.sha256(store.get(key)).hexdigest()
        except KeyNotFound:
            damaged.append((key, "the chunk, which a snapshot names", "nothing"))
            continue
        if sha256_read != sha256:
            damaged.append((key, f"SHA-256 {sha256}", sha256_read))
    state = None
    if not damaged:
        try:
            state = snapshot.load(store, manifest)
        except ChainDamaged as error:
            damaged.append((snapshot_key(manifest.n), "a snapshot that can be loaded", error.message))
    if damaged and not exists(store, snapshot_key(manifest.n)):
        return None  # it was deleted meanwhile: a manifest is deleted before its chunks
    for key, wanted, text in damaged:
        differs(DifferenceKind.SNAPSHOT_DAMAGED, key, wanted, text)
    return state
