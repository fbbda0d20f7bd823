"""Checks that the mirror on another store equals the chain: each entry byte for byte, and no hole. Only reads.

A restore begins with the newest snapshot of the mirror, so only the entries after that snapshot must be there. An entry
whose original was deleted as old is decoded, but cannot be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sparklog.chain.commit.command_body import append_of
from sparklog.chain.entry import decode_entry
from sparklog.chain.mirror.mirror_place import MirrorPlace
from sparklog.chain.snapshot.verify_snapshots import load_state, read_manifests
from sparklog.chain.verify_chain import ChainVerified
from sparklog.core.errors import ChainDamaged
from sparklog.core.maintenance.differences import Difference, DifferenceKind, advice_for_metadata
from sparklog.core.records import AppendedByReference
from sparklog.core.types import StoreId
from sparklog.storage.keys import LOG, command_key, entry_key, mirror_key, parse_entry_key
from sparklog.storage.object_store import ObjectStore, body_if_there

READ_WIDTH: Final = 32


def verify_mirror(chain: ObjectStore, store_id: StoreId, store: ObjectStore, chain_id: str) -> ChainVerified:
    """Compare the mirror on a store with the chain. Without a mirror, the result has no differences.

    Raises StoreUnavailable, StoreAccessDenied, UnsupportedVersion.
    """
    check = _MirrorCheck(chain, store_id, MirrorPlace(store, chain_id))
    check.run()
    return check.verified


class _MirrorCheck:
    def __init__(self, chain: ObjectStore, store_id: StoreId, place: MirrorPlace) -> None:
        self.verified = ChainVerified()
        self._chain = chain
        self._store_id = store_id
        self._place = place

    def run(self) -> None:
        newest = -1
        for manifest in read_manifests(self._place, self._differs):
            self.verified.snapshots += 1
            if load_state(self._place, manifest, self._differs) is not None:
                newest = manifest.n
        before = newest
        for n, mirrored, original in self._pairs():
            if n > newest:
                # A listing may pass a key just before it is put, and see the next one.
                if n != before + 1 and body_if_there(self._place, entry_key(before + 1)) is None:
                    wanted = f"the entries from {before + 1} on, as entry {n} is there"
                    self._add(DifferenceKind.COPY_MISSING, entry_key(before + 1), wanted, "none before that one")
                before = n
            if mirrored is not None:
                self._entry(n, mirrored, original, needed=n > newest)

    def _pairs(self) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        """Yield each entry on the mirror, in order: its number, its bytes there, and its bytes in the chain.

        The bytes are None if the entry is missing.
        """
        numbers: list[int] = []
        with ThreadPoolExecutor(READ_WIDTH) as pool:
            for stored in self._place.list_keys(LOG):
                numbers.append(int(parse_entry_key(stored.key)))
                if len(numbers) == READ_WIDTH:
                    yield from pool.map(self._pair, numbers)
                    numbers = []
            yield from pool.map(self._pair, numbers)

    def _pair(self, n: int) -> tuple[int, bytes | None, bytes | None]:
        return n, body_if_there(self._place, entry_key(n)), body_if_there(self._chain, entry_key(n))

    def _entry(self, n: int, mirrored: bytes, original: bytes | None, *, needed: bool) -> None:
        self.verified.entries += 1
        self.verified.size_bytes += len(mirrored)
        self.verified.requests += 2
        if original is not None and mirrored == original:
            if needed:
                self._named_by(n, mirrored)
            return
        try:
            decode_entry(n, mirrored)
        except ChainDamaged as error:
            self._add(DifferenceKind.COPY_DAMAGED, entry_key(n), f"the copy of entry {n}", error.message)
            return
        if original is not None and _decodes(n, original):
            self._add(DifferenceKind.COPY_DAMAGED, entry_key(n), f"the copy of entry {n}", "another entry")

    def _named_by(self, n: int, body: bytes) -> None:
        """Check that the mirror has the bodies of large commands that entry `n` names."""
        for command in decode_entry(n, body).commands:
            for record in command.records:
                if not isinstance(record, AppendedByReference):
                    continue
                key = command_key(command.n0, command.command_id, record.body)
                named = body_if_there(self._place, key)
                if named is None:
                    self._add(DifferenceKind.COPY_MISSING, key, f"the slices that entry {n} names", "nothing")
                    continue
                self.verified.bodies += 1
                try:
                    append_of(named, command.command_id, command.n0, record, n, "")
                except ChainDamaged as error:
                    self._add(DifferenceKind.COPY_DAMAGED, key, f"the slices that entry {n} names", error.message)

    def _differs(self, kind: DifferenceKind, key: str, wanted: str, found: str) -> None:
        self._add(DifferenceKind.COPY_DAMAGED, key, wanted, found)

    def _add(self, kind: DifferenceKind, key: str, wanted: str, found: str) -> None:
        key = mirror_key(self._place.chain_id, key)
        advice = advice_for_metadata(kind, mirrored=False)
        difference = Difference(kind, self._store_id, key, wanted, found, repairable=True, advice=advice)
        if difference not in self.verified.differences:
            self.verified.differences.append(difference)


def _decodes(n: int, body: bytes) -> bool:
    try:
        decode_entry(n, body)
    except ChainDamaged:
        return False
    return True
