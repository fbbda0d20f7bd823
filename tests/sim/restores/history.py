"""What happened in a run, and what was promised. Every check of a promise is here.

P1  Everything acknowledged that a living store has a copy of is in the restored cluster, or the restore is refused.
    It is never refused for entries that a found store has whole, and accepting loss never gives such entries up.
P2  Once a cluster is restored, no process of the old chain acknowledges anything that the new one lacks, except on
    stores that the restore was to leave out, until they are added again. Without copies of it (metadata.copies 0 at
    the last entry restored, or at a later one whose copies are all lost with their stores), nothing can stop the old
    chain.
P3  One chain lives at a time; a chain id has one first entry, and one entry of a number.
P4  A restore that is refused before its first mark changed nothing; nobody is locked out for ever (`director.py`).
P5  Whatever is refused is refused with an error of sparklog's that has a message.
P6  The restored state is that of the chain up to the last entry found, and keeps its invariants.
P7  An entry is acknowledged only once as many stores have had a copy of it as its state asks for.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from sparklog.chain.entry import Entry, decode_entry, hash_of
from sparklog.chain.follow.follower import Follower
from sparklog.chain.head import Draft, Head
from sparklog.chain.mirror.mirror_place import MirrorPlace
from sparklog.chain.mirror.restored_beginning import decoded_beginning
from sparklog.chain.owner import is_mark
from sparklog.chain.snapshot import snapshot
from sparklog.client.restoring.restore_cluster import Restored
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.describe.state_differences import differing_parts
from sparklog.core.errors import ChainDamaged, SparklogError
from sparklog.core.records import ClusterRestored
from sparklog.core.state import CHAIN_ENTRIES, first_entry
from sparklog.core.state_invariants import check
from sparklog.storage.keys import (
    COPIES,
    INCARNATION,
    LOG,
    OWNERS,
    RESTORES,
    SNAPSHOTS,
    chunk_key,
    entry_key,
    mirror_key,
    mirror_prefix,
    owner_key,
    parse_entry_key,
    parse_snapshot_key,
    restore_key,
    snapshot_key,
)
from tests.sim.restores.scheduler import Process
from tests.sim.restores.stores import Place

Report = Callable[[str], None]
_BEYOND = re.compile(
    r"the copies of cluster (?P<chain>\w+) end with entry (?P<last>[\d,]+), but store \S+ at (?P<url>\S+) has "
)
_DAMAGED = re.compile(r"(?:entry|the snapshot|a part of a snapshot|the body)\b.* at \S+/copies/(?P<chain>\w+)/")


class NobodyCanKnow(BaseException):
    """The operator left out every store that knew of a restore: the end of this world, and no promise is broken."""


@dataclass(eq=False)
class Ack:
    """An acknowledged entry: of which chain, at which step, and on which stores it had been put by then."""

    chain: str
    n: int
    step: int
    by: str
    holders: frozenset[str]


@dataclass(eq=False)
class Generation:
    """A chain that a restore began, once it is known to be there: from a success, or from the first acknowledgement."""

    chain: str
    parent: str
    last: int
    step: int
    without: frozenset[str]  # addresses
    added: set[str] = field(default_factory=set)

    @property
    def exempt(self) -> frozenset[str]:
        """The stores where the old chain may go on for now."""
        return self.without - self.added


class History:
    """The chains as they really were, the acknowledgements, and the checks. `places` and `stores` are by address."""

    def __init__(self, places: dict[str, Place], stores: dict[str, Place], step: Callable[[], int]) -> None:
        self.places, self.stores = places, stores
        self.step = step
        self.report: Report = lambda message: None
        self.acks: list[Ack] = []
        self.generations: list[Generation] = []
        self.entries: dict[str, dict[int, bytes]] = defaultdict(dict)
        self._began: dict[str, Process] = {}  # who put what a restored chain begins with: others may put its entry
        self.first: dict[str, tuple[int, Entry, ClusterRestored]] = {}
        self.root = ""  # the first chain
        self.exempted = self.late = self.unprotected = 0
        self._ghosts: dict[bytes, set[str]] = {}  # entries that took a slot again in a wiped place; their holders
        self._models: dict[str, dict[int, Head]] = defaultdict(dict)
        self._held: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._snapshots: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._ever_told: dict[str, set[str]] = defaultdict(set)  # stores that were told of a store, by its id
        self.url_of: dict[str, str] = {}  # chains' places

    # ---- what is seen ---------------------------------------------------------------------------

    def created(self, place: Place, key: str, body: bytes, process: Process | None) -> None:
        """An object was put, by a process."""
        if key.startswith(LOG) and place.url in self.places and not is_mark(body):
            self._entry(place, parse_entry_key(key), body)
        elif key.startswith(RESTORES) and place.url in self.places and not is_mark(body) and process is not None:
            beginning = decoded_beginning(body, key, place.url)
            entry = decode_entry(first_entry(int(key.removeprefix(RESTORES))), beginning.entry)
            self._began.setdefault(entry.chain_id, process)
        elif key.startswith(COPIES) and place.url in self.stores:
            chain, _, rest = key.removeprefix(COPIES).partition("/")
            if rest.startswith("log/") and not is_mark(body):
                n = parse_entry_key(f"meta/{rest}")
                if self.entries[chain].setdefault(n, body) == body:
                    self._held[chain, n].add(place.url)
                elif body in self._ghosts:
                    self._ghosts[body].add(place.url)
                else:
                    self.report(f"P3: {place.url} got a copy of entry {n} of {chain[:8]} that is another one")
            elif chain == "peers":
                self._ever_told[rest.partition("/")[0]].add(place.url)
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
            self._ghosts.setdefault(body, set())
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

    def acknowledged(self, chain: str, n: int, by: str, entry_hash: str | None) -> None:
        """A process was told that entry `n` is there. `entry_hash` is that of the entry, if the process knows it."""
        ghost = next((body for body in self._ghosts if entry_hash == hash_of(body)), None)
        holders = self.holders_ever(chain, n) if ghost is None else frozenset(self._ghosts[ghost])
        wanted = self._wanted(chain, n)
        if len(holders) < wanted and ghost is None:
            self.report(f"P7: {by} was told of entry {n} of {chain[:8]}, on {_named(holders)}, wanted {wanted} stores")
        self._establish_lineage(chain)
        current = self.current
        if chain == current:
            if ghost is not None:
                self.report(f"P3: {by} was told of an entry {n} of {chain[:8]} that is another one")
            self.acks.append(Ack(chain, n, self.step(), by, holders))
            return
        generation = next((each for each in self.generations if each.parent == chain), None)
        if generation is not None and n <= generation.last and ghost is None:
            self.late += 1
            return
        if generation is None:
            generation = next(each for each in reversed(self.generations) if each.chain == current)
        hurt = {url for url, store in self.stores.items() if store.hurt_at > generation.step}
        free = self._beside(set(generation.exempt) | hurt, generation)
        if not wanted:  # the entry that lowered metadata.copies to 0 had them, or should have
            rests_on = self._rests_on(chain, n)
            if rests_on <= generation.last:
                self.unprotected += 1
                return
            wanted, holders = self._wanted(chain, rests_on), self.holders_ever(chain, rests_on)
            free |= self._gone_from(holders - free, chain, rests_on)
        if 0 < wanted <= len(holders & free):
            self.exempted += 1
            return
        self.report(
            f"P2: {by} was told of entry {n} of {chain[:8]}, on {self._diagnosed(holders, generation)}, after "
            f"{generation.chain[:8]} was restored from it up to entry {generation.last} without "
            f"{_named(generation.without)}{'; its old place was wiped' if ghost is not None else ''}"
        )

    def _diagnosed(self, holders: frozenset[str], generation: Generation) -> str:
        """The stores, and how the new cluster knows them."""
        _, _, record = self.first[generation.chain]
        then = {store.url for store in self.model(generation.parent, record.last).state.stores.values()}
        words = []
        for url in sorted(holders):
            what = "is unknown to it" if url not in then else "was back again" if url in generation.added else ""
            what = "was left out" if url in generation.exempt else what
            words.append(_named([url]) + (f" ({what})" if what else ""))
        return ", ".join(words)

    @property
    def current(self) -> str:
        """The chain that lives."""
        return self.generations[-1].chain if self.generations else self.root

    def _beside(self, left_out: set[str], generation: Generation) -> set[str]:
        """The stores left out, and those that only such stores were told of: nobody could know of them.

        A store that was wiped since it was told counts: an operator wipes stores that were removed.
        """
        then = self.model(generation.parent, generation.last).state.stores.values()
        found = {store.url for store in then} - left_out
        unknown = set(self.stores) - found - left_out
        told = {url: self._ever_told[_store_at(url)] for url in unknown}
        while more := {url for url in unknown if not told[url] or told[url] & found}:
            found |= more
            unknown -= more
        return unknown | left_out

    def _told_of(self, url: str) -> set[str]:
        """The stores that know of a store now."""
        prefix = f"{COPIES}peers/{_store_at(url)}/"
        return {other for other, store in self.stores.items() if store.keys(prefix)}

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
        if entry.previous in map(hash_of, self._ghosts):
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

        def in_time(key: str) -> bool:
            return before is None or store.put_at[key] < before

        key = mirror_key(chain, entry_key(n))
        if store.bodies.get(key) == self.entries[chain].get(n) and in_time(key):
            return True
        return any(
            at >= n and in_time(mirror_key(chain, snapshot_key(at))) for at in self.whole_snapshots(store, chain)
        )

    def whole_snapshots(self, store: Place, chain: str) -> Iterator[int]:
        """The entries of which the store has a snapshot that can be read, newest first."""
        view = MirrorPlace(store, chain)
        for key in store.keys(mirror_key(chain, SNAPSHOTS)):
            original = f"meta/{key.removeprefix(mirror_prefix(chain))}"
            with suppress(SparklogError):
                manifest = snapshot.read_manifest(view, original)
                chunks = snapshot.known_chunks(manifest)
                bodies = [store.bodies.get(mirror_key(chain, chunk_key(chunk))) for chunk in chunks]
                if all(
                    body is not None and hashlib.sha256(body).hexdigest() == chunk
                    for chunk, body in zip(chunks, bodies, strict=True)
                ):
                    yield manifest.n

    def whole_to(self, store: Place, chain: str, before: int | None = None) -> int:
        """The entry up to which one store by itself has the chain; -1 if it has not even its beginning.

        `before`: only what was put before that step counts.
        """

        def in_time(key: str) -> bool:
            return key in store.bodies and (before is None or store.put_at[key] < before)

        snapshots = self.whole_snapshots(store, chain)
        last = max((n for n in snapshots if in_time(mirror_key(chain, snapshot_key(n)))), default=-1)
        entries = self.entries[chain]
        while in_time(key := mirror_key(chain, entry_key(last + 1))):
            if store.bodies[key] != entries.get(last + 1):
                break
            last += 1
        return last

    def _wanted(self, chain: str, n: int) -> int:
        """The number of stores that must have the entry. One that lowers metadata.copies needs as many as before."""
        state = self.model(chain, n).state
        heads = [n, n - 1] if n - 1 in self.entries[chain] else [n]
        copies = max(effective_cluster(self.model(chain, at).state.config).metadata_copies for at in heads)
        here = self.url_of[chain]
        return min(copies, sum(store.url != here for store in state.stores.values()))

    def _gone_from(self, urls: Collection[str], chain: str, n: int) -> set[str]:
        """Those of the stores that were wiped or set back, and lack an entry since; none if one of the others has it.

        If they were all that had the entry, a restore could not know of it.
        """
        stores = {url: self.stores[url] for url in urls}
        if any(self.has_now(store, chain, n, before=self._marked_at(store, chain, n)) for store in stores.values()):
            return set()
        return {url for url, store in stores.items() if store.hurt_at >= 0}

    def _rests_on(self, chain: str, n: int) -> int:
        """The newest entry up to `n` that had to have copies: since then metadata.copies is 0."""
        first = min(self.entries[chain])
        return next((at for at in range(n, first, -1) if self._wanted(chain, at)), first)

    # ---- a restore succeeded --------------------------------------------------------------------

    def restored(self, result: Restored) -> None:
        """A restore reports success."""
        chain = result.chain_id
        if chain is None or chain not in self.first:
            self.report(f"P6: a restore says that it began chain {chain}, and there is no entry of it")
            return
        n, _, record = self.first[chain]
        if (result.first, result.last) != (n, record.last):
            self.report(f"P6: a restore says {result.first}, {result.last}; the chain says {n}, {record.last}")
        self._establish(chain)

    def _establish_lineage(self, chain: str) -> None:
        """A chain that acknowledges lives, whether a restore has reported it or not."""
        if chain == self.root or any(each.chain == chain for each in self.generations):
            return
        if any(each.parent == self.parent_of(chain) for each in self.generations):
            return  # a sibling of one that lives
        self._establish_lineage(self.parent_of(chain))
        self._establish(chain)

    def _establish(self, chain: str) -> None:
        """A restored chain is there. The arguments that count are those of the run that began it.

        Another run, with other arguments, may have put its first entry: it ends what that one has decided.
        """
        known = next((each for each in self.generations if each.chain == chain), None)
        if known is not None:
            return
        _, _, record = self.first[chain]
        parent = self.parent_of(chain)
        without, loss_accepted = self._began[chain].without, self._began[chain].loss_accepted
        other = next((each for each in self.generations if each.parent == parent), None)
        if other is not None:
            if not self._marked(other.chain) & self._marked(chain) or not self._known_to(other.chain, without):
                raise NobodyCanKnow  # all that the other one marked is lost, or was left out
            number = self.first[other.chain][0] // CHAIN_ENTRIES
            begun = self.places[self.url_of[other.chain]].bodies.get(restore_key(number))
            if begun is None or is_mark(begun) or loss_accepted:
                raise NobodyCanKnow  # its place was lost again, so it could be given up; or that was wanted
            self.report(f"P3: {parent[:8]} was restored as {other.chain[:8]} and as {chain[:8]}")
            return
        if parent != self.current:
            self.report(f"P3: {chain[:8]} was restored from {parent[:8]}, and {self.current[:8]} lives")
            return
        self.generations.append(Generation(chain, parent, record.last, self.step(), without))
        self._check_acks(chain, parent, record.last, without, loss_accepted=loss_accepted)
        self._check_state(chain)

    def _marked(self, chain: str) -> set[str]:
        """The stores that have the mark of a restore as this chain."""
        return {
            url
            for url, store in self.stores.items()
            if any(chain.encode() in store.bodies[key] for key in store.keys(OWNERS))
        }

    def _known_to(self, chain: str, without: frozenset[str]) -> set[str]:
        """Where one can see that a restored chain has begun: copies of it, or its place."""
        prefix = mirror_key(chain, LOG)
        known = {
            url
            for url, store in self.stores.items()
            if url not in without and any(not is_mark(store.bodies[key]) for key in store.keys(prefix))
        }
        place = self.places[self.url_of[chain]]
        body = place.bodies.get(entry_key(self.first[chain][0]))
        return known if body is None or is_mark(body) else known | {place.url}

    def refused(self, error: SparklogError, sources: Collection[str], without: Collection[str], begun: int) -> None:
        """P1: a restore from `sources`, which began at step `begun`, is refused.

        If the reason is damage, or that a store has entries which can't be used, no store may have had them whole.
        """
        if not isinstance(error, ChainDamaged):
            return
        if (beyond := _BEYOND.search(error.message)) is not None:
            chain, last, stores = beyond["chain"], int(beyond["last"].replace(",", "")), {beyond["url"]}
        elif (damaged := _DAMAGED.match(error.message)) is not None:
            chain = damaged["chain"]
            last, stores = self._acknowledged_before(chain, begun) - 1, self._found_from(sources) - set(without)
        else:
            return
        for url in sorted(stores):
            whole = self.whole_to(self.stores[url], chain, begun)
            if whole > last and self._is_as_registered(url, chain, whole):
                self.report(f"P1: {_named([url])} was whole up to entry {whole} before a restore was refused: {error}")

    def _acknowledged_before(self, chain: str, step: int) -> int:
        """The newest entry of a chain that was acknowledged before that step."""
        return max((ack.n for ack in self.acks if ack.chain == chain and ack.step < step), default=0)

    def _found_from(self, sources: Collection[str]) -> set[str]:
        """The stores that are known to these, or to stores that are known to these."""
        found: set[str] = set()
        new = set(sources)
        while new:
            found |= new
            new = {url for url in self.stores if self._told_of(url) & found} - found
        return found

    def _is_as_registered(self, url: str, chain: str, n: int) -> bool:
        """Whether the store has the life that it is registered with as of an entry."""
        body = self.stores[url].bodies.get(INCARNATION, b"")
        registered = self.model(chain, n).state.stores.values()
        return any(store.url == url and store.incarnation.encode() in body for store in registered)

    def _check_acks(self, chain: str, parent: str, last: int, without: frozenset[str], *, loss_accepted: bool) -> None:
        """P1. With `loss_accepted`, only what one store by itself has whole."""
        acks = [ack for ack in self.acks if ack.chain == parent and ack.n > last]
        if not acks:
            return
        end = self.model(parent, max(ack.n for ack in acks)).state
        registered = {store.url for store in end.stores.values()}
        beside = self._beside(set(without), self.generations[-1])
        for ack in acks:
            living = [
                url
                for url in sorted(ack.holders | set(self.stores))
                if url in registered and url not in beside and self._lives_on(url, ack, alone=loss_accepted)
            ]
            if living:
                then = {store.url for store in self.model(parent, last).state.stores.values()}
                words = []
                for url in living:
                    end = self.whole_to(self.stores[url], parent)
                    what = "unknown to it" if url not in then else "behind a hole" if end < ack.n else ""
                    words.append(_named([url]) + (f" ({what})" if what else ""))
                self.report(
                    f"P1: {chain[:8]} was restored from {parent[:8]} up to entry {last}, without {_named(without)}; "
                    f"{ack.by} had been told of entry {ack.n}, of which there are copies on {', '.join(words)}"
                )
                return

    def _lives_on(self, url: str, ack: Ack, *, alone: bool) -> bool:
        """Whether a store has the entry that was acknowledged: one that counted then, or has got it before its mark.

        `alone`: whether it also has all that leads to the entry.
        """
        store = self.stores[url]
        before = self._marked_at(store, ack.chain, ack.n)
        if alone:
            return self.whole_to(store, ack.chain, before) >= ack.n
        if url in ack.holders and max(store.hurt_at, store.flipped_at) < 0:
            return True
        return self.has_now(store, ack.chain, ack.n, before=before)

    def _marked_at(self, store: Place, chain: str, n: int) -> int | None:
        """The step at which a store got the mark of a restore of this chain; None if it has none."""
        owner = owner_key(len(self.model(chain, n).state.ancestors) + 1)
        return store.put_at[owner] if owner in store.bodies else None

    def _check_state(self, chain: str) -> None:
        """P6."""
        try:
            follower = Follower(self.places[self.url_of[chain]])
            follower.catch_up()
            check(follower.state)
        except (SparklogError, AssertionError) as error:
            self.report(f"P6: the restored cluster {chain[:8]} can't be read: {error}")
            return
        if follower.state.chain_id != chain:
            return  # another restore is there by now
        different = differing_parts(follower.state, self.model(chain, follower.head.n).state)
        if different:
            self.report(f"P6: the restored state of {chain[:8]} differs from its chain in {different}")


def _named(urls: Iterable[str]) -> str:
    """Stores by their short names."""
    return ",".join(sorted(map(_store_at, urls))) or "none"


def _store_at(url: str) -> str:
    """The id of the store at an address."""
    return url.rpartition("store-")[2]
