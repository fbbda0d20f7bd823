"""What an election forgets goes with all that was remembered of it, and nothing else does (rule E4)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from sparklog.core.commands import (
    AllocateProducer,
    Append,
    Application,
    CommitOffsets,
    DeleteTopic,
    Election,
    ElectLeaders,
    MoveLogStart,
)
from sparklog.core.errors import Landed, OutOfOrderSequence, WriteLost
from sparklog.core.groups.membership import OffsetToCommit
from sparklog.core.records import LostRecords, LostVersion
from sparklog.core.replication.lost_records import version_lost
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import Holder, Offset, OffsetRange, PartitionIndex, StoreId
from tests.core.decided_log import place, span
from tests.core.replicated_log import TOPIC, ReplicatedLog


@pytest.fixture
def log() -> ReplicatedLog:
    """[0, 4) is on every store."""
    made = ReplicatedLog()
    made.write("abc", 4)
    return made


def test_slices_above_the_new_leaders_log_end_are_forgotten_and_their_objects_are_orphans(log: ReplicatedLog) -> None:
    log.write_to_leader("a", 3)
    before = log.partition().size_bytes
    log.fence("a")
    assert log.bounds() == [(0, 4)]
    assert log.partition().size_bytes == before - 30
    assert log.partition().next_offset == 7  # offsets are never used twice
    assert [each.number for each in log.state.objects] == [0]
    assert not len(log.state.retired)


def test_a_repeat_of_a_forgotten_write_may_name_its_object_again(log: ReplicatedLog) -> None:
    """Nobody deletes the bytes before FLOOR has passed the write: vacuum alone may, as with any orphan."""
    lost = log.begin(log.write_of("ab", 3, acks=Acks.LEADER))
    log.submit_again(lost)
    log.lose("b", (0, 4))  # so that c, which ends at 4, follows
    log.fence("a")
    assert log.value().leader == "c"
    named = lost.command.objects[0]  # type: ignore[union-attr]
    assert named.upload_id not in {each.object.upload_id for each in log.state.objects}
    held = (Holder(StoreId("c"), log.registration("c")),)
    epochs = (msgspec.structs.replace(lost.command.epochs[0], leader_epoch=log.value().leader_epoch),)  # type: ignore[union-attr]
    command = msgspec.structs.replace(
        lost.command, objects=(msgspec.structs.replace(named, holders=held),), epochs=epochs
    )
    again = msgspec.structs.replace(lost, command=command, in_doubt=True)
    assert log.submit_again(again).ranges[0].start == 7
    assert not len(log.state.retired)
    assert [each.object.upload_id for each in log.state.objects].count(named.upload_id) == 1


def test_the_next_write_leaves_a_gap_and_the_log_reads_on_behind_it(log: ReplicatedLog) -> None:
    log.write_to_leader("a", 3)
    log.fence("a")
    log.write("bc", 2)
    assert log.bounds() == [(0, 4), (7, 9)]
    log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(5)))
    assert log.bounds() == [(7, 9)]
    assert log.value().epochs == ((0, 5), (1, 7))


def test_of_a_slice_that_the_log_start_cuts_a_leader_that_lacks_it_has_nothing(log: ReplicatedLog) -> None:
    """c lacks [4, 8), of which [4, 6) is below the log start: c's log ends there, in the middle of the slice."""
    log.configure(min_insync_replicas="1")
    log.fence("c")
    log.write("ab", 4)
    log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(6)))
    log.register("c")
    log.fence("a")
    log.fence("b")
    log.elect("c", unclean=True)
    assert log.value().lost == (OffsetRange(Offset(6), Offset(8)),)
    assert log.bounds() == []
    assert log.partition().size_bytes == 0


# ---- results of commands ------------------------------------------------------------------------------


def test_a_forgotten_write_is_a_first_write_when_it_is_sent_again(log: ReplicatedLog) -> None:
    lost = log.begin(log.write_of("a", 3, acks=Acks.LEADER))
    log.submit_again(lost)
    assert log.decide_again(lost).committed_in is not None
    log.fence("a")
    assert log.state.results.get(lost.command_id) is None
    log.register("a")
    again = log.begin(log.write_of("bc", 3))
    assert log.submit_again(again).ranges[0].start == 7


def test_the_results_of_what_is_left_stay(log: ReplicatedLog) -> None:
    kept = log.begin(log.write_of("abc", 1))
    log.submit_again(kept)
    log.state.results.seal()
    log.write_to_leader("a", 3)
    log.fence("a")
    assert log.decide_again(kept).committed_in is not None


def test_a_forgotten_result_goes_out_of_a_block_too(log: ReplicatedLog) -> None:
    kept, lost = log.begin(log.write_of("abc", 1)), log.begin(log.write_of("a", 3, acks=Acks.LEADER))
    log.submit_again(kept)
    log.submit_again(lost)
    log.state.results.seal()
    log.fence("a")
    assert log.state.results.get(lost.command_id) is None
    assert log.state.results.get(kept.command_id) is not None


def multi_slice(log: ReplicatedLog, *on: str, partitions: tuple[int, ...] = (), **more: Any) -> Append:
    """A write of one slice of two records per item of `on`, each on these stores."""
    parts = [
        log.write_of(stores, 2, partition) for stores, partition in zip(on, partitions or (0,) * len(on), strict=True)
    ]
    return replace(
        parts[0],
        objects=tuple(part.objects[0] for part in parts),
        slices=tuple(replace(part.slices[0], object_index=at) for at, part in enumerate(parts)),
        epochs=tuple({part.epochs[0].partition: part.epochs[0] for part in parts}.values()),
        **more,
    )


def test_a_write_that_an_election_cut_says_what_is_left_when_it_is_sent_again(log: ReplicatedLog) -> None:
    cut = log.begin(multi_slice(log, "ab", "a", acks=Acks.LEADER))
    assert log.submit_again(cut).ranges[0].end == 8
    log.submit_again(cut)
    log.fence("a")
    assert log.bounds() == [(0, 4), (4, 6)]
    before = log.state.n
    with pytest.raises(WriteLost, match=r"given up orders-0 \[6, 8\) since; the rest of it is there") as caught:
        log.submit_again(cut)
    assert caught.value.landed is Landed.YES
    assert log.state.n == before
    log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(4)))
    with pytest.raises(WriteLost):
        log.submit_again(cut)


def test_a_write_to_several_partitions_is_not_written_twice_where_one_lost_it() -> None:
    log = ReplicatedLog(partitions=2)
    both = log.begin(multi_slice(log, "a", "abc", partitions=(0, 1)))
    log.submit_again(both)
    log.fence("a")
    log.elect(unclean=True)
    assert (log.bounds(0), log.bounds(1)) == ([], [(0, 2)])
    with pytest.raises(WriteLost, match=r"given up orders-0 \[0, 2\) since; the rest of it is there: write only what"):
        log.submit_again(both)


def test_a_write_of_which_an_unclean_election_left_nothing_says_so(log: ReplicatedLog) -> None:
    lost = log.begin(log.write_of("a", 2))
    log.submit_again(lost)
    log.fence("a")
    log.elect(unclean=True)
    with pytest.raises(WriteLost, match=r"given up orders-0 \[4, 6\) since; write it again, with a new") as caught:
        log.submit_again(lost)
    assert caught.value.landed is Landed.NO


def test_what_retention_and_deletion_took_is_no_loss(log: ReplicatedLog) -> None:
    old, newer = log.begin(log.write_of("abc", 2)), log.begin(log.write_of("abc", 3))
    for each in (old, newer):
        log.submit_again(each)
    log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(7)))
    assert [log.submit_again(each).records for each in (old, newer)] == [2, 3]
    log.submit(DeleteTopic(TOPIC))
    assert log.submit_again(newer).records == 3


# ---- producers ----------------------------------------------------------------------------------------


def test_a_producer_goes_on_after_its_last_batch_that_is_left(log: ReplicatedLog) -> None:
    producer = log.producer()
    log.write("abc", 1, producer=span(producer, 0, 0, 0))
    log.write_to_leader("a", 1, producer=span(producer, 0, 1, 1))
    log.fence("a")
    assert [each.last_sequence for each in log.state.producers[producer].batches[place()]] == [0]
    with pytest.raises(OutOfOrderSequence, match="must continue at sequence 1"):
        log.write("bc", 1, producer=span(producer, 0, 2, 2))
    assert log.write("bc", 1, producer=span(producer, 0, 1, 1)).ranges[0].start == 6


def test_a_producer_that_lost_more_than_is_remembered_of_it_goes_on_where_the_log_does(log: ReplicatedLog) -> None:
    producer = log.producer()
    for at in range(3):
        log.write("abc", 1, producer=span(producer, 0, at, at))
    for at in range(3, 10):
        log.write_to_leader("a", 1, producer=span(producer, 0, at, at))
    log.fence("a")
    with pytest.raises(OutOfOrderSequence, match="must continue at sequence 3"):
        log.write("bc", 1, producer=span(producer, 0, 0, 0))
    log.write("bc", 1, producer=span(producer, 0, 3, 3))


def test_a_producer_of_which_nothing_is_left_begins_again(log: ReplicatedLog) -> None:
    producer = log.producer()
    log.write_to_leader("a", 1, producer=span(producer, 0, 0, 0))
    log.fence("a")
    assert dict(log.state.producers[producer].batches) == {}
    assert log.write("bc", 1, producer=span(producer, 0, 0, 0)).ranges[0].start == 5


def test_a_batch_that_an_election_cut_is_not_written_twice(log: ReplicatedLog) -> None:
    producer = log.producer()
    log.write("abc", 1, producer=span(producer, 0, 0, 0))
    cut = multi_slice(log, "ab", "a", acks=Acks.LEADER)
    spans = (span(producer, 0, 1, 2), span(producer, 0, 3, 4))
    slices = tuple(replace(each, producer=own) for each, own in zip(cut.slices, spans, strict=True))
    log.submit(replace(cut, slices=slices))
    log.fence("a")
    assert log.bounds() == [(0, 4), (4, 5), (5, 7)]
    for in_doubt in (False, True):
        with pytest.raises(
            WriteLost, match=rf"sequences 1 to 2 of producer {producer} are there, and an .* orders-0 \[7, 9\) .* 3"
        ) as caught:
            log.decide_again(log.begin(log.write_of("bc", 4, producer=span(producer, 0, 1, 4)), in_doubt=in_doubt))
        assert caught.value.landed is Landed.YES
    assert log.write("bc", 2, producer=span(producer, 0, 3, 4)).ranges[0].start == 9
    with pytest.raises(OutOfOrderSequence, match="must continue at sequence 5 in orders-0, found 1 to 4"):
        log.write("bc", 4, producer=span(producer, 0, 1, 4))


def test_a_batch_that_was_longer_only_by_a_mistake_is_out_of_order(log: ReplicatedLog) -> None:
    """No election cut it: behind it the log goes on, or ends, or is not kept any more."""
    producer = log.producer()
    log.write("abc", 2, producer=span(producer, 0, 0, 1))

    def is_refused() -> None:
        with pytest.raises(OutOfOrderSequence, match="must continue at sequence 2"):
            log.write("abc", 3, producer=span(producer, 0, 0, 2))

    is_refused()
    log.write("abc", 3)
    is_refused()
    log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(9)))
    is_refused()


def test_what_an_election_left_of_a_command_without_a_producer_is_said_in_the_same_words(log: ReplicatedLog) -> None:
    cut = log.begin(multi_slice(log, "ab", "a", acks=Acks.LEADER))
    log.submit_again(cut)
    log.fence("a")
    with pytest.raises(WriteLost, match=r"given up orders-0 \[6, 8\) since"):
        log.submit_again(cut)


def test_a_producer_that_lost_records_in_an_unclean_election_hears_so_until_its_next_epoch() -> None:
    log = ReplicatedLog(partitions=2)
    producer, other = log.producer(), log.producer()
    log.write("abc", 1, producer=span(producer, 0, 0, 0))
    log.write("abc", 1, 1, producer=span(other, 0, 0, 0))
    for at in (1, 2):
        log.write("a", 1, producer=span(producer, 0, at, at))
    log.fence("a")
    log.elect(unclean=True)
    assert log.write("b", 1, producer=span(producer, 0, 0, 0)).ranges[0].start == 0  # it is there, and said to be
    before = log.state.n
    for sequence, partition in ((1, 0), (3, 0), (4, 0), (0, 1)):  # whatever it has under way
        with pytest.raises(
            WriteLost, match=rf"producer {producer} were lost .*: orders-0 \[1, 3\); nothing was"
        ) as caught:
            log.write("b", 1, partition, producer=span(producer, 0, sequence, sequence))
        assert caught.value.landed is Landed.NO
    assert log.state.n == before
    log.submit(AllocateProducer(producer))
    assert log.write("b", 1, producer=span(producer, 1, 0, 0)).ranges[0].start == 3
    assert log.write("b", 1, 1, producer=span(other, 0, 1, 1)).ranges[0].start == 1  # it lost nothing


def test_other_partitions_and_producers_are_as_before() -> None:
    log = ReplicatedLog(partitions=2)
    one, other = log.producer(), log.producer()
    log.write("abc", 1, 0, producer=span(other, 0, 0, 0))
    log.write("abc", 1, 1, producer=span(one, 0, 0, 0))
    log.write_to_leader("a", 1, producer=span(one, 0, 0, 0))
    before = log.state.producers[other]
    log.fence("a")
    assert set(log.state.producers[one].batches) == {place(1)}
    assert log.state.producers[other] == before


# ---- applications -------------------------------------------------------------------------------------


def test_a_version_that_an_unclean_election_gave_up_may_be_written_again(log: ReplicatedLog) -> None:
    log.write("abc", 1, application=Application("job", 6))
    log.write("a", 1, application=Application("job", 7))
    log.fence("a")
    assert log.state.applications["job"].version == 7
    log.elect(unclean=True)
    assert log.state.applications["job"].version == 6
    log.register("a")
    assert log.write("b", 1, application=Application("job", 7)).lost is not None
    assert log.write("b", 1, application=Application("job", 7)).ranges[0].start == 6
    before = log.state.n
    log.write("b", 1, application=Application("job", 6))
    assert log.state.n == before  # it is written: its record is left


@pytest.mark.parametrize("version", [6, 7, 8])
def test_an_application_hears_once_what_it_lost_and_then_goes_on(log: ReplicatedLog, version: int) -> None:
    log.write("a", 2, application=Application("job", 7))
    log.fence("a")
    log.elect(unclean=True)
    first = log.begin(log.write_of("b", 1, application=Application("job", version)))
    heard = log.submit_again(first)
    assert (heard.ranges, heard.records, heard.lost) == (
        (),
        0,
        LostVersion(7, (LostRecords("orders-0", Offset(4), Offset(6)),), is_whole=True),
    )
    assert log.bounds() == [(0, 4)]
    assert log.submit_again(first) == heard  # the same command hears the same
    assert str(version_lost(Application("job", version), heard.lost)) == (
        "WRITE_LOST: version 7 of job was lost in an unclean election: orders-0 [4, 6); write it again. "
        f"Version {version} was not written now. This error comes once: the next write will succeed"
    )
    written = log.write("b", 1, application=Application("job", version))
    assert written.lost is None
    assert (written.records > 0) is (version > 6)  # 6 was written before


def test_an_application_that_lost_nothing_hears_nothing(log: ReplicatedLog) -> None:
    log.write("abc", 1, application=Application("job", 7))
    log.write("a", 2)
    log.fence("a")
    log.elect(unclean=True)
    assert log.write("b", 1, application=Application("job", 8)).records == 1


def test_a_version_of_which_a_part_is_left_stays_written() -> None:
    log = ReplicatedLog(partitions=2)
    first, second = log.write_of("abc", 1, 0), log.write_of("a", 1, 1)
    both = msgspec.structs.replace(
        first,
        objects=(*first.objects, *second.objects),
        slices=(*first.slices, msgspec.structs.replace(second.slices[0], object_index=1)),
        epochs=(*first.epochs, *second.epochs),
        application=Application("job", 3),
    )
    log.submit(both)
    log.fence("a")
    assert (log.value(0).leader, log.value(1).leader) == ("b", None)
    log.configure(unclean_leader_election_enable="true")
    assert log.bounds(1) == []
    assert log.state.applications["job"].version == 3
    reported = log.write("b", 1, 0, application=Application("job", 3))
    assert reported.lost is not None
    assert str(version_lost(Application("job", 3), reported.lost)) == (
        "WRITE_LOST: version 3 of job was lost in an unclean election: orders-1 [0, 1); its other records are left, "
        "and it counts as written. Version 3 was not written now. This error comes once: the next write will succeed"
    )
    before = log.state.n
    assert log.write("b", 1, 0, application=Application("job", 3)).n < before  # as it was written


def test_a_version_that_was_lost_in_all_its_partitions_may_be_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the changes of one entry are in several records."""
    monkeypatch.setattr("sparklog.core.decide.changes.PARTITIONS_PER_RECORD", 1)
    log = ReplicatedLog(partitions=2)
    log.configure(unclean_leader_election_enable="true")
    log.submit(multi_slice(log, "a", "a", partitions=(0, 1), application=Application("job", 3)))
    log.fence("a")
    assert len(log.entries[log.state.n][0].records) == 3
    lost = (LostRecords("orders-0", Offset(0), Offset(2)), LostRecords("orders-1", Offset(0), Offset(2)))
    assert log.state.applications["job"].lost == LostVersion(3, lost, is_whole=True)
    log.write("b", 1, application=Application("job", 3))
    assert log.write("b", 1, application=Application("job", 3)).records == 1


def test_a_version_that_two_elections_gave_up_may_be_written_again() -> None:
    """Its author hears of the first part, and that the rest counts as written; then of all of it."""
    log = ReplicatedLog(partitions=2)
    log.submit(multi_slice(log, "a", "abc", partitions=(0, 1), application=Application("job", 3)))
    log.fence("a")
    log.elect(unclean=True)
    heard = log.write("b", 1, 1, application=Application("job", 3)).lost
    assert heard == LostVersion(3, (LostRecords("orders-0", Offset(0), Offset(2)),), is_whole=False)
    for each in "bc":
        log.lose(each, wiped=True)
    log.submit(ElectLeaders((Election(TOPIC, PartitionIndex(1)),), unclean=True))
    found = log.state.applications["job"]
    assert (found.version, found.lost is not None and found.lost.is_whole) == (2, True)


def test_an_application_hears_of_no_later_election_that_took_nothing_of_it(log: ReplicatedLog) -> None:
    """[4, 6) is its own, of two partitions; an election below it gives up what others wrote."""
    log = ReplicatedLog(partitions=2)
    log.write("abc", 4)
    log.submit(multi_slice(log, "a", "abc", partitions=(0, 1), application=Application("job", 3)))
    log.fence("a")
    log.elect(unclean=True)
    assert log.write("b", 1, 1, application=Application("job", 3)).lost is not None
    assert log.bounds() == [(0, 4)]
    for each in "bc":
        log.lose(each, (0, 0))
    assert log.value().leader is None
    log.elect(unclean=True)
    assert log.bounds() == []
    assert log.state.applications["job"].lost is None


# ---- offsets of groups --------------------------------------------------------------------------------


def committed(log: ReplicatedLog, name: str) -> Offset:
    return log.state.offsets.of_group(log.state.groups[name].number)[place()].offset


def test_a_group_goes_back_to_where_an_unclean_election_began_to_lose(log: ReplicatedLog) -> None:  # M: I-07
    """Also one that commits after it what it had read before it. A clean election takes nothing that a group read."""
    log.configure(min_insync_replicas="1")
    log.fence("c")
    log.write("ab", 4)
    for name, offset in (("behind", 3), ("ahead", 8)):
        row = OffsetToCommit(TOPIC, PartitionIndex(0), Offset(offset), log.value().leader_epoch, "text")
        log.submit(CommitOffsets(log.state.chain_id, name, (row,)))
    epoch = log.value().leader_epoch
    log.register("c")
    log.fence("a")
    assert committed(log, "ahead") == 8
    log.fence("b")
    log.elect("c", unclean=True)
    assert log.value().lost == (OffsetRange(Offset(4), Offset(8)),)
    assert (committed(log, "behind"), committed(log, "ahead")) == (3, 4)
    late = OffsetToCommit(TOPIC, PartitionIndex(0), Offset(8), epoch)
    log.submit(CommitOffsets(log.state.chain_id, "late", (late,)))
    assert committed(log, "late") == 4
