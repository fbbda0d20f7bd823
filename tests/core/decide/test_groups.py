"""Groups in the chain: who may commit, what a commit may say, what a new generation divides, what expires."""

from __future__ import annotations

import msgspec
import pytest

from sparklog.core.commands import (
    AddPartitions,
    ClaimCoordination,
    CommitOffsets,
    CreateTopic,
    DeleteGroups,
    DeleteTopic,
    JoinGroup,
    LeaveGroup,
    MoveLogStart,
    RaiseFloor,
    ResignCoordination,
)
from sparklog.core.decide.groups import expired
from sparklog.core.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    InconsistentClusterId,
    InvalidCommitOffsetSize,
    InvalidGroupId,
    InvalidInput,
    InvalidSessionTimeout,
    InvalidTopic,
    Landed,
    NonEmptyGroup,
    OffsetMetadataTooLarge,
    OffsetOutOfRange,
    SparklogError,
    UnknownLeaderEpoch,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from sparklog.core.groups import membership
from sparklog.core.groups.membership import ConsumerGroup, Member, OffsetToCommit
from sparklog.core.lookup import existing_group
from sparklog.core.types import EntryNumber, LeaderEpoch, Offset, OffsetRange, PartitionIndex, TopicId
from tests.core.decided_log import TOPIC, A, DecidedLog, place
from tests.core.state_contents import contents

CHAIN = "c" * 32
MINUTE_MS = 60_000
WEEK_MS = 10_080 * MINUTE_MS


class GroupLog(DecidedLog):
    """A log of 10 records in each partition, with short ways to say what groups do."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for partition in (0, 1):
            self.append(10, partition)

    def join(self, member: str, *topics: str, group: str = "billing", timeout_ms: int = 45_000) -> int:
        """The generation after that."""
        self.submit(JoinGroup(group, member, topics or ("orders",), timeout_ms))
        return self.state.groups[group].generation

    def commit(
        self,
        *offsets: int | tuple[int, int] | OffsetToCommit,
        by: tuple[str, int, int] | None = None,
        group: str = "billing",
        chain_id: str = CHAIN,
    ) -> None:
        """Commit offset 0-N or (partition, offset); `by`: member, generation, number of the commit."""
        rows = [to_commit(*((0, each) if isinstance(each, int) else each)) if not isinstance(each, OffsetToCommit) else
                each for each in offsets]  # fmt: skip
        self.submit(CommitOffsets(chain_id, group, tuple(rows), *(by or ())))

    def group(self, name: str = "billing") -> ConsumerGroup:
        return existing_group(self.state, name)

    def member(self, member_id: str) -> Member:
        found = self.group().member(member_id)
        assert found is not None
        return found

    def committed(self, group: str = "billing") -> dict[tuple[int, int], int]:
        rows = self.state.offsets.of_group(self.group(group).number)
        return {(key.topic_id, key.partition): row.offset for key, row in rows.items()}

    def shares(self, group: str = "billing") -> dict[str, list[tuple[int, int]]]:
        members = self.group(group).members
        return {each.member_id: [(key.topic_id, key.partition) for key in each.assigned] for each in members}

    def later(self, minutes: int) -> None:
        self.now_ms += minutes * MINUTE_MS

    def refused(self, error: type[SparklogError], command: object) -> str:
        """The message; nothing was changed."""
        before = contents(self.state)
        with pytest.raises(error) as raised:
            self.submit(command)  # type: ignore[arg-type]
        assert contents(self.state) == before
        return str(raised.value)


def to_commit(partition: int, offset: int, *, topic: int = TOPIC, epoch: int = 0, metadata: str = "") -> OffsetToCommit:
    return OffsetToCommit(TopicId(topic), PartitionIndex(partition), Offset(offset), LeaderEpoch(epoch), metadata)


@pytest.fixture
def log() -> GroupLog:
    return GroupLog()


# ---- commits ------------------------------------------------------------------------------------------


def test_a_static_member_in_its_next_life_takes_its_place() -> None:
    """KIP-345: the generation and all shares stay, and the former life is fenced."""
    log = GroupLog()
    log.join("b")
    assert log.join("a@1") == 2
    [first, other] = log.state.groups["billing"].members
    assert (first.member_id, first.instance_id, other.instance_id) == ("a@1", "a", None)
    log.commit(3, by=("a@1", 2, 1))
    assert log.join("a@2", timeout_ms=10_000) == 2
    assert log.state.groups["billing"].members == (
        Member("a@2", first.topics, 10_000, EntryNumber(log.state.n), first.assigned),
        other,
    )
    late = CommitOffsets(CHAIN, "billing", (to_commit(0, 4),), "a@1", 2, 2)
    for command in (late, LeaveGroup("billing", "a@1"), JoinGroup("billing", "a@1", ("orders",), 45_000, again=True)):
        log.refused(FencedInstanceId, command)
    log.commit(4, by=("a@2", 2, 1))
    assert log.join("a@3", "orders", "more") == 3, "it wants something else"
    log.submit(LeaveGroup("billing", "a@3"))
    log.submit(JoinGroup("billing", "a@1", ("orders",), 45_000, again=True))


def test_offsets_are_kept_by_group_and_partition_with_their_text_and_time(log: GroupLog) -> None:  # M: I-07
    log.commit(to_commit(0, 3, metadata="batch ö"), (1, 10))
    log.commit(4, group="other")
    log.now_ms += 5
    log.commit((1, 9))  # backwards: a group may go back
    rows = log.state.offsets.of_group(log.group().number)
    assert [tuple(msgspec.structs.astuple(row)) for row in rows.values()] == [
        (3, 0, "batch ö", 1_000),
        (9, 0, "", 1_005),
    ]
    assert log.committed("other") == {(TOPIC, 0): 4}
    assert log.group().generation == 0


def test_a_commit_is_refused_as_a_whole(log: GroupLog) -> None:
    log.commit(1)
    bad = [
        (OffsetOutOfRange, to_commit(1, 11)),
        (OffsetOutOfRange, to_commit(1, -1)),
        (UnknownTopicOrPartition, to_commit(2, 0)),
        (UnknownTopicOrPartition, to_commit(0, 0, topic=7)),
        (UnknownLeaderEpoch, to_commit(1, 1, epoch=1)),
        (OffsetMetadataTooLarge, to_commit(1, 1, metadata="ö" * 2_049)),
        (InvalidInput, to_commit(0, 2)),
    ]
    for error, offset in bad:
        log.refused(error, CommitOffsets(CHAIN, "billing", (to_commit(0, 2), offset)))
    log.refused(InconsistentClusterId, CommitOffsets("d" * 32, "billing", (to_commit(0, 2),)))
    log.refused(InvalidInput, CommitOffsets(CHAIN, "billing", ()))
    for name in ("", " a", "a\n", "x" * 250):
        log.refused(InvalidGroupId, CommitOffsets(CHAIN, name, (to_commit(0, 2),)))
    log.commit(to_commit(1, 1, metadata="ö" * 2_048))


def test_a_commit_fits_into_one_entry(log: GroupLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "TEXT_BYTES_PER_COMMIT", 8)
    log.commit(to_commit(0, 1, metadata="ö" * 2), to_commit(1, 1, metadata="ö" * 2))
    two = CommitOffsets(CHAIN, "billing", (to_commit(0, 2, metadata="ö" * 2), to_commit(1, 2, metadata="ö" * 3)))
    assert "10 B of text with 2 offsets: shorten the text" in log.refused(InvalidCommitOffsetSize, two)
    monkeypatch.setattr(membership, "OFFSETS_PER_COMMIT", 1)
    two = CommitOffsets(CHAIN, "billing", (to_commit(0, 2), to_commit(1, 2)))
    assert "found 2 offsets: commit them in several parts" in log.refused(InvalidCommitOffsetSize, two)
    assert log.committed() == {(TOPIC, 0): 1, (TOPIC, 1): 1}


def test_an_offset_below_the_log_start_may_be_committed(log: GroupLog) -> None:
    log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(10)))
    log.commit(4)
    assert log.committed() == {(TOPIC, 0): 4}


def test_a_topic_created_again_is_another_topic_for_a_group(log: GroupLog) -> None:
    log.commit(3, (1, 4))
    log.submit(CreateTopic("other", assignment=((A,),)))
    log.commit(to_commit(0, 0, topic=2, metadata="kept"))
    log.submit(DeleteTopic(TOPIC))
    log.submit(CreateTopic("orders", assignment=((A,), (A,))))
    assert log.committed() == {(2, 0): 0}
    log.refused(UnknownTopicOrPartition, CommitOffsets(CHAIN, "billing", (to_commit(0, 0),)))


# ---- members and generations --------------------------------------------------------------------------


def test_each_change_of_members_or_partitions_divides_them_anew(log: GroupLog) -> None:  # M: I-07
    assert log.join("b") == 1
    assert log.shares() == {"b": [(TOPIC, 0), (TOPIC, 1)]}
    assert log.join("a") == 2
    assert log.shares() == {"a": [(TOPIC, 0)], "b": [(TOPIC, 1)]}
    log.submit(AddPartitions(TOPIC, 5, ((A,), (A,), (A,))))
    assert log.group().generation == 3
    assert log.shares() == {"a": [(TOPIC, 0), (TOPIC, 1), (TOPIC, 2)], "b": [(TOPIC, 3), (TOPIC, 4)]}
    assert log.join("b", "orders", "later") == 4
    log.submit(CreateTopic("later", assignment=((A,),)))
    assert log.group().generation == 5
    assert log.shares()["b"][0] == (2, 0)
    log.submit(DeleteTopic(TOPIC))
    assert log.group().generation == 6
    assert log.shares() == {"a": [], "b": [(2, 0)]}
    log.submit(LeaveGroup("billing", "a"))
    log.submit(LeaveGroup("billing", "b"))
    assert (log.group().generation, log.group().members, log.group().emptied_ms) == (8, (), log.now_ms)


def test_only_the_present_generation_commits(log: GroupLog) -> None:  # M: I-07
    log.join("a")
    log.commit(1, by=("a", 1, 1))
    log.join("b")
    late = CommitOffsets(CHAIN, "billing", (to_commit(0, 2),), "a", 1, 2)
    assert "generation 2" in log.refused(IllegalGeneration, late)
    log.refused(IllegalGeneration, msgspec.structs.replace(late, generation=3))
    log.refused(UnknownMemberId, msgspec.structs.replace(late, member_id="c", generation=2))
    log.refused(UnknownMemberId, msgspec.structs.replace(late, group="nowhere"))
    log.commit(2, by=("a", 2, 2))
    log.submit(LeaveGroup("billing", "a"))
    log.refused(UnknownMemberId, msgspec.structs.replace(late, generation=3, number=3))
    assert log.committed() == {(TOPIC, 0): 2}


def test_a_commit_to_a_group_that_was_deleted_does_not_count_in_the_next_one_of_its_name(log: GroupLog) -> None:
    """The next one has the same member at the same generation; only the group's number tells them apart."""
    log.join("a")
    old = CommitOffsets(CHAIN, "billing", (to_commit(0, 5),), "a", 1, 1, group_number=log.group().number)
    log.submit(LeaveGroup("billing", "a"))
    log.submit(DeleteGroups(("billing",)))
    assert "was deleted" in log.refused(UnknownMemberId, old)
    assert log.join("a") == 1
    assert "was deleted" in log.refused(UnknownMemberId, old)
    log.submit(msgspec.structs.replace(old, group_number=log.group().number, offsets=(to_commit(0, 3),), number=2))
    assert "was deleted" in log.refused(UnknownMemberId, old)  # and is no repeat of a commit to this one
    log.submit(LeaveGroup("billing", "a"))
    log.refused(UnknownMemberId, msgspec.structs.replace(old, member_id=None))
    assert log.committed() == {(TOPIC, 0): 3}


def test_without_a_member_only_a_group_without_members_is_committed_to(log: GroupLog) -> None:
    log.commit(1)
    log.join("a")
    assert "has 1 active member: without a member" in log.refused(
        UnknownMemberId, CommitOffsets(CHAIN, "billing", (to_commit(0, 2),))
    )
    log.submit(LeaveGroup("billing", "a"))
    log.commit(2)
    assert log.committed() == {(TOPIC, 0): 2}


def test_a_commit_that_was_repeated_or_overtaken_changes_nothing(log: GroupLog) -> None:
    log.join("a")
    first = log.begin(CommitOffsets(CHAIN, "billing", (to_commit(0, 1),), "a", 1, 1))
    log.submit_again(first)
    log.commit(5, by=("a", 1, 2))
    log.submit_again(first)
    log.commit(3, by=("a", 1, 1))
    assert log.committed() == {(TOPIC, 0): 5}
    log.join("b")
    log.submit_again(first)  # it was committed, whatever generation it is now
    assert log.committed() == {(TOPIC, 0): 5}
    log.refused(InvalidInput, CommitOffsets(CHAIN, "billing", (), "a", 2, 0))


def test_the_refusal_of_a_commit_in_doubt_is_no_proof_that_it_did_not_land(log: GroupLog) -> None:
    """No result is kept of it, and what counts the commits of a member goes with the member."""
    log.join("a")
    commit = log.begin(CommitOffsets(CHAIN, "billing", (to_commit(0, 1),), "a", 1, 1))
    log.submit_again(commit)
    log.submit(LeaveGroup("billing", "a"))
    for error in (UnknownMemberId, IllegalGeneration):
        for in_doubt, landed in ((False, Landed.NO), (True, Landed.UNKNOWN)):
            with pytest.raises(error) as raised:
                log.submit_again(msgspec.structs.replace(commit, in_doubt=in_doubt))
            assert raised.value.landed is landed
        log.join("a")
    assert log.committed() == {(TOPIC, 0): 1}


def test_commits_of_members_are_not_kept_among_the_results(log: GroupLog) -> None:
    log.join("a")
    before = len(log.state.results)
    for number in range(1, 20):
        log.commit(number % 10, by=("a", 1, number))
    assert len(log.state.results) == before
    log.commit(1, group="simple")
    assert len(log.state.results) == before + 1


def test_a_join_is_checked(log: GroupLog) -> None:
    log.refused(InvalidGroupId, JoinGroup("", "a", ("orders",), 45_000))
    log.refused(InvalidGroupId, JoinGroup("billing", "", ("orders",), 45_000))
    log.refused(InvalidInput, JoinGroup("billing", "a", (), 45_000))
    log.refused(InvalidTopic, JoinGroup("billing", "a", ("orders", "two words"), 45_000))
    for timeout_ms in (5_999, 1_800_001):
        log.refused(InvalidSessionTimeout, JoinGroup("billing", "a", ("orders",), timeout_ms))


# ---- sessions -----------------------------------------------------------------------------------------


def test_a_commit_a_join_and_an_empty_commit_renew_a_member(log: GroupLog) -> None:
    log.join("a")
    seen = [log.member("a").renewed_at]
    log.commit(1, by=("a", 1, 1))
    seen.append(log.member("a").renewed_at)
    log.commit(by=("a", 1, 2))
    seen.append(log.member("a").renewed_at)
    assert log.join("a") == 1
    seen.append(log.member("a").renewed_at)
    assert seen == [EntryNumber(n) for n in range(log.state.n - 3, log.state.n + 1)]
    assert log.committed() == {(TOPIC, 0): 1}


def test_a_member_that_was_renewed_in_the_meantime_is_not_evicted(log: GroupLog) -> None:
    log.join("a")
    seen = log.member("a").renewed_at
    log.commit(by=("a", 1, 1))
    log.submit(LeaveGroup("billing", "a", seen))
    assert log.group().generation == 1
    log.submit(LeaveGroup("billing", "a", log.member("a").renewed_at))
    log.submit(LeaveGroup("billing", "a", log.state.groups["billing"].number))  # type: ignore[arg-type]
    assert (log.group().generation, log.group().members) == (2, ())
    log.refused(UnknownMemberId, LeaveGroup("billing", "a"))
    log.refused(GroupIdNotFound, LeaveGroup("nowhere", "a"))


# ---- deleting and expiring ----------------------------------------------------------------------------


def test_a_group_with_members_is_not_deleted(log: GroupLog) -> None:
    log.commit(1, group="other")
    log.commit(to_commit(0, 1, metadata="text"))
    log.join("a")
    log.refused(NonEmptyGroup, DeleteGroups(("other", "billing")))
    log.refused(GroupIdNotFound, DeleteGroups(("other", "nowhere")))
    log.submit(LeaveGroup("billing", "a"))
    log.submit(DeleteGroups(("other", "billing", "other")))
    assert (dict(log.state.groups), len(log.state.offsets), dict(log.state.offsets.metadata)) == ({}, 0, {})
    log.join("a")
    assert (log.committed(), log.group().generation) == ({}, 1)


def forget_expired(log: GroupLog) -> None:
    log.submit(RaiseFloor(log.state.floor, shown_ms=log.now_ms))


def test_offsets_expire_once_their_group_has_been_empty_for_the_retention(log: GroupLog) -> None:  # M: I-07, N-06
    log.join("a")
    log.commit(3, (1, 4), by=("a", 1, 1))
    log.later(3 * 10_080)
    forget_expired(log)
    assert log.committed() == {(TOPIC, 0): 3, (TOPIC, 1): 4}, "a member reads them"
    log.submit(LeaveGroup("billing", "a"))
    log.now_ms += WEEK_MS - 1
    forget_expired(log)
    assert len(log.committed()) == 2
    log.now_ms += 1
    forget_expired(log)
    assert (dict(log.state.groups), len(log.state.offsets)) == ({}, 0)


def test_without_members_each_offset_expires_by_its_own_age(log: GroupLog) -> None:
    log.commit(3)
    log.later(10)
    log.commit((1, 4))
    log.now_ms += WEEK_MS - 10 * MINUTE_MS
    forget_expired(log)
    assert log.committed() == {(TOPIC, 1): 4}
    log.later(10)
    forget_expired(log)
    assert dict(log.state.groups) == {}


def test_a_topic_that_no_member_reads_any_more_expires(log: GroupLog) -> None:
    log.submit(CreateTopic("other", assignment=((A,),)))
    log.join("a", "orders", "other")
    log.commit(3, to_commit(0, 0, topic=2), by=("a", 1, 1))
    log.join("a", "orders")
    log.now_ms += WEEK_MS
    forget_expired(log)
    assert log.committed() == {(TOPIC, 0): 3}


def test_a_group_that_never_committed_expires_too(log: GroupLog) -> None:
    log.join("a")
    log.submit(LeaveGroup("billing", "a"))
    assert expired(log.state, log.now_ms + WEEK_MS - 1) is None
    log.now_ms += WEEK_MS
    forget_expired(log)
    assert dict(log.state.groups) == {}


def forget_silent(log: GroupLog, before: int) -> None:
    log.submit(RaiseFloor(log.state.floor, silent_before=EntryNumber(before)))


def test_members_that_nobody_could_evict_are_forgotten_in_the_end(log: GroupLog) -> None:
    log.join("a", timeout_ms=6_000)
    log.join("b")
    log.commit(1, by=("b", 2, 1))
    renewed = log.member("b").renewed_at
    log.append(1)
    forget_silent(log, renewed)
    assert (log.group().generation, [each.member_id for each in log.group().members]) == (3, ["b"])
    forget_silent(log, renewed + 1)
    assert (log.group().members, log.group().emptied_ms) == ((), log.now_ms)
    assert log.committed() == {(TOPIC, 0): 1}


def test_floor_leaves_the_members_to_a_coordinator_that_hears_them(log: GroupLog) -> None:
    log.submit(ClaimCoordination(1, "c", "http://c:1"))
    log.join("a", timeout_ms=6_000)
    log.append(1)
    forget_silent(log, log.state.n)
    assert [each.member_id for each in log.group().members] == ["a"]
    log.submit(ResignCoordination(1))
    forget_silent(log, log.state.n)
    assert log.group().members == ()


def test_floor_takes_nobody_for_gone_whom_a_coordinator_heard_later(log: GroupLog) -> None:
    """It may have heard them until it resigned; now they have their sessions to show themselves in the chain."""
    log.join("a", timeout_ms=6_000)
    for _ in range(2):
        log.submit(ClaimCoordination(1, "c", "http://c:1"))
    heard = log.state.n
    log.submit(ResignCoordination(1))
    forget_silent(log, heard)
    assert [each.member_id for each in log.group().members] == ["a"]
    forget_silent(log, heard + 1)
    assert log.group().members == ()


def test_floor_alone_says_nothing_of_members(log: GroupLog) -> None:
    """One clock alone decides where it is."""
    log.join("a", timeout_ms=6_000)
    log.append(1)
    log.submit(RaiseFloor(EntryNumber(log.state.n)))
    assert [each.member_id for each in log.group().members] == ["a"]
    log.refused(InvalidInput, RaiseFloor(log.state.floor, silent_before=EntryNumber(log.state.n + 2)))


# ---- elections ----------------------------------------------------------------------------------------


def test_what_an_unclean_election_gave_up_counts_as_unread(log: GroupLog) -> None:
    """Whether the commit came before the election or comes after it."""
    before = log.partition().replication
    lost = msgspec.structs.replace(
        before,
        leader_epoch=LeaderEpoch(1),
        epochs=((LeaderEpoch(0), Offset(0)), (LeaderEpoch(1), Offset(10))),
        lost=(OffsetRange(Offset(6), Offset(10)),),
    )
    log.state.partitions[place()] = msgspec.structs.replace(log.partition(), replication=lost)
    decision = log.decide(CommitOffsets(CHAIN, "billing", (to_commit(0, 9),)))
    assert decision.records[0].offsets == (to_commit(0, 6),)  # type: ignore[union-attr]
    decision = log.decide(CommitOffsets(CHAIN, "billing", (to_commit(0, 10, epoch=1),)))
    assert decision.records[0].offsets == (to_commit(0, 10, epoch=1),)  # type: ignore[union-attr]
