"""Chains for tests: a cluster with one topic on a store, its writers and readers, and blocks that are deleted."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from sparklog.chain.commit.committer import Committer, new_command_id
from sparklog.chain.follow import catch_up
from sparklog.chain.follow.follower import Follower
from sparklog.core.commands import Append, Application, CreateCluster, CreateTopic, NewStore, PartitionEpoch, Submission
from sparklog.core.coordination import Author
from sparklog.core.records import CommandResult
from sparklog.core.types import (
    EntryNumber,
    Holder,
    LeaderEpoch,
    NewObject,
    NewSlice,
    ObjectKind,
    Offset,
    OffsetRange,
    PartitionIndex,
    ProducerSpan,
    StoreId,
    TopicId,
    TopicPartition,
    UploadId,
)
from sparklog.storage import keys
from sparklog.storage.keys import entry_block, entry_key, void_key
from sparklog.storage.memory import MemoryStore
from sparklog.storage.object_store import ObjectStore
from tests.kit.faulty_store import FaultyStore
from tests.kit.hand_clock import HandClock

TOPIC = TopicId(1)
HOLDERS = (Holder(StoreId("a"), 0),)
AUTHOR = Author("client", "test")
SMALL_BLOCK = 8  # entries
TIMEOUT_MS = 10_000


def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few entries, so that a test can delete one."""
    monkeypatch.setattr(keys, "ENTRIES_PER_BLOCK", SMALL_BLOCK)
    monkeypatch.setattr(catch_up, "ROUND_ENTRIES", SMALL_BLOCK // 2)
    monkeypatch.setattr(catch_up, "READ_WIDTH", 2)


@dataclass
class Member:
    """One process at the chain; all its calls go through its own `store`."""

    store: FaultyStore
    clock: HandClock = field(default_factory=HandClock)
    follower: Follower = field(init=False)
    committer: Committer = field(init=False)

    def __post_init__(self) -> None:
        self.follower = Follower(self.store, self.clock)
        self.committer = Committer(self.follower, AUTHOR, self.clock)

    def begin(self, command: Append) -> Submission:
        """A submission at the position that this member has read, without reading on."""
        return Submission(new_command_id(), self.committer.follower.state.n0, command)

    def submit(self, submission: Submission) -> CommandResult:
        return self.committer.submit(submission, TIMEOUT_MS)

    def append(self, records: int = 1, partition: int = 0) -> CommandResult:
        return self.submit(self.begin(append(records, partition, n0=self.committer.follower.state.n0)))

    def uploads(self, partition: int = 0) -> list[UploadId]:
        """The uploads of a partition in offset order, as this member's state has them; one per slice."""
        state = self.follower.state
        key = TopicPartition(TOPIC, PartitionIndex(partition))
        end = state.partitions[key].next_offset
        found = []
        for each in state.slices.find(key, OffsetRange(Offset(0), end)):
            named = state.objects.get(each.object_number)
            assert named is not None
            found.append(named.upload_id)
        return found


def new_store() -> MemoryStore:
    return MemoryStore(f"memory://{uuid.uuid4().hex}")


def member(store: ObjectStore) -> Member:
    """A new process that has opened the chain."""
    found = Member(FaultyStore(store))
    found.follower.open()
    found.store.calls.clear()
    return found


def new_chain(partitions: int = 2, store: ObjectStore | None = None) -> Member:
    """A new cluster with topic 1; entries 0 and 1. In memory, unless an empty store is given."""
    made = Member(FaultyStore(store or new_store()))
    for command in (CreateCluster("c" * 32, (NewStore(StoreId("a"), ".", "i"),)), CreateTopic("orders", partitions, 1)):
        made.committer.submit(made.committer.begin(command), TIMEOUT_MS)
    made.store.calls.clear()
    return made


def append(
    records: int = 1,
    partition: int = 0,
    *,
    n0: int = 0,
    slices: Sequence[int] | None = None,
    producer: tuple[int, int, int] | None = None,
    application: Application | None = None,
    upload_id: UploadId | None = None,
    holders: tuple[Holder, ...] = HOLDERS,
) -> Append:
    """One object with one slice of `records` records; or with one slice for each partition in `slices`."""
    partitions = [partition] if slices is None else slices
    named = NewObject(
        kind=ObjectKind.APPEND,
        n0=EntryNumber(n0),
        upload_id=upload_id or UploadId(uuid.uuid4().hex),
        topic_id=TOPIC,
        size_bytes=10 * len(partitions),
        crc32c=1,
        index_size_bytes=50,
        index_crc32c=2,
        holders=holders,
    )
    span = None
    if producer is not None:
        span = ProducerSpan(producer[0], producer[1], producer[2], producer[2] + records - 1)  # type: ignore[arg-type]
    return Append(
        (named,),
        tuple(
            NewSlice(
                object_index=0,
                topic_id=TOPIC,
                partition=PartitionIndex(each),
                records=records,
                position=10 * index,
                length=10,
                first_batch=index,
                batches=1,
                min_timestamp_us=0,
                max_timestamp_us=0,
                producer=span,
            )
            for index, each in enumerate(partitions)
        ),
        tuple(PartitionEpoch(TOPIC, PartitionIndex(each), LeaderEpoch(0)) for each in sorted(set(partitions))),
        application,
    )


def upload_of(submission: Submission) -> UploadId:
    assert isinstance(submission.command, Append)
    return submission.command.objects[0].upload_id


def let_block_go(other: Member, block: int, *, delete: bool = True) -> None:
    """Do what the deleter of old entries does: others fill the next block, a snapshot covers it, mark, delete.

    But FLOOR has not passed the block, to show what the marks alone keep right.
    """
    while entry_block(other.follower.state.n) < block + 2:
        other.append()
    other.committer.snapshots.write()
    other.store.put_if_absent(void_key(block), b"")
    if delete:
        for n in range(block * SMALL_BLOCK, (block + 1) * SMALL_BLOCK):
            other.store.delete(entry_key(n))
