"""A tiny world around one partition: stores that really hold objects, agents, writers, and what was acknowledged.

The chain's value changes by the transitions alone; the world knows besides it which bytes are where. A step that the
rules refuse changes nothing. After each step `check` compares the two:

A. a replica holds every live slice below its LEO, unless its store lost some and nobody has noticed yet;
B. a record that was acknowledged with `acks=all` is in the log until retention or an unclean election;
C. it is on every in-sync and eligible replica whose store lost nothing unnoticed;
D. an epoch has one leader for ever;
E. no fenced store leads or is in sync;
F. whoever holds a slice by `stores_holding` really has it, under the same exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sparklog.core.errors import SparklogError
from sparklog.core.replication.election import elect, elect_store, take_over
from sparklog.core.replication.isr import LogEndReport, drop_lagging, report
from sparklog.core.replication.partition import Replication, ReplicationChange, created
from sparklog.core.replication.promotion import promoted
from sparklog.core.replication.reassignment import move
from sparklog.core.replication.replica_append import Acks, HeldSlice, append, committed
from sparklog.core.replication.replica_invariants import check, check_rewrite, check_step
from sparklog.core.replication.rewrites import move_log_start, swap
from sparklog.core.replication.slice_holders import stores_holding
from sparklog.core.replication.store_changes import fence, lose, min_isr_changed, reachable_changed
from sparklog.core.types import Holder, LeaderEpoch, Offset, OffsetRange, StoreId

T = TypeVar("T")


@dataclass(frozen=True)
class LiveSlice:
    """Records [start, end) in an object, and which stores were named to hold it. `acknowledged`: with acks=all."""

    start: int
    end: int
    object: int
    named: tuple[Holder, ...]
    acknowledged: bool


@dataclass(frozen=True)
class Upload:
    """What a writer uploaded, before its commit: where it is, and the epoch its plan named."""

    object: int
    offsets: int
    holders: tuple[Holder, ...]
    epoch: LeaderEpoch


@dataclass
class World:
    """One partition on some of the stores."""

    stores: tuple[StoreId, ...]
    value: Replication
    min_isr: int
    unclean: bool = False
    registrations: dict[StoreId, int] = field(default_factory=dict)
    fenced: set[StoreId] = field(default_factory=set)
    silent: set[StoreId] = field(default_factory=set)
    damaged: set[StoreId] = field(default_factory=set)  # lost something that nobody has noticed yet
    held: dict[StoreId, set[int]] = field(default_factory=dict)  # objects that are really there
    slices: list[LiveSlice] = field(default_factory=list)
    leaders: dict[int, StoreId] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)  # objects whose writers wait for HW: acks=all, pull
    next_number: int = 0
    seen: dict[str, int] = field(default_factory=dict)  # how often each thing happened, or was refused

    def __post_init__(self) -> None:
        self.registrations = {store: self.number() for store in self.stores}
        self.held = {store: set() for store in self.stores}

    def number(self) -> int:
        self.next_number += 1
        return self.next_number

    # ---- what can be seen -----------------------------------------------------------------------

    @property
    def reachable(self) -> list[StoreId]:
        return [store for store in self.stores if store not in self.fenced | self.silent]

    def live(self) -> dict[StoreId, int]:
        """Registrations of the stores that are not fenced."""
        return {store: number for store, number in self.registrations.items() if store not in self.fenced}

    def contiguous_end(self, store: StoreId, start: int) -> int:
        """Where the log that the store really holds from `start` on ends; a gap in the log counts as held."""
        for each in self.slices:
            if each.end > start and each.object not in self.held[store]:
                return max(start, each.start)
        return self.value.next_offset

    def end_of_gap(self, at: int) -> Offset:
        """`at`, or the end of the gap that begins or lies there."""
        return Offset(next((max(at, each.start) for each in self.slices if each.end > at), self.value.next_offset))

    # ---- writers --------------------------------------------------------------------------------

    def upload(self, offsets: int, stores: Iterable[StoreId]) -> Upload:
        number = self.number()
        uploaded = tuple(store for store in stores if store in self.reachable)
        for store in uploaded:
            self.held[store].add(number)
        holders = tuple(Holder(store, self.registrations[store]) for store in uploaded)
        return Upload(number, offsets, holders, self.value.leader_epoch)

    def commit(self, written: Upload, acks: Acks, *, pull: bool = False, takes_over: bool = False) -> bool:
        """Whether the write was accepted. `takes_over`: embedded, a holder may become the leader in the same entry."""
        named = {each.store for each in written.holders}
        if any(self.live().get(each.store) != each.registration for each in written.holders):
            return self.count("commit refused: stale holder")
        before, epoch = self.value, written.epoch

        def decide() -> Replication:
            taken = take_over(before, named, self.min_isr) if takes_over else before
            under = taken.leader_epoch if takes_over and epoch == before.leader_epoch else epoch
            slices = [HeldSlice(written.offsets, frozenset(named))]
            return append(taken, slices, acks, LeaderEpoch(under), self.min_isr, pull=pull)

        after = self.attempt(f"commit acks={acks.name}{' takes over' * takes_over}", decide)
        if after is None:
            return False
        acknowledged = acks is Acks.ALL and not pull
        start = before.next_offset
        self.slices.append(LiveSlice(start, start + written.offsets, written.object, written.holders, acknowledged))
        if acks is Acks.ALL and pull:
            self.waiting.add(written.object)
        if acknowledged:
            assert after.high_watermark == after.next_offset, "H1: HW passes a write with acks=all at once"
            assert set(after.isr) <= named
        self.become(after)
        return True

    # ---- agents ---------------------------------------------------------------------------------

    def fetch(self, store: StoreId, slices: int) -> LogEndReport | None:
        """Copy the next slices beyond the LEO from whoever holds them; the report of what is there now."""
        if store not in self.value.replicas or store in self.fenced | self.silent:
            return None
        end = self.value.log_end(store)
        missing = [each for each in self.slices if each.end > end and each.object not in self.held[store]]
        for each in missing[:slices]:
            if not any(each.object in self.held[other] for other in self.reachable):
                break
            self.held[store].add(each.object)
        reached = Offset(self.contiguous_end(store, end))
        return LogEndReport(store, self.registrations[store], self.value.leader_epoch, self.value.version, reached)

    def deliver(self, reported: LogEndReport) -> None:
        moving = self.value.adding or self.value.removing
        self.elections(
            "report",
            lambda: report(self.value, reported, self.live(), self.min_isr, silent=self.silent),
            reported=reported,
        )
        if moving and not (self.value.adding or self.value.removing):
            self.count("move done by a report")

    # ---- stores ---------------------------------------------------------------------------------

    def wipe(self, store: StoreId, objects: Iterable[int]) -> None:
        gone = self.held[store] & set(objects)
        if gone:
            self.held[store] -= gone
            self.damaged.add(store)
            self.count("wiped")

    def notice(self, store: StoreId) -> None:
        """The agent finds out what is missing (S1)."""
        if store in self.damaged:
            self.damaged.discard(store)
            self.registrations[store] = self.number()
            if store in self.value.replicas:
                held = Offset(self.contiguous_end(store, self.value.log_start))
                self.elections(
                    "lose", lambda: lose(self.value, store, held, self.reachable, self.min_isr, unclean=self.unclean)
                )

    def fence(self, store: StoreId) -> None:
        self.fenced.add(store)
        self.registrations[store] = self.number()
        self.elections("fence", lambda: fence(self.value, store, self.reachable, self.min_isr, unclean=self.unclean))

    def unfence(self, store: StoreId) -> None:
        """The store is back. What it lacks is noticed before it takes part again."""
        self.fenced.discard(store)
        self.registrations[store] = self.number()
        self.notice(store)
        self.look_for_leader("unfence")

    def silence(self, store: StoreId) -> None:
        self.silent.add(store)
        self.look_for_leader("silence")

    def speak(self, store: StoreId) -> None:
        self.silent.discard(store)
        self.look_for_leader("speak")

    def heal(self) -> None:
        """Every store is back and every loss noticed. Then a partition has a leader if any replica may lead (E1)."""
        for store in self.stores:
            self.notice(store)
            self.unfence(store)
            self.speak(store)
            self.check()
        value = self.value
        assert value.leader is not None or max(value.log_ends) < value.high_watermark, f"nobody leads: {value}"

    def look_for_leader(self, name: str) -> None:
        self.elections(name, lambda: reachable_changed(self.value, self.reachable, self.min_isr, unclean=self.unclean))

    # ---- operators and jobs ---------------------------------------------------------------------

    def drop_lagging(self, stores: Iterable[StoreId]) -> None:
        view = self.value
        chosen = [store for store in stores if store in view.replicas]
        self.change("drop lagging", lambda: drop_lagging(view, chosen, view.leader_epoch, view.version, self.min_isr))

    def elect(self, *, unclean: bool = False) -> None:
        self.elections("elect", lambda: elect(self.value, self.reachable, self.min_isr, unclean=unclean), unclean)

    def elect_store(self, store: StoreId, *, unclean: bool = False) -> None:
        self.elections(
            "elect store",
            lambda: elect_store(self.value, store, self.reachable, self.min_isr, unclean=unclean),
            unclean,
        )

    def move(self, target: tuple[StoreId, ...]) -> None:
        usable = list(self.live())
        self.change(
            "move", lambda: move(self.value, target, usable, self.min_isr, self.end_of_gap(self.value.log_start))
        )

    def swap(self, first: int, count: int, stores: Iterable[StoreId]) -> None:
        """Rewrite slices below HW into one object, held by some stores; the old objects are deleted everywhere."""
        below = [
            each for each in self.slices if each.end <= self.value.high_watermark and each.start >= self.value.log_start
        ]
        chosen = below[first : first + count]
        if not chosen:
            return
        written = self.upload(1, [store for store in stores if self.can_read(store, chosen)])
        holders = {each.store for each in written.holders}
        rewritten = OffsetRange(Offset(chosen[0].start), self.end_of_gap(chosen[-1].end))
        before = self.value
        if self.change("swap", lambda: swap(self.value, rewritten, holders, self.min_isr)):
            check_rewrite(before, self.value, self.min_isr)
            acknowledged = any(each.acknowledged for each in chosen)
            new = LiveSlice(rewritten.start, chosen[-1].end, written.object, written.holders, acknowledged)
            at = self.slices.index(chosen[0])
            self.slices[at : at + len(chosen)] = [new]
            self.delete(each.object for each in chosen)

    def can_read(self, store: StoreId, slices: Iterable[LiveSlice]) -> bool:
        return all(any(each.object in self.held[other] for other in self.stores) for each in slices)

    def retain(self, to: int) -> None:
        if self.value.log_start < to <= self.value.high_watermark:
            self.change("retain", lambda: move_log_start(self.value, Offset(to), self.end_of_gap(to)))
            self.delete(each.object for each in self.slices if each.end <= to)
            self.slices = [each for each in self.slices if each.end > to]

    def promote(self, empty: int) -> None:
        """A mirror of Kafka ends, `empty` offsets behind its last record."""
        end = Offset(self.value.next_offset + empty)
        self.change("promote", lambda: promoted(self.value, end, self.min_isr))

    def change_min_isr(self, min_isr: int) -> None:
        self.min_isr = min_isr
        self.change("min ISR", lambda: min_isr_changed(self.value, min_isr))

    def delete(self, objects: Iterable[int]) -> None:
        gone = set(objects)
        for store in self.stores:
            self.held[store] -= gone

    # ---- steps ----------------------------------------------------------------------------------

    def count(self, name: str) -> bool:
        self.seen[name] = self.seen.get(name, 0) + 1
        return False

    def attempt(self, name: str, decide: Callable[[], T]) -> T | None:
        try:
            after = decide()
        except SparklogError as error:
            self.count(f"{name}: {error.code}")
            return None
        self.count(name)
        return after

    def change(self, name: str, decide: Callable[[], Replication]) -> bool:
        """Whether a transition that forgets nothing was accepted."""
        after = self.attempt(name, decide)
        if after is not None:
            self.become(after)
        return after is not None

    def elections(
        self,
        name: str,
        decide: Callable[[], ReplicationChange],
        unclean: bool = False,
        reported: LogEndReport | None = None,
    ) -> None:
        """A transition that may elect: what its leader lacks goes out of the log."""
        change, before = self.attempt(name, decide), self.value
        if change is None:
            return
        if change.after.leader_epoch > before.leader_epoch:
            self.count(f"{name} elects")
        if change.forgotten is not None:
            start = change.forgotten.start
            self.count("forgets")
            if start < before.high_watermark:
                assert unclean or self.unclean, "B: a clean election forgets committed records"
                assert change.after.lost[-1].end == before.high_watermark
                self.count("loses")
            gone = [each for each in self.slices if each.end > start]
            self.slices = self.slices[: len(self.slices) - len(gone)]
            self.delete(each.object for each in gone)
        elif change.after.leader_epoch > before.leader_epoch and change.after.leader is not None:
            leader = change.after.leader
            risen = reported.log_end if reported is not None and reported.store == leader else 0
            assert max(before.log_end(leader), risen) == before.next_offset
        self.become(change.after)

    def become(self, after: Replication) -> None:
        check_step(self.value, after, self.min_isr)
        if self.value.leader_epoch != after.leader_epoch:
            assert after.leader is not None
            assert self.leaders.setdefault(after.leader_epoch, after.leader) == after.leader, "D: two leaders"
        for store in set(self.value.replicas) - set(after.replicas):
            self.held[store] -= {each.object for each in self.slices}  # a replica that moved away is deleted
        self.value = after

    def answer(self) -> None:
        """Tell writers that wait whether their records are committed."""
        for number in sorted(self.waiting):
            of = next((each for each in self.slices if each.object == number), None)
            end = Offset(0) if of is None else Offset(of.end)
            try:
                done = committed(self.value, end, self.min_isr, named=of is not None)
            except SparklogError as error:
                self.count(f"pull: {error.code}")
                self.waiting.discard(number)
            else:
                if done and of is not None:
                    self.count("pull")
                    self.waiting.discard(number)
                    self.slices[self.slices.index(of)] = replace(of, acknowledged=True)

    def check(self) -> None:
        self.answer()
        value = self.value
        check(value, self.min_isr)
        if value.leader is not None:
            assert self.leaders.setdefault(value.leader_epoch, value.leader) == value.leader, "D: two leaders"
        assert not self.fenced & {value.leader, *value.isr}, f"E: fenced are {self.fenced}: {value}"
        sound = [store for store in value.replicas if store not in self.damaged]
        for end in value.log_ends:
            assert self.end_of_gap(end) == end, f"a LEO stops at a gap: {value}"
        for each in self.slices:
            for store in sound:
                if value.log_end(store) >= each.end:
                    assert each.object in self.held[store], f"A: {store} is said to hold {each}: {value}"
                if each.acknowledged and store in (*value.isr, *value.elr):
                    assert each.object in self.held[store], f"C: {store} lacks the acknowledged {each}: {value}"
            holding = stores_holding(Offset(each.end), each.named, value, self.registrations)
            for store in holding:
                assert store in self.damaged or each.object in self.held[store], f"F: {store} lacks {each}: {value}"


def new_world(stores: int, replication_factor: int, min_isr: int, *, unclean: bool = False) -> World:
    names = tuple(StoreId(f"s{number}") for number in range(1, stores + 1))
    return World(names, created(names[:replication_factor]), min_isr, unclean)
