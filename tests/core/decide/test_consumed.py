"""Offsets that a group commits together with the records that were made from them: both, or nothing (I-05)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sparklog.core.commands import Append, Application, CommitOffsets, DeleteGroups, LeaveGroup
from sparklog.core.describe.record_summary import summary
from sparklog.core.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    InvalidCommitOffsetSize,
    InvalidRequiredAcks,
    OffsetOutOfRange,
    OutOfOrderSequence,
    SparklogError,
    UnknownMemberId,
)
from sparklog.core.groups import membership
from sparklog.core.replication.replica_append import Acks
from tests.core.decide.test_groups import CHAIN, GroupLog, to_commit

MADE = 3  # records that are written in partition 1 from what was read in partition 0


@pytest.fixture
def log() -> GroupLog:
    """Ten records in each partition."""
    return GroupLog()


def made_from(
    log: GroupLog,
    offset: int,
    *,
    by: tuple[str, int, int] | None = None,
    application: Application | None = None,
    only_forward: bool = False,
) -> Append:
    consumed = CommitOffsets(CHAIN, "billing", (to_commit(0, offset),), *(by or ()))
    return replace(
        log.append_of(MADE, 1, application=application), consumed=replace(consumed, only_forward=only_forward)
    )


def ends(log: GroupLog) -> tuple[int, dict[tuple[int, int], int]]:
    """Where the output ends, and what the group has consumed."""
    known = "billing" in log.state.groups
    return log.partition(1).next_offset, log.committed() if known else {}


def test_records_and_the_offsets_they_were_made_from_are_one_entry(log: GroupLog) -> None:  # M: I-05
    before = log.state.n
    submission = log.begin(made_from(log, 4))
    log.submit_again(submission)
    assert (log.state.n, ends(log)) == (before + 1, (13, {(1, 0): 4}))
    log.commit(2)
    log.submit_again(submission)
    assert ends(log) == (13, {(1, 0): 2}), "a repeat adds nothing and moves nothing"


@pytest.mark.parametrize(
    ("bad", "error"),
    [(to_commit(0, 11), OffsetOutOfRange), (to_commit(0, -1), OffsetOutOfRange)],
)
def test_bad_offsets_keep_the_records_out(log: GroupLog, bad: object, error: type[SparklogError]) -> None:  # M: I-05
    append = made_from(log, 4)
    assert append.consumed is not None
    log.refused(error, replace(append, consumed=replace(append.consumed, offsets=(bad,))))


def test_offsets_with_records_are_not_split(log: GroupLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are one entry, so a reader of too many partitions commits them by itself."""
    monkeypatch.setattr(membership, "OFFSETS_PER_COMMIT", 1)
    append = made_from(log, 4)
    assert append.consumed is not None
    two = replace(append.consumed, offsets=(to_commit(0, 4), to_commit(1, 4)))
    found = log.refused(InvalidCommitOffsetSize, replace(append, consumed=two))
    assert "2 offsets to be committed with records, in the same entry of the chain" in found


def test_bad_records_keep_the_offsets_out(log: GroupLog) -> None:
    append = made_from(log, 4)
    (begun,) = append.epochs
    log.refused(SparklogError, replace(append, epochs=(replace(begun, leader_epoch=7),)))


def test_a_version_that_is_written_moves_no_offsets(log: GroupLog) -> None:  # M: I-04 I-05
    log.submit(made_from(log, 4, application=Application("q", 0)))
    log.submit(made_from(log, 8, application=Application("q", 1)))
    log.submit(made_from(log, 4, application=Application("q", 0)))
    assert ends(log) == (16, {(1, 0): 8})


def test_offsets_are_committed_without_records_too(log: GroupLog) -> None:
    append = replace(made_from(log, 4), objects=(), slices=(), epochs=())
    log.submit(append)
    assert ends(log) == (10, {(1, 0): 4})
    applied, _ = log.entries[log.state.n]
    assert summary(applied.records[0], {}) == "no records appended"


def test_members_that_were_replaced_write_nothing(log: GroupLog) -> None:  # M: I-05 I-07
    generation = log.join("anna")
    log.submit(made_from(log, 4, by=("anna", generation, 1)))
    log.refused(UnknownMemberId, made_from(log, 6))
    log.refused(OutOfOrderSequence, made_from(log, 6, by=("anna", generation, 1)))
    log.join("ben")
    log.refused(IllegalGeneration, made_from(log, 6, by=("anna", generation, 1)))
    log.refused(IllegalGeneration, made_from(log, 6, by=("anna", generation, 2)))
    assert ends(log) == (13, {(1, 0): 4})


def test_what_was_read_in_a_group_that_was_deleted_writes_nothing(log: GroupLog) -> None:  # M: I-05 I-07
    append = made_from(log, 4, by=("anna", log.join("anna"), 1))
    assert append.consumed is not None
    old = replace(append, consumed=replace(append.consumed, group_number=log.group().number))
    log.submit(LeaveGroup("billing", "anna"))
    log.submit(DeleteGroups(("billing",)))
    log.refused(GroupIdNotFound, old)
    log.join("anna")
    log.refused(UnknownMemberId, old)
    log.commit(1, by=("anna", 1, 1))
    log.refused(UnknownMemberId, old)  # not "out of order": it is no commit of this group
    assert ends(log) == (10, {(1, 0): 1})


def test_an_append_of_a_member_is_known_by_its_id(log: GroupLog) -> None:
    """A commit by itself is known by its number; here the records would be written twice."""
    submission = log.begin(made_from(log, 4, by=("anna", log.join("anna"), 1)))
    for _ in range(2):
        log.submit_again(submission)
    assert ends(log) == (13, {(1, 0): 4})


@pytest.mark.parametrize("changes", [{"acks": Acks.LEADER}, {"pull": True}])
def test_what_an_election_might_undo_in_part_is_refused(log: GroupLog, changes: dict[str, object]) -> None:
    log.refused(InvalidRequiredAcks, replace(made_from(log, 4), **changes))


def test_a_commit_that_only_goes_forward_leaves_out_what_is_behind(log: GroupLog) -> None:
    def forward(*offsets: tuple[int, int]) -> CommitOffsets:
        return CommitOffsets(CHAIN, "billing", tuple(to_commit(*each) for each in offsets), only_forward=True)

    log.submit(forward((0, 4)))
    log.submit(forward((0, 3), (1, 5)))
    assert log.committed() == {(1, 0): 4, (1, 1): 5}
    assert log.decide(forward((0, 4), (1, 2))).records == ()
    log.submit(forward((0, 5), (1, 2)))
    assert log.committed() == {(1, 0): 5, (1, 1): 5}
