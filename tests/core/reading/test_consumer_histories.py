"""Seeded histories of consumers of one group, without I/O: they join, leave, stall and crash while records arrive.

Each sees its own state of the chain, perhaps an old one. What must hold at every step:

- in one generation, no record is read by two members, and none twice by one;
- no commit takes the group back, and what is committed was read.

At the end, those who are left have read every record of three topics.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparklog.core.commands import (
    AddPartitions,
    Append,
    CommitOffsets,
    CreateTopic,
    JoinGroup,
    LeaveGroup,
    PartitionEpoch,
)
from sparklog.core.errors import IllegalGeneration, UnknownMemberId
from sparklog.core.groups.membership import GroupGeneration, OffsetToCommit
from sparklog.core.reading.consumer_positions import AutoOffsetReset, ConsumerPositions
from sparklog.core.state import ClusterState
from sparklog.core.types import LeaderEpoch, Offset, PartitionIndex, TopicId, TopicPartition
from tests.core.decided_log import RECORD_BYTES, TOPIC, A, DecidedLog
from tests.kit.budget import Seeds, random_runs
from tests.kit.kernel import RandomSteps, counts_of

GROUP, SESSION_MS, STEPS = "billing", 45_000, 150
TOPICS = ("orders", "payments", "returns")
KINDS = ("append", "join", "leave", "crash", "evict", "grow", *["look"] * 8, *["read"] * 10, *["commit"] * 4)


@dataclass
class Reader:
    """A member, what it knows of the chain, and where it is."""

    member_id: str
    topics: tuple[str, ...]
    seen: ClusterState
    positions: ConsumerPositions
    commits: int = 0


class Histories(RandomSteps):
    """One seed, one history."""

    length = STEPS

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.reset = self.dice.choice(["earliest", "latest"])
        self.log = DecidedLog()
        self.readers: list[Reader] = []
        self.crashed: list[str] = []
        self.read_in: dict[tuple[GroupGeneration, TopicPartition], dict[int, str]] = {}
        self.seen: dict[TopicPartition, set[int]] = {}
        self.at: dict[TopicPartition, int] = {}  # committed
        self.begun: dict[TopicPartition, int] = {}  # where the group began
        self.born = 0
        for name in TOPICS[1:]:
            self.log.submit(CreateTopic(name, assignment=((A,), (A,))))
        self.topic_ids = [self.log.state.topic_ids[name] for name in TOPICS]
        assert self.topic_ids[0] == TOPIC

    def step(self) -> None:
        kind = self.dice.choice(KINDS)
        self.trace.append(kind)
        getattr(self, kind)()
        self.counts[kind] += 1

    # ---- what happens ---------------------------------------------------------------------------

    def append(self) -> None:
        topic_id = self.dice.choice(self.topic_ids)
        partition = self.dice.randrange(self.log.state.topics[topic_id].partitions)
        append(self.log, topic_id, partition, self.dice.randrange(1, 8))

    def grow(self) -> None:
        topic = self.log.state.topics[self.dice.choice(self.topic_ids)]
        if topic.partitions < 4:
            self.log.submit(AddPartitions(topic.topic_id, topic.partitions + 1, ((A,),)))

    def join(self) -> None:
        if len(self.readers) >= 4:
            return
        self.born += 1
        topics = TOPICS if self.born == 1 else tuple(self.dice.sample(TOPICS, self.dice.randrange(1, 4)))
        seen = self.log.state.fork()
        sizes = {topic_id: seen.topics[topic_id].partitions for topic_id in self.topic_ids}
        positions = ConsumerPositions(seen.chain_id, AutoOffsetReset(self.reset), sizes)
        reader = Reader(f"{self.dice.randrange(100):02}-{self.born}", topics, seen, positions)
        self.readers.append(reader)
        self.take(reader)

    def leave(self) -> None:
        if len(self.readers) > 1:
            reader = self.readers.pop(self.dice.randrange(len(self.readers)))
            self.commit_of(reader)
            if self.is_member(reader):
                self.log.submit(LeaveGroup(GROUP, reader.member_id))

    def crash(self) -> None:
        """It says nothing; it has read what it has read, and is evicted some time."""
        if len(self.readers) > 1:
            self.crashed.append(self.readers.pop(self.dice.randrange(len(self.readers))).member_id)

    def evict(self) -> None:
        """Somebody takes a member for silent, rightly or because it was held up."""
        silent = self.crashed + [reader.member_id for reader in self.readers if self.dice.random() < 0.3]
        for member_id in silent:
            group = self.log.state.groups.get(GROUP)
            if group is not None and group.member(member_id) is not None:
                self.log.submit(LeaveGroup(GROUP, member_id))
        self.crashed.clear()

    def look(self) -> None:
        if self.readers:
            self.take(self.dice.choice(self.readers))

    def read(self) -> None:
        if self.readers:
            self.read_on(self.dice.choice(self.readers), 6)

    def read_on(self, reader: Reader, most: int) -> None:
        for unread in reader.positions.unread(reader.seen):
            start, end = unread.offsets.start, min(unread.offsets.end, Offset(unread.offsets.start + most))
            self.note(reader, unread.key, start, end)
            reader.positions.has_read(unread.key, end, LeaderEpoch(0))
            reader.positions.had_turn([unread.key])
            return

    def commit(self) -> None:
        if self.readers:
            self.commit_of(self.dice.choice(self.readers))

    # ---- a reader -------------------------------------------------------------------------------

    def take(self, reader: Reader) -> None:
        """It reads the chain, joins if it is no member, and takes over its share, as `Shares` and `Reading` do."""
        if not self.is_member(reader):
            self.log.submit(JoinGroup(GROUP, reader.member_id, reader.topics, SESSION_MS))
            reader.commits = 0
        reader.seen = self.log.state.fork()
        group = reader.seen.groups[GROUP]
        member = group.member(reader.member_id)
        assert member is not None
        names = {key: reader.seen.topics[key.topic_id].name for key in member.assigned}
        change = reader.positions.change(names, GroupGeneration(group.number, group.generation))
        if change is None:
            return
        self.counts["kept"] += len(names) - len(change.assigned)
        reader.positions.take(change)
        at_end = reader.positions.begin(reader.seen, reader.seen.offsets.of_group(group.number))
        for key in names.keys() - at_end.keys():
            found = reader.positions.position(key)
            assert found is not None
            self.begun.setdefault(key, found.offset)
        if not self.submit(reader, {key: position.offset for key, position in at_end.items()}):
            reader.positions.decide_again(at_end)

    def commit_of(self, reader: Reader) -> None:
        self.submit(reader, {key: position.offset for key, position in reader.positions.to_commit().items()})

    def submit(self, reader: Reader, offsets: dict[TopicPartition, Offset]) -> bool:
        generation = reader.positions.generation
        if not offsets or generation is None:
            return True
        rows = tuple(
            OffsetToCommit(key.topic_id, key.partition, offset, LeaderEpoch(0)) for key, offset in offsets.items()
        )
        reader.commits += 1
        command = CommitOffsets("c" * 32, GROUP, rows, reader.member_id, generation.number, reader.commits)
        try:
            self.log.submit(command)
        except (IllegalGeneration, UnknownMemberId):
            self.counts["fenced"] += 1
            return False
        reader.positions.committed(offsets)
        for key, offset in offsets.items():
            self.begun.setdefault(key, offset)
            assert offset >= self.at.get(key, 0), f"{key} went back"
            assert set(range(self.begun[key], offset)) <= self.seen.get(key, set()), f"{key}: committed, but unread"
            self.at[key] = offset
        return True

    def note(self, reader: Reader, key: TopicPartition, start: int, end: int) -> None:
        generation = reader.positions.generation
        assert generation is not None
        by = self.read_in.setdefault((generation, key), {})
        for offset in range(start, end):
            assert offset not in by, f"{key}@{offset} was read by {by[offset]} and {reader.member_id} in {generation}"
            by[offset] = reader.member_id
        self.seen.setdefault(key, set()).update(range(start, end))

    def is_member(self, reader: Reader) -> bool:
        group = self.log.state.groups.get(GROUP)
        return group is not None and group.member(reader.member_id) is not None

    # ---- the end --------------------------------------------------------------------------------

    def end(self) -> None:
        """Those who crashed are evicted; one more wants everything, and all read to the end."""
        self.evict()
        self.readers, left = [], self.readers
        self.born = 0
        self.join()
        self.readers += left
        for _ in range(60):
            for reader in self.readers:
                self.take(reader)
                for _ in range(4):
                    self.read_on(reader, 5)
                self.commit_of(reader)
        for topic_id in self.topic_ids:
            for partition in self.log.state.partitions_of(self.log.state.topics[topic_id]):
                key = TopicPartition(topic_id, partition.partition)
                assert self.seen.get(key, set()) >= set(range(self.begun[key], partition.high_watermark)), f"{key}"
                assert self.at[key] == partition.high_watermark


def append(log: DecidedLog, topic_id: TopicId, partition: int, records: int) -> None:
    named = log.uploaded(records * RECORD_BYTES, topic_id=topic_id)
    part = log.part(records, partition, topic_id=topic_id)
    log.submit(Append((named,), (part,), (PartitionEpoch(topic_id, PartitionIndex(partition), LeaderEpoch(0)),)))


@random_runs(range(8), campaign=[range(100, 600)])
def test_histories_of_consumers(seeds: Seeds) -> None:  # M: I-07
    counts = counts_of(map(Histories, seeds))
    assert min(counts[kind] for kind in {*KINDS, "kept", "fenced"}) > 5, counts
