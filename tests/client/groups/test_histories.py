"""Seeded histories of a group: members join, leave, stall and crash while records arrive. What must hold for each:

- in one generation, no partition is read by two members;
- what is committed never goes back, and nothing above it was left unread by whoever committed;
- at the end, whoever is left has read every record.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

import sparklog
from sparklog.client.cluster import Cluster
from sparklog.client.groups.member import GroupMember
from sparklog.core.errors import IllegalGeneration, UnknownMemberId
from sparklog.core.types import Place
from tests.kit.budget import Seeds, random_runs
from tests.kit.hand_clock import HandClock
from tests.kit.kernel import RandomSteps, played
from tests.kit.log import new_cluster

TOPICS = ("orders", "payments", "returns")
SESSION_MS, STEPS = 6_000, 120


@dataclass
class Consumer:
    """A process with a member, and where it has read up to."""

    member: GroupMember
    positions: dict[Place, int] = field(default_factory=dict)

    def begin(self) -> None:
        """Go on from what is committed."""
        self.positions = {place: self.member.starts().get(place, 0) for place in self.member.assigned}


class History(RandomSteps):
    """One seed, one history. All processes share a clock; one that does nothing is one that stalls."""

    length = STEPS

    def __init__(self, seed: int, cluster: Cluster) -> None:
        super().__init__(seed)
        self.cluster = cluster
        self.clock = HandClock()
        self.consumers: list[Consumer] = []
        self.readers: dict[tuple[int, Place], set[str]] = {}
        self.read: dict[Place, set[int]] = {}
        self.committed: dict[Place, int] = {}
        self.born = 0
        self.join()

    def step(self) -> None:
        kind = self.dice.choice(["append", "join", "leave", "crash", *["work"] * 8, *["poll"] * 4, "time"])
        self.counts[kind] += 1
        self.trace.append(kind)
        if kind == "append":
            self.append()
        elif kind == "time":
            self.clock.pause(self.dice.randrange(SESSION_MS))
        elif kind == "join":
            if len(self.consumers) < 4:
                self.join()
        elif self.consumers:
            consumer = self.dice.choice(self.consumers)
            if kind == "work":
                self.work(consumer)
            elif kind == "poll":
                self.poll(consumer)
            elif len(self.consumers) > 1:
                self.consumers.remove(consumer)
                if kind == "leave":
                    consumer.member.leave()
        self.check()

    def append(self) -> None:
        topic = self.dice.choice(TOPICS)
        count = self.dice.randrange(1, 6)
        partitions = pa.array([self.dice.randrange(2) for _ in range(count)], pa.int32())
        self.cluster.append(topic, pa.table({"value": ["x"] * count, "partition": partitions}))

    def join(self) -> None:
        self.born += 1
        topics = self.dice.sample(TOPICS, self.dice.randrange(1, 4))
        connection = sparklog.connect(self.cluster.connection.url).connection
        member = GroupMember(
            connection,
            "billing",
            TOPICS if self.born == 1 else topics,
            session_timeout_ms=SESSION_MS,
            member_id=f"{self.dice.randrange(100):02}-{self.born}",
            clock=self.clock,
        )
        consumer = Consumer(member)
        consumer.begin()
        self.consumers.append(consumer)

    def poll(self, consumer: Consumer) -> None:
        if consumer.member.poll():
            consumer.begin()

    def work(self, consumer: Consumer) -> None:
        """Read on in a partition, then commit, or be held up before that."""
        if not consumer.positions:
            return
        place = self.dice.choice(sorted(consumer.positions))
        start = consumer.positions[place]
        topic, partition = place
        count = self.cluster.read(topic, partition=partition, start=start, columns=["offset"]).num_rows
        end = start + min(count, self.dice.randrange(1, 5))
        self.readers.setdefault((consumer.member.generation, place), set()).add(consumer.member.member_id)
        self.read.setdefault(place, set()).update(range(start, end))
        consumer.positions[place] = end
        if self.dice.random() < 0.7:
            try:
                consumer.member.commit({place: end})
            except (IllegalGeneration, UnknownMemberId):
                self.counts["fenced"] += 1
                self.poll(consumer)

    def check(self) -> None:
        for (generation, place), members in self.readers.items():
            assert len(members) == 1, f"{place} was read by {members} in generation {generation}"
        for place, row in self.cluster.committed("billing").items():
            assert row.offset >= self.committed.get(place, 0), f"{place} went back"
            assert set(range(row.offset)) <= self.read.get(place, set()), f"{place}: committed, but unread"
            self.committed[place] = row.offset

    def end(self) -> None:
        """Those who are left, and one who wants everything, outlive the others and read to the end."""
        self.born = 0
        self.join()
        for _ in range(4):
            self.clock.pause(SESSION_MS // 2)
            for consumer in self.consumers:
                self.poll(consumer)
        for _ in range(3):
            for consumer in self.consumers:
                self.poll(consumer)
                for place in list(consumer.positions):
                    end = self.cluster.describe(place[0]).partitions[place[1]].high_watermark
                    self.read.setdefault(place, set()).update(range(consumer.positions[place], end))
                    consumer.member.commit({place: end})
                    consumer.positions[place] = end
        self.check()
        for topic in TOPICS:
            for partition in self.cluster.describe(topic).partitions:
                place = topic, partition.partition
                assert self.read.get(place, set()) == set(range(partition.high_watermark))
                assert self.committed.get(place) == partition.high_watermark


def run(seed: int) -> Counter[str]:
    with new_cluster() as cluster:
        for topic in TOPICS:
            cluster.create_topic(topic, partitions=2)
        return played(History(seed, cluster)).counts


@random_runs(range(2), campaign=[range(100, 300)])
def test_histories_of_a_group(seeds: Seeds) -> None:  # M: I-07
    counts = sum(map(run, seeds), Counter())
    assert min(counts[name] for name in ("append", "join", "leave", "crash", "work", "poll", "time", "fenced")) > 3
