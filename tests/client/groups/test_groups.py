"""Groups from processes: commits that survive, partitions shared, silent members evicted, orders of committing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.client.groups.member import GroupMember
from sparklog.core.commands import ClaimCoordination
from sparklog.core.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    InconsistentClusterId,
    InvalidInput,
    NonEmptyGroup,
    OffsetOutOfRange,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from sparklog.core.reading.positions import Position
from sparklog.core.types import LeaderEpoch, Offset, PartitionIndex, TopicId
from sparklog.wire.messages import MEMBER_HEARTBEAT
from tests.client.orders import RECORDS, cluster
from tests.coordinator.served_coordinator import served_coordinator
from tests.kit.hand_clock import HandClock

__all__ = ["cluster"]

PLACE = ("orders", 0)


def member(cluster: Cluster, member_id: str, clock: HandClock | None = None) -> GroupMember:
    """A member in a process of its own."""
    connection = sparklog.connect(cluster.connection.url).connection
    return GroupMember(connection, "billing", ["orders"], member_id=member_id, clock=clock or HandClock())


def test_metadata_that_no_encoding_has_is_refused(cluster: Cluster) -> None:
    with pytest.raises(InvalidInput, match=r"metadata: wanted text, found half of a surrogate pair, U\+D83D"):
        cluster.commit_offsets("billing", {("orders", 0): 4}, metadata="cut \ud83d")
    assert cluster.committed("billing") == {}


def test_what_is_committed_is_there_in_every_process_and_after_a_restart(cluster: Cluster) -> None:  # M: I-07
    cluster.commit_offsets("billing", {("orders", 0): 4, ("orders", 2): 6}, metadata="run 7")
    cluster.connection.follower.catch_up()
    cluster.connection.committer.snapshots.write()
    with sparklog.connect(cluster.connection.url) as other:
        found = other.committed("billing")
        assert {place: (row.offset, row.metadata) for place, row in found.items()} == {
            ("orders", 0): (4, "run 7"),
            ("orders", 2): (6, "run 7"),
        }
        described = other.describe_group("billing")
    assert [(each.topic, each.partition, each.end, each.lag) for each in described.partitions] == [
        ("orders", 0, 6, 2),
        ("orders", 2, 6, 0),
    ]
    assert (described.state, described.members, described.lag) == ("Empty", (), 2)
    assert cluster.committed("nobody") == {}
    assert cluster.groups() == ["billing"]


def test_bad_offsets_change_nothing(cluster: Cluster) -> None:
    chain_id = cluster.connection.follower.state.chain_id
    bad: list[tuple[type[Exception], dict[tuple[str, int], int | Position]]] = [
        (OffsetOutOfRange, {("orders", 1): 7}),
        (OffsetOutOfRange, {("orders", 1): -1}),
        (UnknownTopicOrPartition, {("orders", 3): 0}),
        (UnknownTopicOrPartition, {("nowhere", 0): 0}),
        (InvalidInput, {}),
        (InconsistentClusterId, {PLACE: Position("d" * 32, TopicId(1), PartitionIndex(0), Offset(1), LeaderEpoch(0))}),
        (InvalidInput, {PLACE: Position(chain_id, TopicId(9), PartitionIndex(0), Offset(1), LeaderEpoch(0))}),
    ]
    before = cluster.connection.follower.state.n
    for error, offsets in bad:
        with pytest.raises(error):
            cluster.commit_offsets("billing", {**({("orders", 2): 1} if offsets else {}), **offsets})
    assert cluster.connection.follower.state.n == before
    for refused in (cluster.describe_group, cluster.delete_group):
        with pytest.raises(GroupIdNotFound):
            refused("billing")


def test_a_position_in_a_topic_that_was_created_again_is_refused(cluster: Cluster) -> None:
    chain_id = cluster.connection.follower.state.chain_id
    known = Position(chain_id, TopicId(1), PartitionIndex(0), Offset(1), LeaderEpoch(0))
    cluster.commit_offsets("billing", {PLACE: known})
    cluster.delete_topic("orders")
    cluster.create_topic("orders")
    assert cluster.committed("billing") == {}
    with pytest.raises(InvalidInput, match="created again"):
        cluster.commit_offsets("billing", {PLACE: known})


def test_members_share_the_partitions_and_a_former_owner_can_not_commit(cluster: Cluster) -> None:  # M: I-07
    a = member(cluster, "a")
    assert a.assigned == (("orders", 0), ("orders", 1), ("orders", 2))
    b = member(cluster, "b")
    with pytest.raises(IllegalGeneration):
        a.commit({("orders", 2): 3})
    assert a.poll()
    assert (a.assigned, b.assigned) == ((("orders", 0), ("orders", 1)), (("orders", 2),))
    a.commit({("orders", 0): 3})
    b.commit({("orders", 2): 5})
    assert not a.poll()
    with pytest.raises(UnknownMemberId):
        cluster.commit_offsets("billing", {PLACE: 0})
    with pytest.raises(NonEmptyGroup):
        cluster.delete_group("billing")
    b.leave()
    b.leave()
    assert a.poll()
    assert a.assigned == (("orders", 0), ("orders", 1), ("orders", 2))
    assert a.starts() == {("orders", 0): 3, ("orders", 2): 5}
    a.leave()
    cluster.delete_group("billing")
    assert cluster.groups() == []


def test_a_silent_member_is_evicted_by_another_ones_clock_alone(cluster: Cluster) -> None:  # M: I-07
    clock = HandClock()
    with member(cluster, "a", clock) as a:
        b = member(cluster, "b")  # its clock stands still: it is never heard of again
        a.poll()
        clock.pause(30_000)
        assert not a.poll()
        clock.pause(30_000)
        assert a.poll()
        assert a.assigned == (("orders", 0), ("orders", 1), ("orders", 2))
        with pytest.raises(UnknownMemberId):
            b.commit({("orders", 2): 1})
        assert b.poll(), "it joins again"
        assert b.assigned == (("orders", 2),)
        b.commit({("orders", 2): 1})
        b.leave()


def test_a_member_that_only_polls_stays_one(cluster: Cluster) -> None:
    clock, other = HandClock(), HandClock()
    with member(cluster, "a", clock) as a, member(cluster, "b", other) as b:
        a.poll()
        for _ in range(40):
            clock.pause(10_000)
            other.pause(10_000)
            assert not b.poll()
            assert not a.poll()
        assert cluster.describe_group("billing").generation == 2


def test_a_commit_that_landed_is_a_repeat_also_after_its_member_subscribed_anew(cluster: Cluster) -> None:
    """Its first answer was lost; a refusal would say that others may have the partitions, and send the member back."""
    cluster.create_topic("more")
    with member(cluster, "a") as a:
        unanswered = a.prepared({PLACE: 3})
        unanswered()
        a.wants(["more", "orders"])
        unanswered()
        assert a.starts() == {PLACE: 3}


def test_added_partitions_are_shared_at_once(cluster: Cluster) -> None:
    with member(cluster, "a") as a:
        cluster.add_partitions("orders", 5)
        assert a.poll()
        assert len(a.assigned) == 5
        cluster.delete_topic("orders")
        assert a.poll()
        assert a.assigned == ()


def test_a_forked_child_neither_commits_nor_leaves_as_its_parent(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would count commits as its parent does, so of two with one number one would be taken for a repeat."""
    with member(cluster, "a") as a:
        under_way = a.prepared({PLACE: 5})
        before = entries(cluster)
        with monkeypatch.context() as in_child:
            in_child.setattr(os, "getpid", lambda: -1)
            for call in (a.poll, a.starts, lambda: a.commit({PLACE: 1}), lambda: a.wants(["orders"]), under_way):
                with pytest.raises(InvalidInput, match="this member of a group belongs to the process that was forked"):
                    call()
            a.leave()
        assert entries(cluster) == before
        a.commit({PLACE: 3})
        assert a.starts() == {PLACE: 3}


# ---- orders of processing and committing ---------------------------------------------------------------

Step = Callable[[GroupMember, list[str], list[str], int], None]


class Crash(Exception):
    """The process dies here."""


def commit_then_process(a: GroupMember, batch: list[str], done: list[str], end: int) -> None:
    a.commit({PLACE: end})
    done += batch[:1]
    raise Crash


def process_then_commit(a: GroupMember, batch: list[str], done: list[str], end: int) -> None:
    done += batch
    raise Crash


def whole(a: GroupMember, batch: list[str], done: list[str], end: int) -> None:
    done += batch
    a.commit({PLACE: end})


def consume(cluster: Cluster, steps: list[Step], done: list[str]) -> None:
    """Each step is a life of the consumer, which reads the next two records of the partition.

    A life that crashes leaves nothing but its membership behind, until the next one sees that it is silent.
    """
    for number, step in enumerate(steps):
        clock = HandClock()
        a = member(cluster, f"life-{number}", clock)
        a.poll()
        for _ in range(3):  # until it has outlived the one before it
            clock.pause(20_000)
            a.poll()
        assert PLACE in a.assigned
        start = a.starts().get(PLACE, 0)
        end = min(start + 2, RECORDS)
        table = cluster.read("orders", partition=0, start=start, end=end, columns=["value"])
        with contextlib.suppress(Crash):
            step(a, [value.decode() for value in table["value"].to_pylist()], done, end)
            a.leave()


@pytest.mark.parametrize(
    ("dying", "wanted"),
    [
        (commit_then_process, ["0-0", "0-1", "0-2", "0-4", "0-5"]),  # at most once: 0-3 is lost
        (process_then_commit, ["0-0", "0-1", "0-2", "0-3", "0-2", "0-3", "0-4", "0-5"]),  # at least once
    ],
)
def test_the_order_of_processing_and_committing_decides_what_a_crash_costs(  # M: I-07
    cluster: Cluster, dying: Step, wanted: list[str]
) -> None:
    done: list[str] = []
    consume(cluster, [whole, dying, whole, whole], done)
    assert done == wanted


# ---- through a coordinator ----------------------------------------------------------------------------


def test_members_through_a_coordinator_are_fenced_like_others(tmp_path: Path) -> None:
    init_cluster(str(tmp_path))
    with served_coordinator(str(tmp_path)) as coordinator, sparklog.connect(coordinator.address) as cluster:
        cluster.create_topic("orders", partitions=2)
        a, b = (member(cluster, name) for name in "ab")
        with pytest.raises(IllegalGeneration):
            a.commit({PLACE: 0})
        assert a.poll()
        a.commit({PLACE: 0})
        assert (a.assigned, b.assigned) == ((("orders", 0),), (("orders", 1),))
        with pytest.raises(NonEmptyGroup):
            cluster.delete_group("billing")
        a.leave()
        with pytest.raises(UnknownMemberId):
            a.commit({PLACE: 0})
        assert b.poll()
        assert b.starts() == {PLACE: 0}
        b.leave()


def test_members_send_heartbeats_to_the_coordinator_in_force_and_renew_themselves_without_one(
    tmp_path: Path,
) -> None:  # M: I-07
    """A heartbeat is no entry of the chain, and no member takes another one for silent because of that."""
    init_cluster(str(tmp_path))
    with served_coordinator(str(tmp_path)) as coordinator:
        cluster = sparklog.connect(str(tmp_path))
        cluster.create_topic("orders", partitions=2)
        clocks = HandClock(), HandClock()
        a, b = (member(cluster, name, clock) for name, clock in zip("ab", clocks, strict=True))
        assert a.poll()
        n = entries(cluster)
        for _ in range(20):
            for each, clock in zip((a, b), clocks, strict=True):
                clock.pause(10_000)
                assert not each.poll()
        assert entries(cluster) == n
    beats = coordinator.service.activity.requests[MEMBER_HEARTBEAT, 200]  # a reply is counted once it has been sent
    assert beats == 2 * 10, "one in 20 s: a session is 45 s, and they poll every 10 s"
    n = entries(cluster)
    for _ in range(8):  # the coordinator has resigned
        for each, clock in zip((a, b), clocks, strict=True):
            clock.pause(10_000)
            assert not each.poll()
    assert entries(cluster) == n + 2 * 4
    assert not a.poll()
    clocks[0].pause(45_000)
    assert a.poll(), "b is silent now"
    assert len(a.assigned) == 2


def test_a_member_that_can_not_reach_the_coordinator_goes_on(tmp_path: Path) -> None:
    """Nobody evicts it meanwhile: whoever coordinates next gives it a session."""
    init_cluster(str(tmp_path))
    clock = HandClock()
    with sparklog.connect(str(tmp_path)) as cluster:
        cluster.create_topic("orders", partitions=2)
        a = member(cluster, "a", clock)
        committer = cluster.connection.committer
        committer.commit_here(committer.begin(ClaimCoordination(1, "gone", "http://127.0.0.1:1")))
        for _ in range(10):
            clock.pause(20_000)
            assert not a.poll()
        assert len(a.assigned) == 2


def entries(cluster: Cluster) -> int:
    """The newest entry of the chain."""
    state = cluster.connection.newest_state()
    return state.n
