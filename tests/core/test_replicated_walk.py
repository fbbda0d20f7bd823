"""Random commands on partitions with three replicas: invariants after each, and three ways to the same state.

`ReplicatedLog` checks every state and step. At the end of a walk the entries, as they are in the chain, lead to the
same state when they are applied anew; and so does a snapshot from half-way with the entries after it. A failing walk
is named by its seed.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

from msgspec import UNSET
from msgspec.structs import replace

from sparklog.chain.entry import Entry, decode_entry, encode_entry
from sparklog.chain.snapshot import snapshot
from sparklog.core.commands import (
    AgentDown,
    AgentUp,
    AllocateProducer,
    Application,
    DropLagging,
    LaggingReplicas,
    MoveLogStart,
    PromoteTopic,
)
from sparklog.core.coordination import Author
from sparklog.core.errors import SparklogError
from sparklog.core.records import PartitionsChanged
from sparklog.core.replication.replica_append import Acks
from sparklog.core.state import ClusterState
from sparklog.core.types import (
    Holder,
    KafkaTopic,
    Offset,
    OffsetRange,
    PartitionIndex,
    ProducerId,
    StoreId,
    TimestampSource,
)
from sparklog.storage.memory import MemoryStore
from tests.core.decided_log import span
from tests.core.mirrored_log import SOURCE
from tests.core.replicated_log import TOPIC, ReplicatedLog
from tests.core.state_contents import contents
from tests.kit.apply_entry import apply_entry
from tests.kit.budget import Seeds, random_runs
from tests.kit.kernel import weighted

STEPS = 150


class Walk:
    def __init__(self, seed: int, mirror_of: KafkaTopic | None = None) -> None:
        self.dice = Random(seed)
        self.log = ReplicatedLog(stores="abcd", partitions=2, mirror_of=mirror_of)
        self.log.configure(
            min_insync_replicas=str(self.dice.randint(1, 3)),
            unclean_leader_election_enable=self.dice.choice(["false", "false", "true"]),
        )
        self.producers = [self.log.producer() for _ in range(2)]
        self.epochs: Counter[ProducerId] = Counter()
        self.renewed: list[ProducerId] = []  # they begin their next epochs
        self.sequences: Counter[tuple[ProducerId, int, int]] = Counter()
        self.planned: list[Callable[[], object]] = []  # the next steps
        self.seen: Counter[str] = Counter()

    def store(self) -> str:
        return self.dice.choice("abcd")

    def some(self, of: tuple[StoreId, ...]) -> str:
        return "".join(each for each in of if self.dice.random() < 0.7)

    def step(self) -> None:
        action = self.planned.pop(0) if self.planned else self.any_action()
        for producer in self.renewed:
            self.log.submit(AllocateProducer(producer))
            self.epochs[producer] += 1
        self.renewed.clear()
        before = self.log.state.n
        try:
            action()
        except SparklogError as error:
            self.seen[error.code] += 1
            assert self.log.state.n == before, "a refusal leaves a trace"
            return
        if self.log.state.n > before:
            for record in self.log.entries[self.log.state.n][0].records:
                self.seen[type(record).__name__] += 1
                if isinstance(record, PartitionsChanged) and any(
                    each.forgotten_from is not UNSET for each in record.changes
                ):
                    self.seen["forgets"] += 1

    def any_action(self) -> Callable[[], object]:
        actions: list[tuple[float, Callable[[], object]]] = [
            (8, self.write),
            (6, self.report),
            (1, self.drop),
            (1, lambda: self.log.elect(self.dice.choice([None, *"abcd"]), unclean=self.dice.random() < 0.2)),
            (1, lambda: self.log.move("".join(self.dice.sample("abcd", self.dice.choice([2, 3, 3]))))),
            (1, lambda: self.log.fence(self.store())),
            (3, lambda: self.log.register(self.store())),
            (1.5, self.lose),
            (0.3, self.plan_a_loss_on_all_stores),
            (0.7, lambda: self.log.submit(AgentDown(each := StoreId(self.store()), self.log.registration(each)))),
            (1.5, lambda: self.log.submit(AgentUp(each := StoreId(self.store()), self.log.registration(each)))),
            (1, self.swap),
            (0.5, self.retain),
            (0.2, lambda: self.log.configure(min_insync_replicas=str(self.dice.randint(1, 3)))),
        ]
        return weighted(self.dice, actions)

    def write(self) -> None:
        at = self.dice.randrange(2)
        value = self.log.value(at)
        on = self.dice.choice(["".join(value.isr), self.some(value.replicas), self.some(value.replicas), "abcd"])
        if not on:
            return
        more: dict[str, object] = {
            "acks": self.dice.choice([Acks.ALL, Acks.ALL, Acks.LEADER, Acks.NONE]),
            "pull": self.dice.random() < 0.1,
            "take_over": self.dice.random() < 0.3,
        }
        author = self.dice.random()
        if author < 0.4:
            self.write_of_producer(on, at, more)
        elif author < 0.7:
            self.write_of_application(at)
        else:
            self.log.write(on, self.dice.randint(1, 3), at, **more)

    def write_of_producer(self, on: str, at: int, more: dict[str, object]) -> None:
        producer = self.dice.choice(self.producers)
        epoch = self.epochs[producer]
        key = producer, epoch, at
        first = self.sequences[key] + (self.dice.random() < 0.05)
        try:
            self.log.write(on, 1, at, producer=span(producer, epoch, first, first), **more)
        except SparklogError as error:
            if error.code == "OUT_OF_ORDER_SEQUENCE_NUMBER":  # one left out, or its last ones were forgotten: go back
                self.sequences[key] = max(0, self.sequences[key] - 1)
            if error.code == "WRITE_LOST":
                self.renewed.append(producer)
            raise
        self.sequences[key] = first + 1

    def write_of_application(self, at: int) -> None:
        on = "".join(self.log.value(at).isr) or "a"
        known = self.log.state.applications.get("job")
        version = (known.version if known is not None else 0) + self.dice.randint(0, 2)
        self.log.write(on, 1, at, application=Application("job", version))

    def report(self) -> None:
        store, at = self.store(), self.dice.randrange(2)
        end = self.dice.choice([self.log.value(at).next_offset, self.dice.randint(0, self.log.value(at).next_offset)])
        self.log.report(store, end, at)

    def drop(self) -> None:
        value = self.log.value()
        stores = tuple(self.dice.sample(value.replicas, 2))
        self.log.submit(
            DropLagging((LaggingReplicas(TOPIC, PartitionIndex(0), value.leader_epoch, value.version, stores),))
        )

    def lose(self) -> None:
        ends = [(at, self.dice.randint(0, self.log.value(at).next_offset)) for at in range(2)]
        self.log.lose(self.store(), *self.dice.sample(ends, self.dice.randint(0, 2)), wiped=self.dice.random() < 0.4)

    def plan_a_loss_on_all_stores(self) -> None:
        """An application and a producer write, every store loses that: it is given up, or an election is unclean."""
        value = self.log.value()
        end = max(value.log_start, value.high_watermark - self.dice.randint(0, 2))
        self.planned = [
            lambda: self.write_of_application(0),
            lambda: self.write_of_producer("abcd", 0, {}),
            *(partial(self.log.lose, store, (0, end)) for store in value.replicas),
            lambda: self.write_of_application(0),
            *self.dice.choice([[lambda: self.log.elect(unclean=True)], [lambda: self.give_up(end), self.log.elect]]),
            lambda: self.write_of_application(0),
            lambda: self.write_of_producer("abcd", 0, {}),
        ]

    def swap(self) -> None:
        value = self.log.value()
        whole = [
            (low, high) for low, high in self.log.bounds() if low >= value.log_start and high <= value.high_watermark
        ]
        if whole:
            low, high = self.dice.choice(whole)
            command = self.log.swap_of(low, high)
            on = self.dice.choice(["".join(value.isr), self.some(value.replicas)]) or "a"
            holders = tuple(Holder(StoreId(each), self.log.registration(each)) for each in on)
            self.log.submit(replace(command, objects=(replace(command.objects[0], holders=holders),)))

    def give_up(self, start: int) -> None:
        """Nobody has the slices from `start` on any more."""
        for low, high in self.log.bounds():
            if low >= start and high <= self.log.value().high_watermark:
                self.log.submit(self.log.give_up_of(low, high))
                self.seen["given up without a leader"] += self.log.value().leader is None

    def retain(self) -> None:
        value = self.log.value()
        to = Offset(self.dice.randint(value.log_start, value.high_watermark))
        self.log.submit(MoveLogStart(TOPIC, PartitionIndex(0), to))


class MirrorWalk(Walk):
    """The topic mirrors Kafka until it is promoted."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, SOURCE)

    def any_action(self) -> Callable[[], object]:
        return self.promote if self.dice.random() < 0.01 else super().any_action()

    def promote(self) -> None:
        ends = tuple(Offset(self.log.value(at).next_offset + self.dice.randint(0, 3)) for at in range(2))
        self.log.submit(PromoteTopic(TOPIC, ends))

    def write(self) -> None:
        if self.log.state.topics[TOPIC].mirror_of is None:
            super().write()
            return
        at = self.dice.randrange(2)
        value = self.log.value(at)
        on = self.dice.choice(["".join(value.isr), self.some(value.replicas), "abcd"]) or "a"
        command = self.log.write_of(on, self.dice.randint(1, 3), at, take_over=self.dice.random() < 0.3)
        (plain,) = command.slices
        end = Offset(value.next_offset + plain.records + self.dice.choice([0, 2, 5]))
        named = replace(
            plain, offsets=OffsetRange(value.next_offset, end), timestamp_source=TimestampSource.CREATE_TIME
        )
        self.log.submit(replace(command, slices=(named,)))

    def swap(self) -> None:
        """As a roll does it: with all records of a slice, of which there may be fewer than offsets."""
        value = self.log.value()
        whole = [
            each for each in self.log.slices() if each.start >= value.log_start and each.end <= value.high_watermark
        ]
        if whole:
            chosen = self.dice.choice(whole)
            command = self.log.swap_of(chosen.start, chosen.end, chosen.records)
            holders = tuple(Holder(each, self.log.registration(each)) for each in value.isr)
            self.log.submit(replace(command, objects=(replace(command.objects[0], holders=holders),)))


def applied_anew(log: ReplicatedLog, state: ClusterState) -> ClusterState:
    """`state` after the entries behind it, each read as the chain keeps it."""
    for n in range(state.n + 1, log.state.n + 1):
        command, at = log.entries[n]
        body = encode_entry(Entry("c" * 32, at.n, Author("client", "test"), "nonce", "0" * 64, at.time_ms, (command,)))
        entry = decode_entry(n, body)
        apply_entry(state, entry.commands, entry.at)
    return state


def walked(walk: Walk) -> Counter[str]:
    """What a walk met. Its entries, or a snapshot and those behind it, lead to the same state."""
    half = None
    for step in range(STEPS):
        walk.step()
        if step == STEPS // 2:
            store = MemoryStore(f"memory://{uuid.uuid4().hex}")
            snapshot.write(store, snapshot.prepare(walk.log.state, "f" * 64, {}))
            found = snapshot.newest(store)
            assert found is not None
            half = snapshot.load(store, found)
            assert contents(half) == contents(walk.log.state)
    assert half is not None
    assert contents(applied_anew(walk.log, half)) == contents(walk.log.state)
    assert contents(applied_anew(walk.log, ClusterState())) == contents(walk.log.state)
    return walk.seen


@random_runs(range(4), campaign=[range(24)])
def test_walks_lead_to_the_same_state_in_three_ways_and_do_what_they_are_for(seeds: Seeds) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        seen += walked(Walk(seed))
    wanted = """Appended SlicesSwapped LogStartMoved StoreFenced StoreRegistered AgentChanged PartitionsChanged forgets
        NOT_ENOUGH_REPLICAS NOT_LEADER_OR_FOLLOWER NO_REPLICA_ONLINE OUT_OF_ORDER_SEQUENCE_NUMBER STALE_BROKER_EPOCH
        DUPLICATE_BROKER_REGISTRATION ELECTION_NOT_NEEDED INVALID_REPLICA_ASSIGNMENT WRITE_LOST LossReported"""
    often = max(1, seeds.least // 4)
    rare = {name: seen[name] for name in ("given up without a leader", *wanted.split()) if seen[name] < often}
    assert not rare, seen


@random_runs(range(6), campaign=[range(24)])
def test_walks_of_a_mirrored_topic_lead_to_the_same_state_in_three_ways(seeds: Seeds) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        seen += walked(MirrorWalk(seed))
    wanted = "Appended TopicPromoted SlicesSwapped PartitionsChanged forgets NOT_ENOUGH_REPLICAS"
    assert [name for name in wanted.split() if not seen[name]] == [], seen
