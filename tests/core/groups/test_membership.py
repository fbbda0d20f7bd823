"""Who gets which partitions (Kafka's RangeAssignor), and when a member is silent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.commands import LeaveGroup
from sparklog.core.coordination import NO_COORDINATOR, Coordinator
from sparklog.core.groups.membership import ConsumerGroup, Member, TopicSize, range_assignment
from sparklog.core.groups.sessions import MemberWatch, PeerWatch, renewal_interval_ms
from sparklog.core.types import EntryNumber, TopicId, TopicPartition


def numbers(shares: dict[str, tuple[TopicPartition, ...]]) -> dict[str, list[tuple[int, int]]]:
    return {member: [(key.topic_id, key.partition) for key in share] for member, share in shares.items()}


def test_the_example_of_kafkas_documentation() -> None:
    """C0 and C1, topics t0 and t1 of three partitions: C0 gets the first two of each."""
    topics = {"t0": TopicSize(TopicId(1), 3), "t1": TopicSize(TopicId(2), 3)}
    shares = range_assignment({"C1": ("t0", "t1"), "C0": ("t0", "t1")}, topics)
    assert numbers(shares) == {"C0": [(1, 0), (1, 1), (2, 0), (2, 1)], "C1": [(1, 2), (2, 2)]}


@given(
    wanted=st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from(["t", "u", "v", "w"]))),
    sizes=st.dictionaries(st.sampled_from(["t", "u", "v"]), st.integers(1, 12)),
)
def test_every_wanted_partition_is_one_members_and_shares_are_even(
    wanted: dict[str, set[str]], sizes: dict[str, int]
) -> None:
    topics = {name: TopicSize(TopicId(at), sizes[name]) for at, name in enumerate(sorted(sizes), 1)}
    shares = range_assignment({member: tuple(names) for member, names in wanted.items()}, topics)
    assert shares.keys() == wanted.keys()
    for name, topic in topics.items():
        readers = sorted(member for member, names in wanted.items() if name in names)
        given_out = {
            member: [key.partition for key in share if key.topic_id == topic.topic_id]
            for member, share in shares.items()
        }
        assert all(not given_out[member] for member in wanted if member not in readers)
        in_order = [partition for member in readers for partition in given_out[member]]
        assert in_order == (list(range(topic.partitions)) if readers else [])
        counts = [len(given_out[member]) for member in readers]
        assert counts == sorted(counts, reverse=True)
        assert not counts or counts[0] - counts[-1] <= 1


def group(**renewed: int) -> ConsumerGroup:
    members = (Member(name, ("t",), 10_000, EntryNumber(n)) for name, n in sorted(renewed.items()))
    return ConsumerGroup("g", 0, 1, tuple(members))


def test_a_member_is_silent_after_a_session_without_renewal() -> None:
    watch = MemberWatch()
    assert watch.silent(group(a=1, b=1), 0, 5) == []
    assert watch.silent(group(a=1, b=2), 9_000, 9_001) == []
    assert watch.silent(group(a=1, b=2), 10_004, 10_009) == []
    assert watch.silent(group(a=1, b=2), 10_005, 10_009) == [LeaveGroup("g", "a", EntryNumber(1))]
    assert watch.silent(group(a=3, b=2), 10_006, 10_009) == []


def test_time_in_which_nobody_looked_counts_for_nobody() -> None:
    """A process that slept asks for the state first: what it finds there is as new as what it saw before."""
    watch = MemberWatch()
    assert watch.silent(group(a=1), 0, 0) == []
    assert watch.silent(group(a=9), 60_000, 60_000) == []
    assert watch.silent(group(a=9), 69_999, 80_000) == [], "the state was asked for before the session was over"


def test_a_heartbeat_counts_as_a_renewal_does() -> None:
    watch = MemberWatch()
    watch.heard("a", 5)  # nobody has seen it yet
    assert watch.silent(group(a=1, b=1), 0, 5) == []
    watch.heard("a", 9_000)
    assert watch.silent(group(a=1, b=1), 10_005, 10_005) == [LeaveGroup("g", "b", EntryNumber(1))]
    assert watch.silent(group(a=1), 18_999, 18_999) == []
    assert watch.silent(group(a=1), 19_000, 19_000) == [LeaveGroup("g", "a", EntryNumber(1))]


def test_time_in_which_nobody_could_be_heard_counts_for_nobody() -> None:
    watch = MemberWatch()
    watch.silent(group(a=1), 0, 0)
    watch.heard("a", 4_000)
    watch.was_deaf(50_000, 60_000)
    assert watch.silent(group(a=1), 63_999, 63_999) == []
    assert watch.silent(group(a=1), 64_000, 64_000) == [LeaveGroup("g", "a", EntryNumber(1))]


def test_members_leave_evictions_to_the_coordinator_in_force() -> None:
    """It hears heartbeats of which the chain shows nothing; when it has ended, everybody has a session from then on."""
    leads = Coordinator(1, "c", "http://c:1", EntryNumber(5))
    ended = Coordinator(1, "c", "", EntryNumber(5))
    watch = PeerWatch("a")
    assert watch.silent(group(a=1, b=1), NO_COORDINATOR, 0, 0) == []
    assert watch.silent(group(a=1, b=1), leads, 30_000, 30_000) == []
    assert watch.silent(group(a=1, b=1), leads, 50_000, 50_000) == []
    assert watch.silent(group(a=1, b=1), ended, 60_000, 60_000) == []
    assert watch.silent(group(a=9, b=1), ended, 69_999, 69_999) == []
    assert watch.silent(group(a=9, b=1), ended, 70_000, 70_000) == [LeaveGroup("g", "b", EntryNumber(1))]


def test_a_coordinator_that_came_and_went_unseen_counts_as_well() -> None:
    watch = PeerWatch("a")
    assert watch.silent(group(a=1, b=1), NO_COORDINATOR, 0, 0) == []
    assert watch.silent(group(a=1, b=1), Coordinator(1, "c", "", EntryNumber(5)), 50_000, 50_000) == []


def test_a_member_does_not_evict_itself() -> None:
    watch = PeerWatch("a")
    for now_ms in (0, 50_000):
        assert watch.silent(group(a=1), NO_COORDINATOR, now_ms, now_ms) == []


def test_a_member_is_renewed_three_times_in_a_session() -> None:
    assert renewal_interval_ms(45_000) == 15_000
