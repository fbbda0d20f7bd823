"""Random walks of one partition through writes, faults, elections, moves and rewrites, checked after every step.

A failing walk is printed by its seed; the same seed is the same walk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.core.replication.isr import LogEndReport
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import StoreId
from tests.core.replication.replicated_world import Upload, new_world
from tests.kit.budget import Seeds, random_runs
from tests.kit.kernel import RandomSteps, played, weighted

STEPS = 250


class Walk(RandomSteps):
    """A world, what is under way in it, and the dice that choose what happens next."""

    length = STEPS

    def __init__(self, seed: int, given: Random | None = None) -> None:
        super().__init__(seed)
        dice = self.dice = given or self.dice
        stores = dice.randint(3, 5)
        self.world = new_world(stores, dice.randint(min(3, stores), stores), dice.randint(1, 3))
        self.world.unclean = dice.random() < 0.3
        self.uploads: list[Upload] = []
        self.reports: list[LogEndReport] = []
        self.trouble = dice.choice([0.3, 1, 1, 3])  # how often something goes wrong

    def some(self, of: tuple[StoreId, ...]) -> list[StoreId]:
        return [store for store in of if self.dice.random() < 0.6]

    def step(self) -> None:
        actions: list[tuple[float, Callable[[], None]]] = [
            (6, self.write),
            (2, self.upload),
            (2, self.commit_late),
            (8, self.fetch),
            (4, self.deliver),
            (1, self.lag),
            (1, self.swap),
            (0.7, self.retain),
            (0.7, self.elect),
            (0.5, self.move),
            (0.2, lambda: self.world.promote(self.dice.randint(0, 2))),
            (0.1, self.alter),
            (0.4 * self.trouble, self.fence),
            (1.2, self.unfence),
            (0.4 * self.trouble, self.silence),
            (1.2, self.speak),
            (0.2 * self.trouble, self.wipe),
            (0.8, self.notice),
        ]
        weighted(self.dice, actions)()
        self.world.check()

    def end(self) -> None:
        self.world.heal()

    def targets(self) -> list[StoreId]:
        """Where a writer uploads: mostly the whole ISR, sometimes what it can reach, sometimes the leader alone."""
        value = self.world.value
        everywhere = [*value.isr]
        return self.dice.choice(
            [everywhere, everywhere, everywhere, [*value.replicas], self.some(value.replicas), [*everywhere[:1]]]
        )

    def upload(self) -> None:
        self.uploads.append(self.world.upload(self.dice.randint(1, 3), self.targets()))

    def write(self) -> None:
        self.upload()
        self.commit(self.uploads.pop())

    def commit(self, written: Upload) -> None:
        acks = self.dice.choice([Acks.ALL, Acks.ALL, Acks.LEADER, Acks.NONE])
        leader = self.world.value.leader
        missed = leader is not None and leader not in [each.store for each in written.holders]
        takes_over = missed and self.dice.random() < 0.5
        self.world.commit(written, acks, pull=self.dice.random() < 0.2, takes_over=takes_over)

    def commit_late(self) -> None:
        """One of the uploads of before, under the epoch of then or under the present one."""
        if self.uploads:
            written = self.uploads.pop(self.dice.randrange(len(self.uploads)))
            epoch = self.dice.choice([written.epoch, self.world.value.leader_epoch])
            self.commit(replace(written, epoch=epoch))

    def fetch(self) -> None:
        world = self.world
        reported = world.fetch(self.dice.choice(world.stores), self.dice.randint(1, 4))
        if reported is not None:
            self.reports.append(reported)
            if self.dice.random() < 0.7:
                world.deliver(reported)

    def deliver(self) -> None:
        """A report that is late, or comes twice."""
        if self.reports:
            self.world.deliver(self.dice.choice(self.reports[-8:]))

    def lag(self) -> None:
        self.world.drop_lagging(self.some(self.world.stores))

    def swap(self) -> None:
        self.world.swap(self.dice.randint(0, 3), self.dice.randint(1, 3), self.targets())

    def retain(self) -> None:
        value = self.world.value
        self.world.retain(self.dice.randint(value.log_start, value.high_watermark))

    def elect(self) -> None:
        unclean = self.dice.random() < 0.3
        if self.dice.random() < 0.3:
            self.world.elect(unclean=unclean)
        else:
            store = self.dice.choice([self.world.value.replicas[0], *self.world.stores])
            self.world.elect_store(store, unclean=unclean)

    def move(self) -> None:
        world = self.world
        size = min(self.dice.choice([1, 2, 3, 3, 3, 4]), len(world.stores))
        self.world.move(tuple(self.dice.sample(world.stores, size)))

    def alter(self) -> None:
        self.world.change_min_isr(self.dice.randint(1, 3))

    def fence(self) -> None:
        self.world.fence(self.dice.choice(self.world.stores))

    def unfence(self) -> None:
        if self.world.fenced:
            self.world.unfence(self.dice.choice(sorted(self.world.fenced)))

    def silence(self) -> None:
        self.world.silence(self.dice.choice(self.world.stores))

    def speak(self) -> None:
        if self.world.silent:
            self.world.speak(self.dice.choice(sorted(self.world.silent)))

    def wipe(self) -> None:
        world = self.world
        store = self.dice.choice(world.stores)
        objects = sorted(world.held[store])
        lost = objects if self.dice.random() < 0.5 else [each for each in objects if self.dice.random() < 0.3]
        world.wipe(store, lost)

    def notice(self) -> None:
        if self.world.damaged:
            self.world.notice(self.dice.choice(sorted(self.world.damaged)))


@given(st.randoms(use_true_random=False), st.integers(0, 60))
@settings(max_examples=60)
def test_no_short_walk_breaks_a_rule(dice: Random, steps: int) -> None:
    """Hypothesis throws these dice: a walk that fails is shortened."""
    walk = Walk(0, dice)
    for _ in range(steps):
        walk.step()


MET = (
    "commit acks=ALL",
    "commit acks=ALL takes over",
    "commit acks=ALL: FENCED_LEADER_EPOCH",
    "commit acks=ALL: NOT_ENOUGH_REPLICAS",
    "commit acks=ALL: NO_REPLICA_ONLINE",
    "commit acks=LEADER",
    "commit refused: stale holder",
    "drop lagging",
    "elect store elects",
    "fence elects",
    "forgets",
    "lose elects",
    "loses",
    "move",
    "pull",
    "pull: NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "pull: NOT_LEADER_OR_FOLLOWER",
    "promote",
    "promote: NOT_ENOUGH_REPLICAS",
    "promote: NO_REPLICA_ONLINE",
    "move done by a report",
    "report",
    "report elects",
    "report: FENCED_LEADER_EPOCH",
    "report: INVALID_UPDATE_VERSION",
    "report: STALE_BROKER_EPOCH",
    "retain",
    "silence elects",
    "swap",
    "swap: NOT_ENOUGH_REPLICAS",
    "unfence elects",
    "wiped",
)


@random_runs(range(40), campaign=[range(240)])
def test_no_walk_breaks_a_rule_and_all_that_may_happen_is_met(seeds: Seeds) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        seen.update(played(Walk(seed)).world.seen)
    assert [each for each in MET if not seen[each]] == []
