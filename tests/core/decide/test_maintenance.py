"""Swaps, log starts, confirmed deletions and FLOOR: what is refused, and that the guards are needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from sparklog.core.commands import (
    AlterTopic,
    CommitOffsets,
    ConfirmDeleted,
    DeleteTopic,
    MoveLogStart,
    RaiseFloor,
    RewrittenSlice,
    Swap,
)
from sparklog.core.decide import maintenance
from sparklog.core.errors import (
    InvalidInput,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    PolicyViolation,
    SparklogError,
    StaleBrokerEpoch,
    SwapRefused,
    UnknownTopicOrPartition,
)
from sparklog.core.groups.membership import OffsetToCommit
from sparklog.core.records import FloorRaised, LogStartMoved, ObjectsDeleted, SlicesSwapped
from sparklog.core.tables import copy_on_write
from sparklog.core.types import (
    EntryNumber,
    Holder,
    LeaderEpoch,
    ObjectNumber,
    Offset,
    OffsetRange,
    PartitionIndex,
    TimestampSource,
    TopicId,
)
from tests.core.decided_log import TOPIC, A, B, DecidedLog, span
from tests.core.replicated_log import ReplicatedLog
from tests.core.replication.example_partition import stores

DAY_MS = 86_400_000


@pytest.fixture
def log() -> DecidedLog:
    """Three slices in partition 0: [0, 20), [20, 30), [30, 50)."""
    made = DecidedLog()
    for records in (20, 10, 20):
        made.append(records)
    return made


def move_to(offset: int) -> MoveLogStart:
    return MoveLogStart(TOPIC, PartitionIndex(0), Offset(offset))


# ---- swaps ----------------------------------------------------------------------------------------


# M: S-03
def test_whole_slices_are_replaced_and_keep_their_offsets(log: DecidedLog) -> None:
    swap = log.swap_of(0, 30)
    (record,) = log.decide(swap).records
    delay_ms = log.state.topic_config(log.state.topics[TOPIC]).rewrite_delete_delay_ms
    assert isinstance(record, SlicesSwapped)
    assert [(each.start, each.end, each.object_number) for each in record.slices] == [(0, 30, 3)]
    assert record.delete_after_ms == log.now_ms + delay_ms
    log.submit(swap)
    assert log.bounds() == [(0, 30), (30, 50)]
    assert {each.number for each in log.state.retired} == {0, 1}
    assert log.partition().replication.version == 1


def compacted_meanwhile(log: DecidedLog) -> Swap:
    """A slow rewrite of [0, 30); meanwhile others left only 10 of its records, in slices with the same bounds."""
    log.submit(AlterTopic(TOPIC, {"cleanup.policy": "compact"}))
    slow = log.swap_of(0, 30)
    log.submit(log.swap_of(0, 30, records=10))
    return slow


def test_a_swap_of_slices_that_were_replaced_meanwhile_is_refused(log: DecidedLog) -> None:  # M: C-05
    slow = compacted_meanwhile(log)
    with pytest.raises(SwapRefused, match=r"orders-0 \[0, 30\) are not those that the rewrite read: plan it again"):
        log.submit(slow)
    assert [each.records for each in log.slices()] == [10, 20]


# M: C-05
def test_without_digest_and_count_a_slow_rewrite_would_bring_removed_records_back(
    log: DecidedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = compacted_meanwhile(log)
    monkeypatch.setattr(maintenance, "digest", lambda slices: slow.digest)
    with pytest.raises(PolicyViolation, match=r"orders-0 \[0, 30\) keeps 10 records, or fewer .* found 30"):
        log.submit(slow)
    monkeypatch.setattr(maintenance, "_check_count", lambda command, replaced, config, place: None)
    log.submit(slow)
    assert [each.records for each in log.slices()] == [30, 20]


# M: C-05
def test_a_rewrite_keeps_every_record_unless_the_topic_is_compacted_now(log: DecidedLog) -> None:
    fewer = log.swap_of(0, 30, records=29)
    with pytest.raises(PolicyViolation, match=r"keeps 30 records, or fewer if cleanup\.policy of the topic is compact"):
        log.submit(fewer)
    log.submit(AlterTopic(TOPIC, {"cleanup.policy": "compact,delete"}))
    log.submit(fewer)
    assert [each.records for each in log.slices()] == [29, 20]


# M: C-05
def test_without_the_look_for_whole_slices_a_rewrite_would_tear_the_log(
    log: DecidedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Digest and bounds are two guards: either one alone keeps a slow rewrite out of a slice that grew beyond it."""
    slow = log.swap_of(0, 30)
    log.submit(log.swap_of(0, 50))
    monkeypatch.setattr(maintenance, "digest", lambda slices: slow.digest)
    with pytest.raises(InvalidInput, match=r"whole slices: wanted \[0, 30\), found \[0, 50\)"):
        log.submit(slow)
    monkeypatch.setattr(maintenance, "_check_rewritten", lambda command, replaced, partition: None)
    monkeypatch.setattr(maintenance, "_check_count", lambda command, replaced, config, place: None)
    with pytest.raises(AssertionError, match="7: slices"):
        log.submit(slow)


def test_a_swap_below_the_log_start_or_above_the_high_watermark_is_refused(log: DecidedLog) -> None:
    swap = log.swap_of(0, 30)
    above = msgspec.structs.replace(swap, end=Offset(60))
    with pytest.raises(SwapRefused, match="above its high watermark 50"):
        log.decide(above)
    log.submit(move_to(5))
    with pytest.raises(SwapRefused, match="its log start is now 5"):
        log.decide(swap)


def rewritten(swap: Swap, **changes: Any) -> Swap:
    """The swap with its one slice changed; `new_…`: a field of the `NewSlice` in it."""
    (first,) = swap.slices
    new = {name.removeprefix("new_"): value for name, value in changes.items() if name.startswith("new_")}
    others = {name: value for name, value in changes.items() if not name.startswith("new_")}
    changed = msgspec.structs.replace(first, new=msgspec.structs.replace(first.new, **new), **others)
    return msgspec.structs.replace(swap, slices=(changed,))


def held_by(swap: Swap, *holders: Holder) -> Swap:
    (first,) = swap.objects
    return msgspec.structs.replace(swap, objects=(msgspec.structs.replace(first, holders=holders),))


def twice(swap: Swap, first: RewrittenSlice, second: RewrittenSlice) -> Swap:
    return msgspec.structs.replace(swap, slices=(first, second))


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (lambda swap: rewritten(swap, start=Offset(1)), InvalidInput, "without a gap"),
        (lambda swap: rewritten(swap, end=Offset(29), new_records=29), InvalidInput, "without a gap"),
        (lambda swap: rewritten(swap, end=Offset(31)), InvalidInput, "without a gap"),
        (lambda swap: rewritten(swap, end=Offset(0)), InvalidInput, "without a gap"),
        (lambda swap: rewritten(swap, new_records=31), InvalidInput, "without a gap"),
        (lambda swap: twice(swap, swap.slices[0], swap.slices[0]), InvalidInput, "without a gap"),
        (lambda swap: rewritten(swap, new_partition=PartitionIndex(1)), InvalidInput, "inside its object"),
        (lambda swap: rewritten(swap, new_topic_id=TopicId(2)), InvalidInput, "inside its object"),
        (lambda swap: rewritten(swap, leader_epoch=1), InvalidInput, "belongs to the partition of the rewrite"),
        (lambda swap: rewritten(swap, leader_epoch=-1), InvalidInput, "belongs to the partition of the rewrite"),
        (lambda swap: rewritten(swap, append_time_ms=1 << 53), InvalidInput, "belongs to the partition of the rewrite"),
        (lambda swap: rewritten(swap, append_time_ms=-1), InvalidInput, "belongs to the partition of the rewrite"),
        (lambda swap: msgspec.structs.replace(swap, slices=()), InvalidInput, "slices name only 0"),
        (lambda swap: msgspec.structs.replace(swap, objects=(), slices=()), InvalidInput, "without a gap"),
        (lambda swap: held_by(swap, Holder(A, 7)), StaleBrokerEpoch, "names store a as 7, the store is registered as"),
        (lambda swap: held_by(swap, Holder(A, 0), Holder("c", 2)), StaleBrokerEpoch, "not registered"),
        (lambda swap: held_by(swap, Holder(B, 1)), NotLeaderOrFollower, "on the leader's store a, and it is not"),
        (
            lambda swap: msgspec.structs.replace(swap, topic_id=TopicId(9)),
            UnknownTopicOrPartition,
            "topic id 9 is not in the cluster",
        ),
        (
            lambda swap: msgspec.structs.replace(swap, partition=PartitionIndex(2)),
            UnknownTopicOrPartition,
            "wanted partition 2, topic orders has partitions 0 to 1",
        ),
    ],
)
def test_a_rewrite_that_does_not_fit_is_refused(
    log: DecidedLog, change: Callable[[Swap], Swap], kind: type[SparklogError], text: str
) -> None:
    with pytest.raises(kind, match=text):
        log.decide(change(log.swap_of(0, 30)))


def test_below_min_isr_a_rewrite_on_the_leader_alone_is_refused_and_an_eligible_replica_can_still_lead() -> None:
    """A simulation lost records here: c lost its standing by a roll on b alone, and then b lost an object."""
    log = ReplicatedLog()
    log.configure(min_insync_replicas="2")
    log.write("abc", 4)
    log.fence("a")
    log.fence("c")
    before = log.replicas()
    assert before == "b:b+c a4 b4 c4 hw4"
    with pytest.raises(NotEnoughReplicas, match="orders-0: a rewrite needs to be on 2 stores in sync"):
        log.submit(rewritten_on(log, "b"))
    assert log.replicas() == before
    log.lose("b", (0, 0))
    log.register("c")
    assert log.replicas() == "c:c a4 b0 c4 hw4"


def test_below_min_isr_a_rewrite_is_applied_if_every_replica_that_may_lead_has_it() -> None:
    log = ReplicatedLog()
    log.configure(min_insync_replicas="2")
    log.write("abc", 4)
    log.fence("a")
    log.fence("c")
    log.register("c")
    log.lose("a", (0, 2))
    assert log.replicas() == "b:b+c a0 b4 c4 hw4", "half a slice does not count"
    log.submit(rewritten_on(log, "bc"))
    assert log.replicas() == "b:b+c a0 b4 c4 hw4"


def rewritten_on(log: ReplicatedLog, on: str) -> Swap:
    """The roll of the whole log, held by these stores."""
    holders = [Holder(each, log.registration(each)) for each in stores(*on)]
    return held_by(log.swap_of(0, log.value().high_watermark), *holders)


def test_a_rewrite_holds_at_most_a_record_per_offset_wherever_it_starts(log: DecidedLog) -> None:
    swap = log.swap_of(20, 50)
    assert log.decide(swap).records
    with pytest.raises(InvalidInput, match="without a gap"):
        log.decide(rewritten(swap, new_records=31))


@pytest.mark.parametrize("append_time_ms", [0, (1 << 53) - 1])
def test_any_append_time_that_an_entry_may_have_is_kept(log: DecidedLog, append_time_ms: int) -> None:
    log.submit(rewritten(log.swap_of(0, 30), append_time_ms=append_time_ms))
    assert next(iter(log.slices())).append_time_ms == append_time_ms


# M: S-03
def test_a_rewrite_with_a_gap_that_it_does_not_name_is_refused(log: DecidedLog) -> None:
    """Lost records are named exactly: neither more nor less."""
    swap = log.swap_of(20, 30)
    gone = msgspec.structs.replace(swap, objects=(), slices=())
    whole, part = OffsetRange(Offset(20), Offset(30)), OffsetRange(Offset(20), Offset(25))
    for wrong in (
        gone,
        msgspec.structs.replace(gone, lost=(part,)),
        msgspec.structs.replace(swap, lost=(whole,)),
        msgspec.structs.replace(gone, lost=(whole, whole)),
    ):
        with pytest.raises(InvalidInput, match="without a gap, except for lost records"):
            log.decide(wrong)
    log.submit(msgspec.structs.replace(gone, lost=(whole,)))
    assert log.partition().replication.lost == (whole,)
    assert log.bounds() == [(0, 20), (30, 50)]
    log.submit(move_to(30))
    assert log.partition().replication.lost == ()


def test_a_rewrite_into_several_segments_gives_each_a_number(log: DecidedLog) -> None:
    whole, second = log.swap_of(0, 30), log.uploaded(300, sealed=(0, 12))
    (only,) = whole.slices
    log.submit(
        msgspec.structs.replace(
            whole,
            objects=(*whole.objects, second),
            slices=(
                msgspec.structs.replace(only, end=Offset(12), new=msgspec.structs.replace(only.new, records=12)),
                msgspec.structs.replace(
                    only, start=Offset(12), new=msgspec.structs.replace(only.new, records=18, object_index=1)
                ),
            ),
        )
    )
    assert log.bounds() == [(0, 12), (12, 30), (30, 50)]
    assert [each.object_number for each in log.slices()] == [3, 4, 2]
    assert [log.state.objects.get(ObjectNumber(at)) for at in (3, 4)] == [*whole.objects, second]


def test_an_object_of_another_partition_can_not_be_sealed_in(log: DecidedLog) -> None:
    swap = log.swap_of(0, 30)
    elsewhere = log.uploaded(300, sealed=(1, 0))
    with pytest.raises(InvalidInput, match="inside its object"):
        log.decide(msgspec.structs.replace(swap, objects=(elsewhere,)))


# M: C-05
def test_a_rewrite_of_a_part_of_a_slice_is_refused_though_its_digest_fits(log: DecidedLog) -> None:
    with pytest.raises(InvalidInput, match=r"wanted \[5, 30\), found \[0, 30\)"):
        log.decide(log.swap_of(5, 30))


@pytest.mark.parametrize(("start", "end"), [(0, 0), (30, 20), (50, 0)])
def test_a_rewrite_of_nothing_is_refused(log: DecidedLog, start: int, end: int) -> None:
    swap = msgspec.structs.replace(log.swap_of(0, 30), start=Offset(start), end=Offset(end))
    with pytest.raises(InvalidInput, match=rf"covers at least one offset, found \[{start}, {end}\)"):
        log.decide(swap)


# M: I-02
def test_a_rewrite_keeps_epoch_append_time_source_and_producer_of_its_slices(log: DecidedLog) -> None:
    producer = log.producer()
    log.append(4, 1, producer=span(producer, 0, 0, 3))
    swap = log.swap_of(0, 4, partition=1)
    swap = rewritten(
        swap,
        append_time_ms=77,
        timestamp_source=TimestampSource.APPEND_TIME_IN_COLUMN,
        new_producer=span(producer, 0, 0, 3),
    )
    log.submit(swap)
    (found,) = log.slices(1)
    assert (found.append_time_ms, found.timestamp_source) == (77, TimestampSource.APPEND_TIME_IN_COLUMN)
    assert found.producer == span(producer, 0, 0, 3)


# ---- log start ------------------------------------------------------------------------------------


# M: R-03 R-05
def test_the_log_start_rises_up_to_the_high_watermark_and_never_falls(log: DecidedLog) -> None:
    with pytest.raises(OffsetOutOfRange, match="log start of orders-0 can rise to its high watermark 50, wanted 51"):
        log.decide(move_to(51))
    assert log.decide(move_to(25)).records == (LogStartMoved(TOPIC, PartitionIndex(0), Offset(25), 1_000 + 60_000),)
    log.submit(move_to(25))
    assert log.bounds() == [(20, 30), (30, 50)]
    assert log.decide(move_to(25)).records == log.decide(move_to(24)).records == ()
    log.submit(move_to(50))
    assert (log.bounds(), log.partition().size_bytes, {each.number for each in log.state.retired}) == ([], 0, {0, 1, 2})


# M: R-05
def test_records_of_a_topic_that_is_only_compacted_are_not_deleted_by_offset(log: DecidedLog) -> None:
    log.submit(AlterTopic(TOPIC, {"cleanup.policy": "compact"}))
    for offset in (0, 25, 51):  # refused as such, wherever the offset is
        with pytest.raises(PolicyViolation, match="records of orders-0 can't be deleted by offset"):
            log.decide(move_to(offset))
    log.submit(AlterTopic(TOPIC, {"cleanup.policy": "compact,delete"}))
    assert len(log.decide(move_to(25)).records) == 1


def test_the_log_start_of_no_partition_is_refused(log: DecidedLog) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="wanted partition 3, topic orders has partitions 0 to 1"):
        log.decide(MoveLogStart(TOPIC, PartitionIndex(3), Offset(0)))


# ---- confirmed deletions --------------------------------------------------------------------------


def test_only_retired_objects_can_be_confirmed_as_deleted(log: DecidedLog) -> None:
    log.submit(move_to(20))
    with pytest.raises(InvalidInput, match=r"objects \[1, 2\] are not retired: slices name them"):
        log.decide(ConfirmDeleted((ObjectNumber(0), ObjectNumber(1), ObjectNumber(2))))
    both = ConfirmDeleted((ObjectNumber(0), ObjectNumber(99)))  # 99: never named, or confirmed long ago
    assert log.decide(both).records == (ObjectsDeleted((ObjectNumber(0),)),)
    log.submit(both)
    assert log.decide(both).records == ()
    assert ObjectNumber(0) not in log.state.retired


def test_objects_of_a_deleted_topic_can_be_confirmed(log: DecidedLog) -> None:
    log.submit(DeleteTopic(TOPIC))
    log.submit(ConfirmDeleted(tuple(each.number for each in log.state.retired)))
    assert (len(log.state.objects), len(log.state.retired)) == (0, 0)


# ---- FLOOR ----------------------------------------------------------------------------------------


def test_floor_rises_to_the_end_of_the_chain_and_never_falls(log: DecidedLog) -> None:
    end = log.state.n + 1
    with pytest.raises(InvalidInput, match=f"FLOOR can rise to the end of the chain, {end}, wanted {end + 1}"):
        log.decide(RaiseFloor(EntryNumber(end + 1)))
    log.submit(RaiseFloor(EntryNumber(3)))
    assert log.decide(RaiseFloor(EntryNumber(3))).records == log.decide(RaiseFloor(EntryNumber(2))).records == ()
    assert log.state.floor == 3


def test_the_order_in_which_silent_producers_are_forgotten_is_that_of_their_ids(
    log: DecidedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_on_write, "SHARD_KEYS", 2)
    silent = tuple(log.producer() for _ in range(6))
    assert tuple(log.state.producers) != silent  # a map has no order
    log.now_ms += DAY_MS + 1
    assert log.decide(RaiseFloor(EntryNumber(0), shown_ms=log.now_ms)).records == (FloorRaised(EntryNumber(0), silent),)


# M: I-02
def test_producers_that_were_silent_are_forgotten_though_floor_stays(log: DecidedLog) -> None:
    silent, busy = log.producer(), log.producer()
    log.now_ms += DAY_MS
    log.append(1, producer=span(busy, 0, 0, 0))
    assert log.decide(RaiseFloor(EntryNumber(0), shown_ms=log.now_ms)).records == ()  # silent for exactly the limit
    log.now_ms += 1
    due = log.decide(RaiseFloor(EntryNumber(0), shown_ms=log.now_ms))
    assert due.records == (FloorRaised(EntryNumber(0), (silent,)),)
    log.submit(RaiseFloor(EntryNumber(0), shown_ms=log.now_ms))
    assert set(log.state.producers) == {busy}


def test_a_run_that_asks_for_less_than_floor_forgets_producers_and_leaves_floor(log: DecidedLog) -> None:
    """Two vacuums, one slower than the other: below FLOOR objects may be deleted already."""
    silent = log.producer()
    log.submit(RaiseFloor(EntryNumber(3), shown_ms=log.now_ms))
    log.now_ms += DAY_MS + 1
    due = log.decide(RaiseFloor(EntryNumber(2), shown_ms=log.now_ms))
    assert due.records == (FloorRaised(EntryNumber(3), (silent,)),)


# M: I-02, I-07
@pytest.mark.parametrize("wrong", ["author", "coordinator"])
def test_one_clock_that_is_days_ahead_makes_nothing_expire(log: DecidedLog, wrong: str) -> None:
    """The author names the time that recent entries show; the entry has the time of whoever commits it."""
    log.producer()
    offset = OffsetToCommit(TOPIC, PartitionIndex(0), Offset(0), LeaderEpoch(0))
    log.submit(CommitOffsets(log.state.chain_id, "billing", (offset,)))
    right_ms, ahead_ms = log.now_ms, log.now_ms + 8 * DAY_MS
    log.now_ms = ahead_ms if wrong == "coordinator" else right_ms
    shown_ms = ahead_ms if wrong == "author" else right_ms
    assert log.decide(RaiseFloor(EntryNumber(0), shown_ms=shown_ms)).records == ()
    log.now_ms = ahead_ms
    assert log.decide(RaiseFloor(EntryNumber(0))).records == (), "an author that names no time lets nothing expire"
    assert len(log.decide(RaiseFloor(EntryNumber(0), shown_ms=ahead_ms)).records) == 2


def test_a_delay_begins_no_earlier_than_the_entry_in_front(log: DecidedLog) -> None:
    """An author whose clock is slow: readers that another one has just let plan were promised the whole delay."""
    log.append(2)
    delay_ms = log.state.topic_config(log.state.topics[TOPIC]).file_delete_delay_ms
    front_ms = log.state.time_ms
    log.now_ms = front_ms - 120_000
    (record,) = log.decide(MoveLogStart(TOPIC, PartitionIndex(0), Offset(1))).records
    assert record.delete_after_ms == front_ms + delay_ms
