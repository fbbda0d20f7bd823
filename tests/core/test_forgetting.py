"""What an election forgets goes with all that was remembered of it, and nothing else does (rule E4)."""

from __future__ import annotations

import msgspec
import pytest

from sparklog.core.commands import Application, MoveLogStart
from sparklog.core.errors import OutOfOrderSequence
from sparklog.core.replication.append import Acks
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


def test_a_write_of_which_a_part_is_left_stays_known() -> None:
    """An unclean election of c forgets the part in partition 0, whose object is the first one."""
    log = ReplicatedLog(partitions=2)
    log.configure(min_insync_replicas="1")
    log.fence("c")
    first, second = log.write_of("ab", 1, 0), log.write_of("ab", 1, 1)
    both = msgspec.structs.replace(
        first,
        objects=(*first.objects, *second.objects),
        slices=(*first.slices, msgspec.structs.replace(second.slices[0], object_index=1)),
        epochs=(*first.epochs, *second.epochs),
    )
    written = log.begin(both)
    log.submit_again(written)
    for store in "ab":
        log.fence(store)
    log.register("c")
    log.elect("c", unclean=True)
    assert (log.bounds(0), log.bounds(1)) == ([], [(0, 1)])
    assert log.decide_again(msgspec.structs.replace(written, in_doubt=True)).committed_in is not None


# ---- producers ----------------------------------------------------------------------------------------


def test_a_producer_goes_on_after_its_last_batch_that_is_left(log: ReplicatedLog) -> None:
    producer = log.producer()
    log.write("abc", 1, producer=span(producer, 0, 0, 0))
    log.write_to_leader("a", 1, producer=span(producer, 0, 1, 1))
    log.fence("a")
    assert [each.last_sequence for each in log.state.producers[producer].batches[place()]] == [0]
    with pytest.raises(OutOfOrderSequence, match="must go on at sequence 1"):
        log.write("bc", 1, producer=span(producer, 0, 2, 2))
    assert log.write("bc", 1, producer=span(producer, 0, 1, 1)).ranges[0].start == 6


def test_a_producer_that_lost_more_than_is_remembered_of_it_goes_on_where_the_log_does(log: ReplicatedLog) -> None:
    producer = log.producer()
    for at in range(3):
        log.write("abc", 1, producer=span(producer, 0, at, at))
    for at in range(3, 10):
        log.write_to_leader("a", 1, producer=span(producer, 0, at, at))
    log.fence("a")
    with pytest.raises(OutOfOrderSequence, match="must go on at sequence 3"):
        log.write("bc", 1, producer=span(producer, 0, 0, 0))
    log.write("bc", 1, producer=span(producer, 0, 3, 3))


def test_a_producer_of_which_nothing_is_left_begins_again(log: ReplicatedLog) -> None:
    producer = log.producer()
    log.write_to_leader("a", 1, producer=span(producer, 0, 0, 0))
    log.fence("a")
    assert dict(log.state.producers[producer].batches) == {}
    assert log.write("bc", 1, producer=span(producer, 0, 0, 0)).ranges[0].start == 5


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
    assert log.write("b", 1, application=Application("job", 7)).ranges[0].start == 6
    before = log.state.n
    log.write("b", 1, application=Application("job", 6))
    assert log.state.n == before  # it is written: its record is left


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
