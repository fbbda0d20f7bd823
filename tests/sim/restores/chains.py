"""The chains as they really were: every entry that was put, the states they lead to, and which store has what."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from sparklog.chain.entry import Entry, decode_entry, hash_of
from sparklog.chain.head import Draft, Head
from sparklog.chain.mirror.mirror_place import MirrorPlace
from sparklog.chain.mirror.restored_beginning import decoded_beginning
from sparklog.chain.owner import is_owner_mark
from sparklog.chain.snapshot import snapshot
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.errors import SparklogError
from sparklog.core.records import ClusterRestored
from sparklog.core.state import first_entry
from sparklog.storage.keys import (
    COPIES,
    LOG,
    OWNERS,
    RESTORES,
    SNAPSHOTS,
    chunk_key,
    entry_key,
    mirror_key,
    mirror_prefix,
    parse_entry_key,
    parse_snapshot_key,
)
from tests.sim.restores.scheduler import Process
from tests.sim.restores.stores import Place

Report = Callable[[str], None]


class NobodyCanKnow(BaseException):
    """The operator left out every store that knew of a restore: the end of this world, and no promise is broken."""


@dataclass(frozen=True)
class Began:
    """Who put the beginning of a restored chain, and at which step. What was acknowledged until then, it may lack."""

    by: Process
    step: int


@dataclass(eq=False)
class Ghost:
    """An entry that took a slot again in a wiped place, and its holders."""

    entry: Entry
    holders: set[str] = field(default_factory=set)


class Chains:
    """All chains of a run. `places` and `stores` are by address."""

    def __init__(self, places: dict[str, Place], stores: dict[str, Place], step: Callable[[], int]) -> None:
        self.places, self.stores, self.step = places, stores, step
        self.report: Report = lambda message: None
        self.entries: dict[str, dict[int, bytes]] = defaultdict(dict)
        self.first: dict[str, tuple[int, Entry, ClusterRestored]] = {}
        self.began: dict[str, Began] = {}  # others may put the chain's first entry
        self.root = ""  # the first chain
        self.ghosts: dict[bytes, Ghost] = {}
        self.ever_told: dict[str, set[str]] = defaultdict(set)  # stores that were told of a store, by its id
        self.url_of: dict[str, str] = {}  # chains' places
        self._models: dict[str, dict[int, Head]] = defaultdict(dict)
        self._held: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._snapshots: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))

    # ---- what is seen ---------------------------------------------------------------------------

    def created(self, place: Place, key: str, body: bytes, process: Process | None) -> None:
        """An object was put, by a process."""
        if key.startswith(LOG) and place.url in self.places and not is_owner_mark(body):
            self._entry(place, parse_entry_key(key), body)
        elif key.startswith(RESTORES) and place.url in self.places and not is_owner_mark(body) and process is not None:
            beginning = decoded_beginning(body, key, place.url)
            entry = decode_entry(first_entry(int(key.removeprefix(RESTORES))), beginning.entry)
            self.began.setdefault(entry.chain_id, Began(process, self.step()))
        elif key.startswith(COPIES) and place.url in self.stores:
            chain, _, rest = key.removeprefix(COPIES).partition("/")
            if rest.startswith("log/") and not is_owner_mark(body):
                n = parse_entry_key(f"meta/{rest}")
                if self.entries[chain].setdefault(n, body) == body:
                    self._held[chain, n].add(place.url)
                elif body in self.ghosts:
                    self.ghosts[body].holders.add(place.url)
                else:
                    self.report(f"P3: {place.url} got a copy of entry {n} of {chain[:8]} that is another one")
            elif chain == "peers":
                self.ever_told[rest.partition("/")[0]].add(place.url)
            elif rest.startswith("snapshot/") and not self._is_marked_for_another(place, chain):
                self._snapshots[chain][parse_snapshot_key(f"meta/{rest}")].add(place.url)

    def _is_marked_for_another(self, store: Place, chain: str) -> bool:
        """Whether a store has the mark of a restore of this chain, so that no snapshot counts there any more."""
        previous = f'"previous":"{chain}"'.encode()
        return any(previous in store.bodies[key] for key in store.keys(OWNERS))

    def _entry(self, place: Place, n: int, body: bytes) -> None:
        entry = decode_entry(n, body)
        chain = entry.chain_id
        if not self.root:
            self.root = chain
        self.url_of.setdefault(chain, place.url)
        if self.entries[chain].setdefault(n, body) != body and place.hurt_at >= 0:
            self.ghosts.setdefault(body, Ghost(entry))
        elif self.entries[chain][n] != body:
            self.report(f"P3: {place.url} has a second entry {n} of {chain[:8]}")
        for command in entry.commands:
            for record in command.records:
                if isinstance(record, ClusterRestored):
                    there = self.first.setdefault(chain, (n, entry, record))
                    if there[0] != n:
                        self.report(f"P3: chain {chain[:8]} begins with entry {there[0]} and with entry {n}")
                    elif there[1] != entry:
                        self.report(
                            f"P3: chain {chain[:8]} begins with two entries {n}, after entry {there[2].last} and after "
                            f"entry {record.last} of the lost chain"
                        )

    # ---- models ---------------------------------------------------------------------------------

    def model(self, chain: str, n: int) -> Head:
        """The head that entry `n` of a chain leads to."""
        models = self._models[chain]
        if n not in models:
            first = self.first.get(chain)
            if n == 0:
                before = Head()
            elif first is not None and first[0] == n:
                before = self.model(self.parent_of(chain), first[2].last)
            else:
                begun = 0 if first is None else first[0]
                at = n - 1
                while at > begun and at not in models:
                    at -= 1
                for number in range(at, n):
                    self.model(chain, number)
                before = models[n - 1]
            body = self.entries[chain][n]
            draft = Draft(before)
            draft.apply(decode_entry(n, body), body, {})
            models[n] = draft.head()
        return models[n]

    def parent_of(self, chain: str) -> str:
        """The chain that this one was restored from."""
        _, entry, record = self.first[chain]
        for other, entries in self.entries.items():
            body = entries.get(record.last)
            if other != chain and body is not None and hash_of(body) == entry.previous:
                return other
        if entry.previous in map(hash_of, self.ghosts):
            raise NobodyCanKnow  # from what the old chain did in its wiped place, on stores that were left out
        raise KeyError(f"nobody knows what {chain} was restored from")

    def end(self, chain: str) -> int:
        """The newest entry of a chain."""
        return max(self.entries[chain])

    # ---- who has what ---------------------------------------------------------------------------

    def holders_ever(self, chain: str, n: int) -> frozenset[str]:
        """The stores that were given a copy of the entry, or a snapshot that covers it."""
        held = set(self._held[chain, n])
        for at, stores in self._snapshots[chain].items():
            if at >= n:
                held |= stores
        return frozenset(held)

    def has_now(self, store: Place, chain: str, n: int, before: int | None = None) -> bool:
        """Whether the store has a copy of the entry, or a whole snapshot that covers it; put before that step."""

        key = mirror_key(chain, entry_key(n))
        if store.bodies.get(key) == self.entries[chain].get(n) and store.has_had(key, before):
            return True
        return any(at >= n for at in self.whole_snapshots(store, chain, before))

    def whole_snapshots(self, store: Place, chain: str, before: int | None = None) -> Iterator[int]:
        """The entries of which the store has a snapshot that can be read, put before that step, newest first."""
        view = MirrorPlace(store, chain)
        for key in store.keys(mirror_key(chain, SNAPSHOTS)):
            original = f"meta/{key.removeprefix(mirror_prefix(chain))}"
            with suppress(SparklogError):
                manifest = snapshot.read_manifest(view, original)
                chunks = {chunk: mirror_key(chain, chunk_key(chunk)) for chunk in snapshot.known_chunks(manifest)}
                if all(store.has_had(each, before) for each in (key, *chunks.values())) and all(
                    hashlib.sha256(store.bodies[each]).hexdigest() == chunk for chunk, each in chunks.items()
                ):
                    yield manifest.n

    def whole_to(self, store: Place, chain: str, before: int | None = None) -> int:
        """The entry up to which one store by itself has the chain; -1 if it has not even its beginning.

        `before`: only what was put before that step counts.
        """

        last = max(self.whole_snapshots(store, chain, before), default=-1)
        entries = self.entries[chain]
        while store.has_had(key := mirror_key(chain, entry_key(last + 1)), before):
            if store.bodies[key] != entries.get(last + 1):
                break
            last += 1
        return last

    def wanted(self, chain: str, n: int) -> int:
        """The number of stores that must have the entry. One that lowers metadata.copies needs as many as before."""
        heads = [self.model(chain, at) for at in (n, n - 1) if at in self.entries[chain]]
        return self._wanted_by(chain, heads)

    def wanted_of_ghost(self, chain: str, body: bytes) -> tuple[int, int]:
        """The same for an entry in a wiped place; and the last entry before it that is no such one."""
        by_hash = {hash_of(ghost): ghost for ghost in self.ghosts}
        bodies = [body]
        while (before := by_hash.get(self.ghosts[bodies[0]].entry.previous)) is not None:
            bodies.insert(0, before)
        last = self.ghosts[bodies[0]].entry.n - 1
        heads = [self.model(chain, last)]
        for ghost in bodies:
            draft = Draft(heads[0])
            draft.apply(self.ghosts[ghost].entry, ghost, {})
            heads.insert(0, draft.head())
        return self._wanted_by(chain, heads[:2]), last

    def _wanted_by(self, chain: str, heads: list[Head]) -> int:
        copies = max(effective_cluster(head.state.config).metadata_copies for head in heads)
        here = self.url_of[chain]
        return min(copies, sum(store.url != here for store in heads[0].state.stores.values()))

    def rests_on(self, chain: str, n: int) -> int:
        """The newest entry up to `n` that had to have copies: since then metadata.copies is 0."""
        first = min(self.entries[chain])
        return next((at for at in range(n, first, -1) if self.wanted(chain, at)), first)

    def told_of(self, url: str) -> set[str]:
        """The stores that know of a store now."""
        prefix = f"{COPIES}peers/{store_at(url)}/"
        return {other for other, store in self.stores.items() if store.keys(prefix)}

    def marked(self, chain: str) -> set[str]:
        """The stores that have the mark of a restore as this chain."""
        return {
            url
            for url, store in self.stores.items()
            if any(chain.encode() in store.bodies[key] for key in store.keys(OWNERS))
        }


def store_at(url: str) -> str:
    """The id of the store at an address."""
    return url.rpartition("store-")[2]
