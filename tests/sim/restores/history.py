"""What was promised in a run: every check of a promise, but for those of entries that are put (P3, in `chains.py`).

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

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from sparklog.chain.entry import hash_of
from sparklog.chain.follow.follower import Follower
from sparklog.chain.owner import is_owner_mark
from sparklog.client.restoring.restore_cluster import Restored
from sparklog.core.describe.state_differences import differing_parts
from sparklog.core.errors import ChainDamaged, SparklogError
from sparklog.core.state import CHAIN_ENTRIES
from sparklog.core.state_invariants import check
from sparklog.storage.keys import INCARNATION, LOG, entry_key, mirror_key, owner_key, restore_key
from tests.sim.restores.chains import Chains, NobodyCanKnow, store_at
from tests.sim.restores.stores import Place

_BEYOND = re.compile(
    r"the copies of cluster (?P<chain>\w+) end with entry (?P<last>[\d,]+), but store \S+ at (?P<url>\S+) has "
)
_DAMAGED = re.compile(r"(?:entry|the snapshot|a part of a snapshot|the body)\b.* at \S+/copies/(?P<chain>\w+)/")


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


class History(Chains):
    """The acknowledgements, and the checks."""

    def __init__(self, places: dict[str, Place], stores: dict[str, Place], step: Callable[[], int]) -> None:
        super().__init__(places, stores, step)
        self.acks: list[Ack] = []
        self.generations: list[Generation] = []
        self.exempted = self.late = self.unprotected = 0

    def acknowledged(self, chain: str, n: int, by: str, entry_hash: str | None) -> None:
        """A process was told that entry `n` is there. `entry_hash` is that of the entry, if the process knows it."""
        ghost = next((body for body in self.ghosts if entry_hash == hash_of(body)), None)
        holders = self.holders_ever(chain, n) if ghost is None else frozenset(self.ghosts[ghost].holders)
        wanted, real = (self.wanted(chain, n), n) if ghost is None else self.wanted_of_ghost(chain, ghost)
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
            rests_on = self.rests_on(chain, real)
            if rests_on <= generation.last:
                self.unprotected += 1
                return
            wanted, holders = self.wanted(chain, rests_on), self.holders_ever(chain, rests_on)
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
        told = {url: self.ever_told[store_at(url)] for url in unknown}
        while more := {url for url in unknown if not told[url] or told[url] & found}:
            found |= more
            unknown -= more
        return unknown | left_out

    def _gone_from(self, urls: Collection[str], chain: str, n: int) -> set[str]:
        """Those of the stores that were wiped or set back, and lack an entry since; none if one of the others has it.

        If they were all that had the entry, a restore could not know of it.
        """
        stores = {url: self.stores[url] for url in urls}
        if any(self.has_now(store, chain, n, before=self._marked_at(store, chain, n)) for store in stores.values()):
            return set()
        return {url for url, store in stores.items() if store.hurt_at >= 0}

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
        without, loss_accepted = self.began[chain].by.without, self.began[chain].by.loss_accepted
        other = next((each for each in self.generations if each.parent == parent), None)
        if other is not None:
            if not self.marked(other.chain) & self.marked(chain) or not self._known_to(other.chain, without):
                raise NobodyCanKnow  # all that the other one marked is lost, or was left out
            number = self.first[other.chain][0] // CHAIN_ENTRIES
            begun = self.places[self.url_of[other.chain]].bodies.get(restore_key(number))
            if begun is None or is_owner_mark(begun) or loss_accepted:
                raise NobodyCanKnow  # its place was lost again, so it could be given up; or that was wanted
            self.report(f"P3: {parent[:8]} was restored as {other.chain[:8]} and as {chain[:8]}")
            return
        if parent != self.current:
            self.report(f"P3: {chain[:8]} was restored from {parent[:8]}, and {self.current[:8]} lives")
            return
        self.generations.append(Generation(chain, parent, record.last, self.step(), without))
        self._check_acks(chain, parent, record.last, without, loss_accepted=loss_accepted)
        self._check_state(chain)

    def _known_to(self, chain: str, without: frozenset[str]) -> set[str]:
        """Where one can see that a restored chain has begun: copies of it, or its place."""
        prefix = mirror_key(chain, LOG)
        known = {
            url
            for url, store in self.stores.items()
            if url not in without and any(not is_owner_mark(store.bodies[key]) for key in store.keys(prefix))
        }
        place = self.places[self.url_of[chain]]
        body = place.bodies.get(entry_key(self.first[chain][0]))
        return known if body is None or is_owner_mark(body) else known | {place.url}

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
            new = {url for url in self.stores if self.told_of(url) & found} - found
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
                if url in registered and url not in beside and self._lives_on(url, ack, chain, alone=loss_accepted)
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

    def _lives_on(self, url: str, ack: Ack, chain: str, *, alone: bool) -> bool:
        """Whether a store has the entry that `chain` lacks: it counted for the acknowledgement, or has got it in time.

        In time is before the mark of the restore. A store that a fault has taken it from must have got it before the
        restored chain began. `alone`: whether the store also has all that leads to the entry.
        """
        store, began = self.stores[url], self.began[chain].step
        before = self._marked_at(store, ack.chain, ack.n)
        if before is None and store.hurt_at > began:
            before = began
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
    return ",".join(sorted(map(store_at, urls))) or "none"
