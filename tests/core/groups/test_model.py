"""Random commands of groups against plain dictionaries, with tiny tables, forks and snapshots in between."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sparklog.chain.snapshot import snapshot
from sparklog.core.commands import (
    AddPartitions,
    CommitOffsets,
    CreateTopic,
    DeleteGroups,
    DeleteTopic,
    JoinGroup,
    LeaveGroup,
    RaiseFloor,
)
from sparklog.core.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    NonEmptyGroup,
    OffsetOutOfRange,
    SparklogError,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from sparklog.core.groups.membership import OffsetToCommit
from sparklog.core.tables import column_blocks, copy_on_write, offset_table
from sparklog.core.types import EntryNumber, LeaderEpoch, Offset, PartitionIndex, TopicId
from sparklog.storage.memory import MemoryStore
from tests.core.decided_log import TOPIC, A, DecidedLog
from tests.core.state_contents import contents

CHAIN, END = "c" * 32, 10
DAY_MS = 86_400_000
NAMES, MEMBERS = st.sampled_from(["g", "h", "i"]), st.sampled_from(["m1", "m2", "s@1", "s@2", "s@3"])
PLACES = st.tuples(st.sampled_from([1, 1, 1, 2, 3]), st.integers(0, 2))
OFFSETS = st.dictionaries(PLACES, st.tuples(st.integers(0, END + 1), st.sampled_from(["", "", "text"])), max_size=5)


@dataclass
class GroupTwin:
    """A group as dictionaries say it: topics and last commit by member, offset, text and time by place."""

    number: int = 0
    generation: int = 0
    topics: dict[str, set[str]] = field(default_factory=dict)
    commits: dict[str, int] = field(default_factory=dict)
    offsets: dict[tuple[int, int], tuple[int, str, int]] = field(default_factory=dict)
    emptied_ms: int = 0

    def holder(self, member: str) -> str | None:
        """Another life of the same static member, which has its place."""
        return next((each for each in self.topics if "@" in each and "@" in member and each != member), None)


@pytest.fixture(autouse=True)
def _tiny_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every few rows are sealed; blocks merge, wear out and are full soon."""
    monkeypatch.setattr(offset_table.OffsetTable, "TAIL_ROWS", 2)
    monkeypatch.setattr(copy_on_write, "SHARD_KEYS", 2)
    monkeypatch.setattr(column_blocks, "MAX_BLOCK_ROWS", 8)
    monkeypatch.setattr(column_blocks, "MAX_DEAD_RUNS", 2)


class Groups(RuleBasedStateMachine):
    """One state that is changed by commands, and its twin."""

    def __init__(self) -> None:
        super().__init__()
        self.log = DecidedLog()
        self.twin: dict[str, GroupTwin] = {}
        self.sizes = {(TOPIC, "orders"): 2}  # topic id and name -> partitions
        self.store = MemoryStore(f"memory://{uuid.uuid4().hex}")

    @initialize()
    def fill(self) -> None:
        for partition in (0, 1):
            self.log.append(END, partition)

    def submit(self, command: object, wanted: type[SparklogError] | None = None) -> None:
        """On a fork, so that the state before it stays a value."""
        before, said = self.log.state, contents(self.log.state)
        self.log.state = before.fork()
        if wanted is None:
            self.log.submit(command)  # type: ignore[arg-type]
        else:
            with pytest.raises(wanted):
                self.log.submit(command)  # type: ignore[arg-type]
            assert contents(self.log.state) == said
        assert contents(before) == said

    def topic_changed(self, name: str) -> None:
        for group in self.twin.values():
            group.generation += any(name in topics for topics in group.topics.values())

    # ---- rules ----------------------------------------------------------------------------------

    @rule(
        name=NAMES,
        member=MEMBERS,
        topics=st.sets(st.sampled_from(["orders", "more"]), min_size=1),
        again=st.sampled_from([False, False, True]),
    )
    def join(self, name: str, member: str, topics: set[str], again: bool) -> None:
        command = JoinGroup(name, member, tuple(topics), 45_000, again)
        group = self.twin.get(name) or GroupTwin(number=self.log.state.next_group_number)
        holder = None if member in group.topics else group.holder(member)
        if holder is not None and again:
            self.submit(command, FencedInstanceId)
            return
        self.twin[name] = group
        before = group.topics.get(holder or member)
        if holder is not None:
            del group.topics[holder], group.commits[holder]
        if before != topics:
            group.generation += 1
        group.topics[member], group.emptied_ms = topics, 0
        group.commits.setdefault(member, 0)
        shares = (
            {each.assigned for each in self.log.state.groups[name].members} if name in self.log.state.groups else {}
        )
        self.submit(command)
        if before == topics:
            assert {each.assigned for each in self.log.state.groups[name].members} == shares

    @rule(name=NAMES, member=MEMBERS, evicted=st.sampled_from(["no", "seen", "renewed since"]))
    def leave(self, name: str, member: str, evicted: str) -> None:
        group = self.twin.get(name)
        found = None if group is None else self.log.state.groups[name].member(member)
        seen = None
        if evicted != "no":
            seen = self.log.state.n if found is None else found.renewed_at - (evicted == "renewed since")
        command = LeaveGroup(name, member, seen)  # type: ignore[arg-type]
        if group is None:
            self.submit(command, GroupIdNotFound)
        elif member in group.topics and evicted != "renewed since":
            del group.topics[member], group.commits[member]
            group.generation += 1
            group.emptied_ms = 0 if group.topics else self.log.now_ms
            self.submit(command)
        else:
            gone = FencedInstanceId if group.holder(member) else UnknownMemberId
            self.submit(command, gone if evicted == "no" and member not in group.topics else None)

    @rule(
        name=NAMES,
        member=st.none() | MEMBERS,
        rows=OFFSETS,
        late=st.sampled_from([0, 0, 0, 0, 1, -1]),
        step=st.sampled_from([1, 1, 1, 2, 0]),
        life=st.sampled_from([None, 0, 0, 1]),
    )
    def commit(
        self,
        name: str,
        member: str | None,
        rows: dict[tuple[int, int], tuple[int, str]],
        late: int,
        step: int,
        life: int | None,
    ) -> None:
        """`late`: generations ago. `life`: of the present group of this name, or that many groups before it."""
        group = self.twin.get(name, GroupTwin(number=self.log.state.next_group_number))
        group_number = None if life is None else group.number - life
        ends = {
            (topic_id, partition): END if topic_id == TOPIC and partition < 2 else 0
            for (topic_id, _), size in self.sizes.items()
            for partition in range(size)
        }
        rows = {place: (min(at, ends.get(place, 0) + (at > END)), text) for place, (at, text) in rows.items()}
        number = group.commits.get(member or "", 0) + step
        wanted: type[SparklogError] | None = None
        repeated = member in group.topics and 0 < number <= group.commits[member or ""] and not life
        if member is None:
            number, late = 0, 0
            if group.topics or life:
                wanted = UnknownMemberId
            elif not rows:
                return
        elif life or member not in group.topics:
            wanted = UnknownMemberId if life or not group.holder(member) else FencedInstanceId
        elif late:
            wanted = IllegalGeneration
        elif number < 1:
            return
        if wanted is None:
            wrong = next((place for place, (at, _) in rows.items() if place not in ends or at > ends[place]), None)
            if wrong is not None:
                wanted = OffsetOutOfRange if wrong in ends else UnknownTopicOrPartition
        offsets = tuple(
            OffsetToCommit(TopicId(topic_id), PartitionIndex(partition), Offset(at), LeaderEpoch(0), text)
            for (topic_id, partition), (at, text) in rows.items()
        )
        generation = group.generation - late
        command = CommitOffsets(CHAIN, name, offsets, member, generation, number, group_number=group_number)
        self.submit(command, None if repeated else wanted)
        if wanted is None and not repeated:
            group = self.twin.setdefault(name, group)
            group.offsets |= {place: (at, text, self.log.now_ms) for place, (at, text) in rows.items()}
            if member is not None:
                group.commits[member] = number

    @rule(name=NAMES)
    def delete_group(self, name: str) -> None:
        group = self.twin.get(name)
        if group is None:
            self.submit(DeleteGroups((name,)), GroupIdNotFound)
        elif group.topics:
            self.submit(DeleteGroups((name,)), NonEmptyGroup)
        else:
            del self.twin[name]
            self.submit(DeleteGroups((name,)))

    @rule(seriously=st.sampled_from([False, True]))
    def topic_more_comes_or_goes(self, seriously: bool) -> None:
        known = next((key for key in self.sizes if key[1] == "more"), None)
        if known is None:
            self.sizes[TopicId(self.log.state.next_topic_id), "more"] = 1
            self.topic_changed("more")
            self.submit(CreateTopic("more", assignment=((A,),)))
        elif seriously:
            del self.sizes[known]
            self.topic_changed("more")
            for group in self.twin.values():
                group.offsets = {place: row for place, row in group.offsets.items() if place[0] != known[0]}
            self.submit(DeleteTopic(TopicId(known[0])))

    @rule()
    def a_third_partition(self) -> None:
        if self.sizes[TOPIC, "orders"] == 2:
            self.sizes[TOPIC, "orders"] = 3
            self.topic_changed("orders")
            self.submit(AddPartitions(TOPIC, 3, ((A,),)))

    @rule(days=st.sampled_from([1, 3, 7]))
    def time_goes_on(self, days: int) -> None:
        self.log.now_ms += days * DAY_MS
        self.expire()
        self.submit(RaiseFloor(self.log.state.floor, shown_ms=self.log.now_ms))

    @rule(entries=st.integers(0, 12))
    def silent_members_go(self, entries: int) -> None:
        """Those that were renewed before the last entries, of a chain on which nobody else can evict them."""
        before = EntryNumber(self.log.state.n + 1 - entries)
        self.expire()  # by the members that there were
        for name, group in self.twin.items():
            found = self.log.state.groups[name].members
            gone = [each.member_id for each in found if each.renewed_at < before]
            for member in gone:
                del group.topics[member], group.commits[member]
            group.generation += bool(gone)
            group.emptied_ms = self.log.now_ms if gone and not group.topics else group.emptied_ms
        self.submit(RaiseFloor(self.log.state.floor, before, self.log.now_ms))

    def expire(self) -> None:
        before_ms = self.log.now_ms - 7 * DAY_MS
        names = dict(self.sizes.keys())
        for name, group in list(self.twin.items()):
            read = {topic for topics in group.topics.values() for topic in topics}
            group.offsets = {
                place: row
                for place, row in group.offsets.items()
                if max(row[2], group.emptied_ms) > before_ms or names[place[0]] in read
            }
            if not group.topics and not group.offsets and group.emptied_ms <= before_ms:
                del self.twin[name]

    @rule()
    def snapshot_round_trip(self) -> None:
        before = contents(self.log.state)
        snapshot.write(self.store, snapshot.prepare(self.log.state, "f" * 64, {}))
        found = snapshot.newest(self.store)
        assert found is not None
        self.log.state = snapshot.load(self.store, found)
        assert contents(self.log.state) == before

    # ---- what must hold -------------------------------------------------------------------------

    @invariant()
    def state_says_what_the_twin_says(self) -> None:
        state = self.log.state
        assert set(state.groups) == set(self.twin)
        assert len(state.offsets) == sum(len(group.offsets) for group in self.twin.values())
        for name, wanted in self.twin.items():
            group = state.groups[name]
            assert (group.number, group.generation, group.emptied_ms) == (
                wanted.number,
                wanted.generation,
                wanted.emptied_ms,
            )
            assert {each.member_id: set(each.topics) for each in group.members} == wanted.topics
            assert {each.member_id: each.commits for each in group.members} == wanted.commits
            rows = state.offsets.of_group(group.number)
            assert {
                (key.topic_id, key.partition): (row.offset, row.metadata, row.committed_ms) for key, row in rows.items()
            } == wanted.offsets
            for key, row in rows.items():
                assert state.offsets.get(group.number, key) == row


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=20, stateful_step_count=40, deadline=None)
