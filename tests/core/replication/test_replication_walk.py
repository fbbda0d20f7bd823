"""Random walks of one partition through writes, faults, elections, moves and rewrites, checked after every step.

A failing walk is printed by its seed; the same seed is the same walk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from sparklog.core.replication.append import Acks
from sparklog.core.replication.isr import Report
from tests.core.replication.replicated_world import Upload, World, new_world

STEPS = 250


class Walk:
    """A world, what is under way in it, and the dice that choose what happens next."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = Random(seed)
        stores = dice.randint(3, 5)
        self.world = new_world(stores, dice.randint(min(3, stores), stores), dice.randint(1, 3))
        self.world.unclean = dice.random() < 0.2
        self.uploads: list[Upload] = []
        self.reports: list[Report] = []
        self.trouble = dice.choice([0.3, 1, 1, 3])  # how often something goes wrong

    def some(self, of: tuple[str, ...] | list[str]) -> list[str]:
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
            (0.8, self.move),
            (0.1, self.alter),
            (0.5 * self.trouble, self.fence),
            (1, self.unfence),
            (0.5 * self.trouble, self.silence),
            (1, self.speak),
            (0.3 * self.trouble, self.wipe),
            (0.5, self.notice),
        ]
        (action,) = self.dice.choices([each for _, each in actions], [weight for weight, _ in actions])
        action()
        self.world.check()

    def targets(self) -> list:
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
        unclean = self.dice.random() < 0.1
        if self.dice.random() < 0.3:
            self.world.elect(unclean=unclean)
        else:
            store = self.dice.choice([self.world.value.replicas[0], *self.world.stores])
            self.world.elect_store(store, unclean=unclean)

    def move(self) -> None:
        world = self.world
        size = self.dice.randint(1, min(4, len(world.stores)))
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


def walked(seed: int, steps: int = STEPS) -> World:
    walk = Walk(seed)
    for step in range(steps):
        try:
            walk.step()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {step}: {error}") from error
    return walk.world


@pytest.mark.parametrize("decade", range(20))
def test_no_walk_breaks_a_rule(decade: int) -> None:
    for seed in range(10 * decade, 10 * decade + 10):
        walked(seed)


def test_walks_meet_everything() -> None:
    seen: Counter[str] = Counter()
    for seed in range(60):
        seen.update(walked(seed).seen)
    print(sorted(seen.items()))
