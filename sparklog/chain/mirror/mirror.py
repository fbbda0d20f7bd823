"""The mirror of a chain on one other store. It is whole up to some entry: it has everything up to that entry.

An entry counts only if the mirror has everything before it, starting from entry 0, or from a snapshot that was put
since the store's registration. So each mirror by itself is enough for a restore. All its objects must be on the same
disk as the store's INCARNATION: objects put into a folder while its disk was not mounted are not on that disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sparklog.chain.chain_requests import MirrorEntry
from sparklog.chain.entry import decode_entry, hash_of
from sparklog.chain.head import Head
from sparklog.chain.mirror.mirror_place import MirrorPlace
from sparklog.chain.owner import check_owner
from sparklog.chain.snapshot import snapshot
from sparklog.core.errors import (
    ChainDamaged,
    InconsistentClusterId,
    KeyExists,
    KeyNotFound,
    OutcomeUnknown,
    StoreUnavailable,
)
from sparklog.core.records import AppendedByReference
from sparklog.core.state import ClusterState, Store
from sparklog.storage.keys import (
    INCARNATION,
    SNAPSHOTS,
    block_entries,
    command_key,
    entries_prefix,
    entry_block,
    entry_key,
    mirror_key,
    parse_entry_key,
    parse_snapshot_key,
    snapshot_key,
)
from sparklog.storage.object_store import ObjectStore, exists

NEAR = 16  # a mirror that lacks at most this many entries gets them; one that lacks more gets a snapshot

_BY_REFERENCE = b'"appended-by-reference"'


class Mirror:
    """The mirror of the chain at `source` on `target`, which is registered as `store`.

    `check_incarnation` raises unless the store has its registered INCARNATION. `check_others` raises if another chain
    owns one of the cluster's stores. `whole_to` is the entry up to which this process knows the mirror to be whole;
    None if unknown. Call `extend` from one thread at a time.
    """

    def __init__(
        self,
        source: ObjectStore,
        target: ObjectStore,
        chain_id: str,
        store: Store,
        check_incarnation: Callable[[ObjectStore, Store], None] = lambda target, store: None,
        check_others: Callable[[ClusterState], None] = lambda state: None,
    ) -> None:
        self.whole_to: int | None = None
        self._source = source
        self._target = target
        self._store = store
        self._check_incarnation = check_incarnation
        self._check_others = check_others
        self._place = MirrorPlace(target, chain_id)

    def extend(self, request: MirrorEntry) -> None:
        """Make the mirror whole up to entry `request.head.n`.

        Raises InconsistentClusterId (another chain owns the store since a restore), ChainDamaged, and the errors of the
        source and the target. After an error it is unknown whether the mirror has that entry.
        """
        n = request.head.n
        if self.whole_to is not None and self.whole_to >= n:
            return
        ancestors = len(request.head.state.ancestors)
        if request.body is not None and self.whole_to == n - 1:
            keys = self._put_entry(n, request.body)
            if exists(self._place, entry_key(n - 1)):  # otherwise the store was wiped or set back since
                self._check_owner(ancestors, [entry_key(n - 1), *keys])
                self.whole_to = n
                return
        self.whole_to = None
        check_owner(self._target, ancestors)
        keys = self._catch_up(request)
        if request.body is not None:
            keys += self._put_entry(n, request.body)
        self._check_incarnation(self._target, self._store)
        # A restore reads the mirrors after it has put its mark. So if the check after this put still finds no new
        # owner, the restore will find the entry.
        self._check_owner(ancestors, keys)
        self.whole_to = n

    def _check_owner(self, ancestors: int, keys: Sequence[str]) -> None:
        """Check that this chain, which was restored `ancestors` times, still owns the store.

        Raises InconsistentClusterId if not, and StoreUnavailable if the store lacks the mirror's objects under `keys`.
        """
        beside = [mirror_key(self._place.chain_id, key) for key in keys]
        check_owner(self._target, ancestors, [INCARNATION, *beside])

    def copy_snapshot(self, n: int) -> None:
        """Put the snapshot of entry `n` on the mirror, so that a restore needs nothing older.

        Vacuum may delete chunks as old before the manifest is put, so missing chunks are put again after it. Raises
        KeyNotFound, and leaves no manifest on the mirror, if the source does not have the snapshot any more.
        """
        manifest = snapshot.read_manifest(self._source, snapshot_key(n))
        self._put_chunks(manifest)
        put(self._place, snapshot_key(n), bytes(self._source.get(snapshot_key(n))))
        try:
            self._put_chunks(manifest)
        except KeyNotFound:  # the snapshot is old by now, and gone from its source
            self._place.delete(snapshot_key(n))
            raise

    def _put_chunks(self, manifest: snapshot.Manifest) -> None:
        for key in snapshot.missing_chunks(self._place, manifest):
            put(self._place, key, bytes(self._source.get(key)))

    def _catch_up(self, request: MirrorEntry) -> list[str]:
        """Put the entries before the requested one that the mirror lacks, or a snapshot as of the requested entry.

        The snapshot is put if too many entries are missing, or if the source does not have them any more. Returns the
        keys of the objects that were put, and of the newest objects that were there before.
        """
        begin = None if request.body is None else self._beginning()
        lacking = None if begin is None else self._lacking(begin, request.head.n)
        if lacking is None or lacking:
            # The store may have been wiped or set back, and have lost the mark of a restore with everything else.
            self._check_others(request.head.state)
        bodies = None
        if request.body is not None and lacking is not None:
            bodies = self._bodies(lacking, decode_entry(request.head.n, request.body, self._source.url).previous)
        if begin is None or lacking is None or bodies is None:
            return self._put_snapshot(request.head)
        keys = [] if begin == 0 else [snapshot_key(begin - 1)]
        if lacking.start > begin:  # a snapshot may be newer than the entry
            keys.append(entry_key(lacking.start - 1))
        for n, body in bodies:
            keys += self._put_entry(n, body)
        return keys

    def _lacking(self, begin: int, end: int) -> range | None:
        """Return the entries of [begin, end) from the first one that the mirror lacks. None if they are too many."""
        if entry_block(end) - entry_block(begin) > 1:
            return None
        existing = set(self._existing_entries(begin, end))
        first = next((n for n in range(begin, end) if n not in existing), end)
        return range(first, end) if end - first <= NEAR else None

    def _beginning(self) -> int | None:
        """Return the first entry that the mirror must have. None if it must first get a snapshot.

        It is the entry after the mirror's newest snapshot, if that snapshot was put since the store's registration.
        Without such a snapshot, it is entry 0, but only if the store was registered with that entry. (The entries of a
        restored chain are so far from entry 0 that its mirrors begin with a snapshot, too.)
        """
        newest = self._place.first_key_after(SNAPSHOTS, SNAPSHOTS)
        if newest is not None and parse_snapshot_key(newest) >= self._store.registered_at:
            return int(parse_snapshot_key(newest)) + 1
        return 0 if self._store.registered_at <= 0 else None

    def _existing_entries(self, begin: int, end: int) -> Iterator[int]:
        """Yield the numbers of the entries in [begin, end) that the mirror has, and maybe of a few outside it."""
        while begin < end:
            last = min(end - 1, block_entries(entry_block(begin))[-1])
            listed = self._place.list_keys(entries_prefix(begin, last))
            yield from (int(parse_entry_key(stored.key)) for stored in listed)
            begin = last + 1

    def _bodies(self, numbers: range, previous: str) -> list[tuple[int, bytes]] | None:
        """Read these entries from the source, and return their numbers and bodies; None if one was deleted.

        `previous` is the hash that the last of these entries must have. Raises StoreUnavailable if the hash of an entry
        is not the one that the next entry names.
        """
        bodies: list[tuple[int, bytes]] = []
        for n in reversed(numbers):
            try:
                body = bytes(self._source.get(entry_key(n)))
            except KeyNotFound:
                return None
            if hash_of(body) != previous:  # its block is being deleted, or it is damaged
                raise StoreUnavailable(f"{entry_key(n)} at {self._source.url} is not the entry that the next one names")
            bodies.append((n, body))
            previous = decode_entry(n, body, self._source.url).previous
        return bodies[::-1]

    def _put_snapshot(self, head: Head) -> list[str]:
        prepared = snapshot.prepare(head.state.fork(), head.entry_hash, {})
        snapshot.write(self._place, prepared)
        return [key for key, _ in snapshot.objects_of(prepared)]

    def _put_entry(self, n: int, body: bytes) -> list[str]:
        """Put an entry on the mirror, after the bodies of large commands that it names. Return the keys of all these.

        Raises ChainDamaged or InconsistentClusterId if the mirror has other bytes under the entry's key.
        """
        keys = [*bodies_named(n, body), entry_key(n)]
        for key in keys[:-1]:
            put(self._place, key, bytes(self._source.get(key)))
        key = keys[-1]
        existing = put(self._place, key, body)
        if existing is None:
            return keys
        try:
            decode_entry(n, existing, self._place.url)
        except ChainDamaged as error:
            wanted = f"{key} at {self._place.url}: wanted the copy of entry {n}"
            raise ChainDamaged(f"{wanted}, found other bytes: move it away") from error
        raise InconsistentClusterId(
            f"the store at {self._target.url} has another entry {n} of cluster {self._place.chain_id} than "
            f"{self._source.url}: the metadata there was lost, and a process that lagged behind continued to write; "
            "stop all writers, and restore the cluster to another place (sparklog cluster restore)"
        )


def put(place: ObjectStore, key: str, body: bytes) -> bytes | None:
    """Put `body` if the key is free. Return None if the key now has these bytes, otherwise the bytes that are there.

    Raises the store's errors.
    """
    try:
        place.put_if_absent(key, body)
    except (KeyExists, OutcomeUnknown) as error:
        try:
            existing = bytes(place.get(key))
        except KeyNotFound:
            raise StoreUnavailable(f"{key} could not be put at {place.url}: {error.message}") from error
        return None if existing == body else existing
    return None


def bodies_named(n: int, body: bytes) -> dict[str, str]:
    """Return the keys of the bodies of large commands that entry `n` names, each with the SHA-256 of that body."""
    if _BY_REFERENCE not in body:
        return {}
    return {
        command_key(command.n0, command.command_id, record.body): record.body_sha256
        for command in decode_entry(n, body).commands
        for record in command.records
        if isinstance(record, AppendedByReference)
    }
