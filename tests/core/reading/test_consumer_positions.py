"""Where a consumer goes on: what a rebalance leaves it, where it begins, resets, turns, and what there is to commit."""

from __future__ import annotations

import pytest

from sparklog.core.commands import AddPartitions, CreateTopic, DeleteTopic, MoveLogStart
from sparklog.core.errors import DataLoss, OffsetOutOfRange, UnknownTopicOrPartition
from sparklog.core.groups.membership import CommittedOffset, GroupGeneration
from sparklog.core.reading.consumer_positions import AutoOffsetReset, ConsumerPositions, ShareChange
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange, PartitionIndex, TopicPartition
from tests.core import replicated_log
from tests.core.decided_log import TOPIC, A, DecidedLog, place
from tests.core.replicated_log import ReplicatedLog

P0, P1, P2 = place(0), place(1), place(2)


def generation(number: int, group: int = 0) -> GroupGeneration:
    return GroupGeneration(group, number)


def share(*keys: TopicPartition) -> dict[TopicPartition, str]:
    return dict.fromkeys(keys, "orders")


def committed(offset: int) -> CommittedOffset:
    return CommittedOffset(Offset(offset), LeaderEpoch(0), "", 1)


def take(
    positions: ConsumerPositions, keys: dict[TopicPartition, str], now: GroupGeneration | None = None
) -> ShareChange:
    change = positions.change(keys, now)
    assert change is not None
    positions.take(change)
    return change


def offset(positions: ConsumerPositions, key: TopicPartition) -> int | None:
    found = positions.position(key)
    return None if found is None else found.offset


def unread(positions: ConsumerPositions, log: DecidedLog | ReplicatedLog) -> list[tuple[int, int, int]]:
    """(partition, start, end) of what can be read, in the order of turns."""
    found = positions.unread(log.state)
    return [(each.key.partition, each.offsets.start, each.offsets.end) for each in found]


@pytest.fixture
def log() -> DecidedLog:
    """orders-0 has [2, 6), orders-1 has [0, 3)."""
    made = DecidedLog()
    made.append(2, 0)
    made.append(4, 0)
    made.append(3, 1)
    made.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(2)))
    return made


def consumer(log: DecidedLog | ReplicatedLog, reset: str = "earliest", *, fails: bool = True) -> ConsumerPositions:
    sizes = {topic.topic_id: topic.partitions for topic in log.state.topics.values()}
    return ConsumerPositions(log.state.chain_id, AutoOffsetReset(reset), sizes, fail_on_data_loss=fails)


def reading(log: DecidedLog, reset: str = "earliest") -> ConsumerPositions:
    """It reads both partitions, without a group."""
    positions = consumer(log, reset)
    take(positions, share(P0, P1))
    positions.begin(log.state, {})
    return positions


# ---- its share ----------------------------------------------------------------------------------------


def test_what_stays_in_the_next_generation_goes_on_where_it_was(log: DecidedLog) -> None:
    positions = consumer(log)
    assert take(positions, share(P0, P1), generation(3)).assigned == (P0, P1)
    positions.begin(log.state, {})
    positions.has_read(P0, Offset(5), LeaderEpoch(0))
    change = take(positions, share(P0), generation(4))
    assert (change.revoked, change.assigned) == ((P1,), ())
    assert offset(positions, P0) == 5
    assert positions.change(share(P0), generation(4)) is None


@pytest.mark.parametrize("later", [generation(5), generation(2), generation(4, group=1), None])
def test_what_others_may_have_read_in_between_begins_again_from_what_is_committed(
    log: DecidedLog, later: GroupGeneration | None
) -> None:
    positions = consumer(log)
    take(positions, share(P0, P1), generation(3))
    positions.begin(log.state, {})
    positions.has_read(P0, Offset(3), LeaderEpoch(0))
    if later is None:  # evicted, and found no share
        take(positions, {}, generation(0))
        later = generation(5)
    change = take(positions, share(P0), later)
    assert change.assigned == (P0,)
    assert P0 not in positions.to_commit()
    positions.begin(log.state, {P0: committed(6)})
    assert offset(positions, P0) == 6


def test_without_a_group_what_stays_goes_on_where_it_was(log: DecidedLog) -> None:
    positions = reading(log)
    positions.has_read(P1, Offset(1), LeaderEpoch(0))
    log.submit(AddPartitions(TOPIC, 3, ((A,),)))
    assert take(positions, share(P0, P1, P2)).assigned == (P2,)
    assert offset(positions, P1) == 1


# ---- where it begins ----------------------------------------------------------------------------------


def test_it_begins_where_the_group_has_committed_else_as_it_is_told(log: DecidedLog) -> None:
    for reset, wanted in (("earliest", 2), ("latest", 6)):
        positions = consumer(log, reset)
        take(positions, share(P0, P1))
        at_end = positions.begin(log.state, {P1: committed(1)})
        assert (offset(positions, P0), offset(positions, P1)) == (wanted, 1)
        assert list(at_end) == ([P0] if reset == "latest" else [])
        assert not positions.is_undecided
    positions = consumer(log, "none")
    take(positions, share(P0))
    with pytest.raises(OffsetOutOfRange, match="orders-0: found no committed offset, and auto_offset_reset=none"):
        positions.begin(log.state, {})
    assert positions.is_undecided


def test_partitions_that_came_after_it_subscribed_begin_at_their_start(log: DecidedLog) -> None:
    """Or nobody would read what was written there before it noticed them."""
    positions = reading(log, "latest")
    log.submit(AddPartitions(TOPIC, 3, ((A,),)))
    log.append(4, 2)
    take(positions, share(P0, P1, P2))
    assert list(positions.begin(log.state, {})) == [P2]
    assert (offset(positions, P0), offset(positions, P2)) == (6, 0)


def test_a_seek_goes_to_all_of_the_offsets_or_to_none(log: DecidedLog) -> None:
    positions = reading(log)
    with pytest.raises(OffsetOutOfRange, match=r"orders-1: wanted to continue at offset 4, the log has \[0, 3\)"):
        positions.seek(log.state, {P0: lambda partition: 4, P1: lambda partition: 4})
    with pytest.raises(OffsetOutOfRange):
        positions.seek(log.state, {P0: lambda partition: 1})
    assert (offset(positions, P0), offset(positions, P1)) == (2, 0)
    positions.seek(log.state, {P0: lambda partition: partition.high_watermark, P1: lambda partition: 2})
    assert (offset(positions, P0), offset(positions, P1)) == (6, 2)
    log.submit(DeleteTopic(TOPIC))
    with pytest.raises(UnknownTopicOrPartition):
        positions.seek(log.state, {P0: lambda partition: 0})


# ---- what comes next ----------------------------------------------------------------------------------


def test_who_was_read_longest_ago_comes_first(log: DecidedLog) -> None:
    positions = reading(log)
    assert unread(positions, log) == [(0, 2, 6), (1, 0, 3)]
    positions.has_read(P0, Offset(4), LeaderEpoch(0))
    positions.had_turn([P0])
    assert unread(positions, log) == [(1, 0, 3), (0, 4, 6)]
    positions.has_read(P1, Offset(3), LeaderEpoch(0))
    assert unread(positions, log) == [(0, 4, 6)]


def test_of_a_paused_partition_nothing_is_read_or_awaited(log: DecidedLog) -> None:
    positions = reading(log)
    positions.pause(P0)
    assert (unread(positions, log), positions.paused) == ([(1, 0, 3)], (P0,))
    assert [each.partition for each in positions.awaited()] == [1]
    positions.pause(P0, paused=False)
    assert len(unread(positions, log)) == len(positions.awaited()) == 2


def test_a_partition_that_is_gone_is_left_out(log: DecidedLog) -> None:
    positions = reading(log)
    log.submit(DeleteTopic(TOPIC))
    log.submit(CreateTopic("orders", assignment=((A,),)))
    assert unread(positions, log) == []


def test_a_position_that_is_not_in_the_log_is_reset(log: DecidedLog) -> None:
    for reset, wanted in (("earliest", [(0, 5, 6)]), ("latest", [])):
        positions = reading(log, "earliest")
        positions = consumer(log, reset)
        take(positions, share(P0))
        positions.begin(log.state, {P0: committed(4)})
        if reset == "earliest":
            log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(5)))
        assert unread(positions, log) == wanted
        assert "orders-0: the position is 4, the log has [5, 6)" in positions.warnings[0]
    positions = consumer(log, "none")
    take(positions, share(P0))
    positions.begin(log.state, {P0: committed(4)})
    with pytest.raises(OffsetOutOfRange, match="auto_offset_reset=none"):
        unread(positions, log)


def test_records_that_a_reset_leaves_out_do_not_count_as_read(log: DecidedLog) -> None:
    """In a transaction, records that were returned and not committed are an error; those were not returned."""
    positions = reading(log)
    log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(5)))
    assert unread(positions, log) == [(0, 5, 6), (1, 0, 3)]
    assert not positions.is_ahead(P0)
    positions.has_read(P0, Offset(6), LeaderEpoch(0))
    positions.go_back()
    assert offset(positions, P0) == 5


def test_records_returned_before_a_reset_still_count_as_read(log: DecidedLog) -> None:
    positions = reading(log)
    positions.has_read(P0, Offset(4), LeaderEpoch(0))
    log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(5)))
    assert unread(positions, log) == [(0, 5, 6), (1, 0, 3)]
    assert positions.is_ahead(P0)


def test_what_is_behind_a_piece_is_left_of_it(log: DecidedLog) -> None:
    (first, _) = reading(log).unread(log.state)
    assert first.after(Offset(4)).offsets == OffsetRange(Offset(4), Offset(6))
    assert first.after(Offset(6)).offsets == OffsetRange(Offset(6), Offset(6))


# M: L-05
def test_what_an_unclean_election_gave_up_is_a_loss_or_is_read_again() -> None:
    log = ReplicatedLog()
    log.write("abc", 4)
    for store in "bc":
        log.fence(store)
    log.write("a", 3)
    key = TopicPartition(replicated_log.TOPIC, PartitionIndex(0))
    for fails in (True, False):
        positions = consumer(log, fails=fails)
        take(positions, share(key))
        positions.begin(log.state, {key: committed(6)})
        if fails:
            strict = positions
    log.fence("a")
    log.register("b")
    log.elect(unclean=True)
    log.write("b", 2)
    with pytest.raises(DataLoss, match="has read up to offset 6, and an unclean election gave up records from 4 on"):
        unread(strict, log)
    assert unread(positions, log) == [(0, 4, 9)]
    assert positions.warnings
    assert offset(positions, key) == 4
    assert not positions.is_ahead(key)
    positions.has_read(key, Offset(5), LeaderEpoch(1))
    assert positions.is_ahead(key)  # although the commit before the loss was at 6


# ---- what there is to commit --------------------------------------------------------------------------


def test_only_what_has_moved_is_committed(log: DecidedLog) -> None:
    positions = consumer(log)
    take(positions, share(P0, P1))
    positions.begin(log.state, {P0: committed(3), P1: committed(2)})
    assert positions.to_commit() == {}
    positions.has_read(P0, Offset(4), LeaderEpoch(0))
    assert {key: each.offset for key, each in positions.to_commit().items()} == {P0: 4}
    positions.committed({P0: 4, P2: 9})
    assert positions.to_commit() == {}
