"""Random commands against a slow twin: results, contents and invariants, with tiny blocks so that all of it happens.

The state goes on as a fork of itself at each command, as it does behind the chain; those before it are values.
"""

from __future__ import annotations

import uuid
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from sparklog.chain.snapshot import snapshot
from sparklog.core.apply import apply_command, result_of
from sparklog.core.commands import (
    AddPartitions,
    AllocateProducer,
    Append,
    Application,
    BatchInDoubt,
    Command,
    ConfirmDeleted,
    CreateCluster,
    CreateTopic,
    DeleteTopic,
    MoveLogStart,
    NewStore,
    PartitionEpoch,
    RaiseFloor,
    RewrittenSlice,
    Submission,
    Swap,
)
from sparklog.core.decide.command import decide
from sparklog.core.records import AppliedCommand, At, CommandResult, TopicDeleted
from sparklog.core.state import ClusterState
from sparklog.core.state_invariants import check
from sparklog.core.tables import column_blocks, copy_on_write, object_table, result_table, retired_table, slice_table
from sparklog.core.tables.slice_table import digest
from sparklog.core.types import (
    CommandId,
    EntryNumber,
    Holder,
    LeaderEpoch,
    NewObject,
    NewSlice,
    ObjectKind,
    ObjectNumber,
    Offset,
    OffsetRange,
    PartitionIndex,
    ProducerId,
    ProducerSpan,
    StoreId,
    TimestampSource,
    TopicId,
    TopicPartition,
    UploadId,
)
from sparklog.storage.memory import MemoryStore
from tests.core.slow_twin import SlowTwin, Told
from tests.core.state_contents import contents
from tests.kit.apply_entry import apply_entry

HOLDERS = (Holder(StoreId("a"), 0),)


@pytest.fixture(autouse=True)
def _tiny_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every few rows are sealed; blocks merge, wear out and are full soon."""
    monkeypatch.setattr(slice_table.SliceTable, "TAIL_ROWS", 3)
    monkeypatch.setattr(object_table.ObjectTable, "TAIL_ROWS", 2)
    monkeypatch.setattr(result_table.ResultTable, "TAIL_ROWS", 2)
    monkeypatch.setattr(retired_table.RetiredTable, "TAIL_ROWS", 2)
    monkeypatch.setattr(copy_on_write, "SHARD_KEYS", 2)
    monkeypatch.setattr(column_blocks, "MAX_BLOCK_ROWS", 12)
    monkeypatch.setattr(column_blocks, "MAX_DEAD_RUNS", 2)


class Log(RuleBasedStateMachine):
    """One state that is changed by commands, and its twin."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.twin = SlowTwin()
        self.submitted: list[Submission] = []
        self.seen: list[
            tuple[ClusterState, dict[str, Any]]
        ] = []  # states that somebody may still read, and what they say
        self.entries: dict[int, tuple[AppliedCommand, At]] = {}
        self.store = MemoryStore(f"memory://{uuid.uuid4().hex}")
        self.ids = 0

    # ---- making commands ------------------------------------------------------------------------

    def new_id(self) -> str:
        self.ids += 1
        return f"{self.ids * 0x9E3779B97F4A7C15 % 2**64:016x}{self.ids:016x}"

    def new_object(self, topic_id: int, size_bytes: int, sealed: tuple[int, int] | None = None) -> NewObject:
        return NewObject(
            kind=ObjectKind.APPEND if sealed is None else ObjectKind.SEGMENT,
            n0=self.state.n0,
            upload_id=UploadId(self.new_id()),
            topic_id=TopicId(topic_id),
            size_bytes=size_bytes,
            crc32c=1,
            index_size_bytes=50,
            index_crc32c=2,
            holders=HOLDERS,
            partition=None if sealed is None else PartitionIndex(sealed[0]),
            base_offset=None if sealed is None else Offset(sealed[1]),
            leader_epoch=None if sealed is None else LeaderEpoch(0),
        )

    def append_of(
        self, topic_id: int, sizes: list[tuple[int, int]], producer: ProducerSpan | None = None, app: int | None = None
    ) -> Append:
        """One object with a slice per (partition, records)."""
        return Append(
            (self.new_object(topic_id, 10 * len(sizes)),),
            tuple(
                NewSlice(
                    object_index=0,
                    topic_id=TopicId(topic_id),
                    partition=PartitionIndex(at),
                    records=records,
                    position=10 * index,
                    length=10,
                    first_batch=index,
                    batches=1,
                    min_timestamp_us=index,
                    max_timestamp_us=index,
                    producer=producer,
                )
                for index, (at, records) in enumerate(sizes)
            ),
            tuple(
                PartitionEpoch(TopicId(topic_id), PartitionIndex(at), LeaderEpoch(0)) for at in {at for at, _ in sizes}
            ),
            None if app is None else Application("app", app),
        )

    def submit(self, command: Command, behind: int = 0) -> None:
        n0 = EntryNumber(max(self.state.n - behind, 0))
        self.submit_as(Submission(CommandId(self.new_id()), n0, command))

    def submit_as(self, submission: Submission) -> None:
        """Decide it twice and on a fork, apply what it led to, and compare what is told with the twin."""
        self.submitted.append(submission)
        at = At(EntryNumber(self.state.n + 1), 1_000 + self.state.n)
        wanted = self.twin.submit(submission)
        state = self.state
        fork = state.fork()
        if wanted.error is not None:
            for each in (state, fork):
                with pytest.raises(wanted.error) as caught:
                    decide(each, submission, at)
                assert type(caught.value) is wanted.error
            return
        decision = decide(state, submission, at)
        assert decide(fork, submission, at) == decision
        if decision.known is not None:
            self.compare(decision.known, wanted)
        if decision.committed_in is not None:
            self.compare(result_of(*self.entries[decision.committed_in]), wanted)
        if decision.records:
            applied = AppliedCommand(submission.command_id, submission.n0, decision.records)
            before = contents(state)
            dropped = state.fork()  # beside the one that is kept
            apply_entry(fork, [applied], at)
            check(fork)
            if self.ids % 4 == 0:
                apply_command(dropped, applied, at)
                apply_command(dropped, self.deletes_all(dropped), at)
            assert contents(state) == before  # neither deciding nor a change of a fork reaches the state
            self.seen.append((state, before))
            self.state = fork
            self.entries[at.n] = applied, at
            self.compare(result_of(applied, at), wanted)

    def deletes_all(self, state: ClusterState) -> AppliedCommand:
        records = tuple(TopicDeleted(topic_id, 0) for topic_id in state.topics)
        return AppliedCommand(CommandId("e" * 32), EntryNumber(0), records)

    def compare(self, found: CommandResult, wanted: Told) -> None:
        if wanted.ranges or found.ranges:
            assert tuple((e.topic_id, e.partition, e.start, e.end) for e in found.ranges) == wanted.ranges

    def some_place(self, data: st.DataObject) -> TopicPartition | None:
        """A partition that there is, or rarely one that there is not."""
        known = sorted(self.twin.partitions)
        if not known:
            return None
        topic_id, partition = data.draw(st.sampled_from([*known * 4, (known[-1][0], 99), (99, 0)]))
        return TopicPartition(TopicId(topic_id), PartitionIndex(partition))

    # ---- rules ----------------------------------------------------------------------------------

    @initialize()
    def create(self) -> None:
        at = At(EntryNumber(0), 0)
        command = CreateCluster("c" * 32, (NewStore(StoreId("a"), ".", "i"),))
        records = decide(self.state, Submission(CommandId("0" * 32), EntryNumber(0), command), at).records
        apply_entry(self.state, [AppliedCommand(CommandId("0" * 32), EntryNumber(0), records)], at)
        self.twin.n = 0
        self.twin.results["0" * 32] = (0, Told())
        self.submit(CreateTopic("first", 2, 1))

    @rule(name=st.sampled_from(["first", "second", "third"]), partitions=st.integers(1, 3))
    def create_topic(self, name: str, partitions: int) -> None:
        self.submit(CreateTopic(name, partitions, 1))

    @rule(topic_id=st.integers(1, 2), total=st.integers(1, 5))
    def add_partitions(self, topic_id: int, total: int) -> None:
        self.submit(AddPartitions(TopicId(topic_id), total))

    @rule(topic_id=st.integers(1, 6), seriously=st.sampled_from([False, False, False, True]))
    def delete_topic(self, topic_id: int, seriously: bool) -> None:
        if seriously or topic_id not in self.twin.topics:
            self.submit(DeleteTopic(TopicId(topic_id)))

    @rule(
        data=st.data(),
        sizes=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), max_size=4),
        behind=st.sampled_from([0, 0, 0, 3]),
        app=st.sampled_from([None, None, None, 0, 1, 2, 3, 9]),
    )
    def append(self, data: st.DataObject, sizes: list[tuple[int, int]], behind: int, app: int | None) -> None:
        place = self.some_place(data)
        if place is not None:
            count = sum(1 for topic_id, _ in self.twin.partitions if topic_id == place.topic_id)
            among = [(at % count, records) for at, records in sizes if count]
            self.submit(self.append_of(place.topic_id, [*among, (place.partition, 1)], app=app), behind)

    @rule(data=st.data())
    def name_again(self, data: st.DataObject) -> None:
        """An upload that some command has named: it may be live, retired or deleted by now, or the command refused."""
        uploads = [each for submission in self.submitted for each in getattr(submission.command, "objects", ())]
        place = self.some_place(data)
        if uploads and place is not None:
            upload = data.draw(st.sampled_from(uploads))
            command = self.append_of(place.topic_id, [(place.partition, 1)])
            (new,) = command.objects
            taken = replace(new, n0=upload.n0, upload_id=upload.upload_id)
            self.submit(replace(command, objects=(taken,)))

    @rule(data=st.data(), records=st.integers(1, 3), gap=st.sampled_from([0, 0, 0, 0, 0, 1, -1, -2]))
    def append_by_producer(self, data: st.DataObject, records: int, gap: int) -> None:
        place = self.some_place(data)
        if place is None:
            return
        producer_id = data.draw(st.sampled_from([*range(len(self.twin.producers) + 1)] + [0] * 5))
        known: list[Any] = []
        epoch = 0
        if producer_id < len(self.twin.producers):
            known = self.twin.producers[producer_id].batches.get((place.topic_id, place.partition), [])
            epoch = data.draw(st.sampled_from([epoch := self.twin.producers[producer_id].epoch, epoch, epoch, 0]))
        first = max(0, (known[-1][1] + 1 if known else 0) + gap)
        span = ProducerSpan(ProducerId(producer_id), epoch, first, first + records - 1)
        self.submit(self.append_of(place.topic_id, [(place.partition, records)], span))

    @rule(producer_id=st.none() | st.integers(0, 3))
    def allocate_producer(self, producer_id: int | None) -> None:
        if producer_id is not None or len(self.twin.producers) < 3:
            self.submit(AllocateProducer(producer_id))

    @rule(
        producer_id=st.integers(0, 2), firsts=st.lists(st.integers(0, 4), max_size=2), older=st.sampled_from([0, 0, 1])
    )
    def begin_next_epoch(self, producer_id: int, firsts: list[int], older: int) -> None:
        """On condition that batches of its partitions have not landed."""
        if producer_id < len(self.twin.producers):
            known = self.twin.producers[producer_id]
            in_doubt = tuple(
                BatchInDoubt(TopicId(topic_id), PartitionIndex(partition), first)
                for (topic_id, partition), first in zip(sorted(known.batches), firsts, strict=False)
            )
            self.submit(AllocateProducer(producer_id, known.epoch - older, in_doubt))

    @rule(data=st.data(), back=st.integers(0, 8))
    def submit_again(self, data: st.DataObject, back: int) -> None:
        if self.submitted:
            self.submit_as(self.submitted[-1 - back % len(self.submitted)])

    @rule(data=st.data())
    def move_log_start(self, data: st.DataObject) -> None:
        place = self.some_place(data)
        if place is not None:
            found = self.twin.partitions.get((place.topic_id, place.partition))
            to = data.draw(st.integers(0, (found.next if found else 3) + 1))
            self.submit(MoveLogStart(place.topic_id, place.partition, Offset(to)))

    @rule(data=st.data(), pieces=st.integers(1, 2))
    def swap(self, data: st.DataObject, pieces: int) -> None:
        """Some neighbouring whole slices above the log start become one or two segments."""
        wide = {
            place: [each for each in found.slices if each.start >= found.log_start]
            for place, found in self.twin.partitions.items()
        }
        places = sorted(place for place, slices in wide.items() if slices)
        if not places:
            return
        topic_id, partition = data.draw(st.sampled_from(places))
        slices = wide[topic_id, partition]
        low = data.draw(st.integers(0, len(slices) - 1))
        high = data.draw(st.integers(low, len(slices) - 1))
        start, end = slices[low].start, slices[high].end
        key = TopicPartition(TopicId(topic_id), PartitionIndex(partition))
        edges = sorted({start, data.draw(st.integers(start, end)), end}) if pieces == 2 else [start, end]
        found = self.state.slices.find(key, OffsetRange(Offset(start), Offset(end)))
        rewritten = [
            RewrittenSlice(
                new=NewSlice(
                    object_index=at,
                    topic_id=key.topic_id,
                    partition=key.partition,
                    records=to - of,
                    position=0,
                    length=7,
                    first_batch=0,
                    batches=1,
                    min_timestamp_us=0,
                    max_timestamp_us=0,
                ),
                start=Offset(of),
                end=Offset(to),
                append_time_ms=5,
                timestamp_source=TimestampSource.CREATE_TIME,
                leader_epoch=LeaderEpoch(0),
            )
            for at, (of, to) in enumerate(pairwise(edges))
        ]
        objects = [self.new_object(topic_id, 9, (partition, each.start)) for each in rewritten]
        self.submit(
            Swap(
                key.topic_id, key.partition, Offset(start), Offset(end), digest(found), tuple(objects), tuple(rewritten)
            )
        )

    @rule(numbers=st.lists(st.integers(0, 40), min_size=1, max_size=5))
    def confirm_deleted(self, numbers: list[int]) -> None:
        self.submit(ConfirmDeleted(tuple(ObjectNumber(number) for number in numbers)))

    @rule()
    def confirm_all_retired(self) -> None:
        if len(self.state.retired):
            self.submit(ConfirmDeleted(tuple(each.number for each in self.state.retired)))

    @rule(back=st.sampled_from([-2, 0, 1, 2, 5, 12]))
    def raise_floor(self, back: int) -> None:
        self.submit(RaiseFloor(EntryNumber(max(0, self.state.n - back))))

    @rule()
    def snapshot_round_trip(self) -> None:
        """Go on with what a snapshot holds."""
        before = contents(self.state)
        snapshot.write(self.store, snapshot.prepare(self.state, "f" * 64, {}))
        found = snapshot.newest(self.store)
        assert found is not None
        assert contents(self.state) == before
        self.state = snapshot.load(self.store, found)
        assert contents(self.state) == before

    # ---- what must hold -------------------------------------------------------------------------

    def teardown(self) -> None:
        """Whatever came after it, a state that was seen says what it said."""
        for state, before in self.seen[:: max(1, len(self.seen) // 8)]:
            assert contents(state) == before

    @invariant()
    def state_is_sound(self) -> None:
        if self.state.n >= 0:
            check(self.state)

    @invariant()
    def state_says_what_the_twin_says(self) -> None:
        state, twin = self.state, self.twin
        assert (state.n, state.floor) == (twin.n, twin.floor)
        assert {topic_id: each.name for topic_id, each in state.topics.items()} == twin.topics
        assert set(state.partitions) == {TopicPartition(TopicId(t), PartitionIndex(p)) for t, p in twin.partitions}
        uploads = {each.number: each.object.upload_id for each in state.objects}
        assert set(uploads.values()) == twin.live() | twin.retired
        assert {uploads[each.number] for each in state.retired} == twin.retired
        for (topic_id, partition), wanted in twin.partitions.items():
            key = TopicPartition(TopicId(topic_id), PartitionIndex(partition))
            found = state.partitions[key]
            assert (found.next_offset, found.log_start) == (wanted.next, wanted.log_start)
            for low in range(0, wanted.next + 1, 3):
                for high in (low, low + 2, wanted.next + 1):
                    rows = state.slices.find(key, OffsetRange(Offset(low), Offset(max(low, high))))
                    overlap = [each for each in wanted.slices if each.start < high and each.end > low]
                    assert [
                        (each.start, each.end, uploads[each.object_number], each.position, each.length) for each in rows
                    ] == [(each.start, each.end, each.upload_id, each.position, each.length) for each in overlap]


class TestLog(Log.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=20, stateful_step_count=50, deadline=None)


@pytest.mark.campaign
class TestLogMoreOften(Log.TestCase):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=400, stateful_step_count=50, deadline=None)
