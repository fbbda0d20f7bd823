"""Consumer groups in this process: a member that keeps itself alive, commits without one, and what a group has read.

    member = GroupMember(connection, "billing", ["orders"])     joins
    while …:
        member.poll()                   stay a member; True: the group has another generation, so read `assigned` again
        (read `member.assigned` from `member.starts()` on, and process)
        member.commit({("orders", 0): 120})
    member.leave()

No coordinator is needed: members see each other in the chain. With one, the same commands go through it, and it hears
heartbeats instead, which cost no entry of the chain (`core/group_sessions.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

import msgspec

from sparklog.client.connection import Connection
from sparklog.core.commands import Command, CommitOffsets, JoinGroup, LeaveGroup
from sparklog.core.coordinators import Coordinator
from sparklog.core.decide.groups import existing_group
from sparklog.core.errors import (
    GroupIdNotFound,
    InconsistentClusterId,
    InvalidInput,
    SparklogError,
    UnknownMemberId,
)
from sparklog.core.group_sessions import PeerWatch, renewal_interval_ms
from sparklog.core.group_status import GroupPartition, group_partitions
from sparklog.core.groups import CommittedOffset, Member, OffsetToCommit
from sparklog.core.plan import partition_of, topic_of
from sparklog.core.positions import Position
from sparklog.core.state import ClusterState
from sparklog.core.types import Offset, TopicPartition
from sparklog.host.clock import Clock
from sparklog.host.dice import new_id

SESSION_TIMEOUT_MS = 45_000  # Kafka's session.timeout.ms
Place = tuple[str, int]  # topic and partition
Offsets = Mapping[Place, int | Position]


class GroupDescription(msgspec.Struct, frozen=True):
    """A group as it is now: its members, and how far it has come in each partition."""

    group: str
    condition: str
    generation: int
    members: tuple[Member, ...]
    partitions: tuple[GroupPartition, ...]

    @property
    def lag(self) -> int:
        """The offsets that are left to read, in all partitions with a committed offset together."""
        return sum(partition.lag or 0 for partition in self.partitions)


def describe_group(state: ClusterState, name: str) -> GroupDescription:
    """The group. Raises GroupIdNotFound."""
    group = existing_group(state, name)
    partitions = tuple(group_partitions(state, group))
    return GroupDescription(name, group.condition, group.generation, group.members, partitions)


def committed(state: ClusterState, name: str) -> dict[Place, CommittedOffset]:
    """What a group has committed, by topic and partition; nothing if there is no such group."""
    group = state.groups.get(name)
    rows = {} if group is None else state.offsets.of_group(group.number)
    return {(state.topics[key.topic_id].name, key.partition): row for key, row in rows.items()}


def commit_offsets(connection: Connection, group: str, offsets: Offsets, metadata: str = "") -> None:
    """Commit to a group without members: all of these offsets, or nothing; see `Cluster.commit_offsets`."""
    with connection.follower.current() as state:
        command = commit_of(state, group, offsets, metadata)
    _submit(connection, command)


def commit_of(state: ClusterState, group: str, offsets: Offsets, metadata: str = "") -> CommitOffsets:
    """The commit of these offsets to a group without members. Raises as `rows_to_commit`."""
    return CommitOffsets(state.chain_id, group, rows_to_commit(state, offsets, metadata))


def commit_of_stream(state: ClusterState, group: str, positions: Iterable[Position]) -> CommitOffsets | None:
    """The commit of a stream's positions to a group without members, in partitions that are there; None if there is
    nothing to commit.

    If there are several in a partition, the lowest counts: everything below it was consumed. Partitions in which the
    group is exactly there already are left out, so a stream of many partitions commits only where it read.
    """
    lowest: dict[TopicPartition, Position] = {}
    for position in positions:
        key = TopicPartition(position.topic_id, position.partition)
        known = lowest.get(key)
        if key in state.partitions and (known is None or position.offset < known.offset):
            lowest[key] = position
    existing = state.groups.get(group)
    has = {} if existing is None else state.offsets.of_group(existing.number)
    rows = tuple(
        OffsetToCommit(position.topic_id, position.partition, position.offset, position.leader_epoch)
        for key, position in lowest.items()
        if key not in has or has[key].offset != position.offset
    )
    return CommitOffsets(state.chain_id, group, rows) if rows else None


def follow(connection: Connection, group: str, positions: Iterable[Position]) -> None:
    """Commit positions of a stream where its group is not there yet: it never goes back.

    Raises UnknownMemberId if the group has members, InvalidGroupId, and what `commit_offsets` raises.
    """
    command = commit_of_stream(connection.follower.state, group, positions)
    if command is not None:
        _submit(connection, msgspec.structs.replace(command, only_forward=True))


def rows_to_commit(state: ClusterState, offsets: Offsets, metadata: str) -> tuple[OffsetToCommit, ...]:
    """The rows of a commit. An offset without a position counts as read under the present leader epoch.

    Raises UnknownTopicOrPartition, InconsistentClusterId (a position of another cluster), InvalidInput (a position of
    another topic or partition).
    """
    rows = []
    for (name, index), wanted in offsets.items():
        topic = topic_of(state, name)
        partition = partition_of(state, topic, index)
        if isinstance(wanted, Position):
            if wanted.chain_id != state.chain_id:
                raise InconsistentClusterId(
                    f"the position in {name}-{index} is of cluster {wanted.chain_id}, this is {state.chain_id}"
                )
            if (wanted.topic_id, wanted.partition) != (topic.topic_id, index):
                raise InvalidInput(
                    f"the position is of topic id {wanted.topic_id}, partition {wanted.partition}; {name}-{index} has "
                    f"topic id {topic.topic_id}: the topic was deleted and created again, or this is another one"
                )
            rows.append(
                OffsetToCommit(topic.topic_id, partition.partition, wanted.offset, wanted.leader_epoch, metadata)
            )
        else:
            epoch = partition.replication.leader_epoch
            rows.append(OffsetToCommit(topic.topic_id, partition.partition, Offset(wanted), epoch, metadata))
    return tuple(rows)


class GroupMember:
    """A member of a group, for one thread at a time. It is a member from its construction until `leave`.

    `generation` and `assigned` are as of the last `poll`, and so are `group_number` and `share`, which name the same
    group and partitions by numbers that are never used twice. Between two polls no more than the session timeout may
    pass, or the others take its partitions; a commit counts as well.
    """

    def __init__(
        self,
        connection: Connection,
        group: str,
        topics: Iterable[str],
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        member_id: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Join. Raises InvalidGroupId, InvalidSessionTimeout, InvalidInput.

        `member_id` is drawn unless a test gives one. It differs for each life of a process, and after each eviction:
        the group may have been deleted meanwhile, and be at a generation of the same number again.
        """
        self.group, self.topics = group, tuple(sorted(set(topics)))
        self.member_id = member_id or _new_member_id()
        self.generation = self.group_number = 0
        self.assigned: tuple[Place, ...] = ()
        self.share: dict[TopicPartition, str] = {}  # the names of topics, by partition
        self._connection = connection
        self._session_timeout_ms = session_timeout_ms
        self._clock = clock or connection.committer.clock
        self._peers = PeerWatch(self.member_id)
        self._commits = 0
        self._was_seen = False  # in the group
        self._chain_id = connection.follower.state.chain_id
        self._join()

    def __enter__(self) -> GroupMember:
        return self

    def __exit__(self, *exc: object) -> None:
        self.leave()

    def poll(self) -> bool:
        """Stay a member: show a sign of life if that is due, evict silent others, join again if this one was evicted.

        True if the group has another generation than before: then read `assigned` again, and go on from the committed
        offsets. Raises what reading and writing the chain raise.
        """
        before = self.generation
        asked_ms = self._clock.monotonic_ms()
        with self._connection.follower.current() as state:
            group, coordinator = state.groups.get(self.group), state.coordinator
        if group is None or group.member(self.member_id) is None:
            self._join_again()
            return True
        self._take_over(state)
        evictions = self._peers.silent(group, coordinator, asked_ms, self._clock.monotonic_ms())
        for eviction in evictions:
            with suppress(GroupIdNotFound):  # deleted since
                _submit(self._connection, eviction)
        if self._clock.monotonic_ms() - self._renewed_ms >= renewal_interval_ms(self._session_timeout_ms):
            self._renew(coordinator)
        elif evictions:
            self._catch_up()
        return self.generation != before

    def starts(self) -> dict[Place, int]:
        """Where the group goes on in the partitions of this member, but for those in which it never committed."""
        with self._connection.follower.current() as state:
            found = committed(state, self.group)
        return {place: found[place].offset for place in self.assigned if place in found}

    def commit(self, offsets: Offsets, metadata: str = "") -> None:
        """Commit offsets in this generation: all of them, or nothing.

        Raises IllegalGeneration or UnknownMemberId if the partitions may belong to others by now: `poll`, and go on
        from what is committed. Raises what `Cluster.commit_offsets` raises.
        """
        self.prepared(offsets, metadata)()

    def prepared(self, offsets: Offsets, metadata: str = "", generation: int | None = None) -> Callable[[], None]:
        """A commit to run later, perhaps in another thread; several of them one after the other, in this order.

        It is of this generation, by default the present one, whatever the member does meanwhile. Raises what the commit
        itself raises about its offsets.
        """
        with self._connection.follower.current() as state:
            rows = rows_to_commit(state, offsets, metadata)
        self._commits += 1
        fence = self.generation if generation is None else generation
        return partial(
            self._commit, CommitOffsets(self._chain_id, self.group, rows, self.member_id, fence, self._commits)
        )

    def wants(self, topics: Iterable[str]) -> None:
        """Share the partitions of these topics from now on. Raises InvalidInput if there is none."""
        self.topics = tuple(sorted(set(topics)))
        self._join()

    def _commit(self, command: CommitOffsets) -> None:
        begun_ms = self._clock.monotonic_ms()
        _submit(self._connection, command)
        self._renewed_ms = begun_ms

    def leave(self) -> None:
        """Leave the group, so that the others have its partitions at once. No error if it is no member any more."""
        with suppress(UnknownMemberId, GroupIdNotFound):
            _submit(self._connection, LeaveGroup(self.group, self.member_id))
        self._has_nothing()

    def _renew(self, coordinator: Coordinator) -> None:
        """Show that this member is alive: to the coordinator in force, or else in the chain.

        If a heartbeat fails for now, the next one is a third of a session later: one may be late, and whoever
        coordinates next gives all members a whole session.
        """
        if not coordinator.in_force:
            self._join()  # as it was: that only renews it
            return
        self._renewed_ms = self._clock.monotonic_ms()
        try:
            self._connection.committer.member_heartbeat(self.group, self.member_id)
        except (UnknownMemberId, GroupIdNotFound):  # evicted since the state was read
            self._join()
        except SparklogError as error:
            if not error.retriable:
                raise

    def _join_again(self) -> None:
        """Join after an eviction, as another member: what the evicted one has under way counts no more.

        One that was never seen in the group may only read the chain too late.
        """
        if self._was_seen:
            self.member_id, self._was_seen = _new_member_id(), False
            self._peers = PeerWatch(self.member_id)
        self._join()

    def _join(self) -> None:
        self._renewed_ms = self._clock.monotonic_ms()
        _submit(self._connection, JoinGroup(self.group, self.member_id, self.topics, self._session_timeout_ms))
        self._catch_up()

    def _catch_up(self) -> None:
        with self._connection.follower.current() as state:
            self._take_over(state)

    def _take_over(self, state: ClusterState) -> None:
        """Take generation and share from a state; none if this member was evicted in the meantime."""
        group = state.groups.get(self.group)
        member = None if group is None else group.member(self.member_id)
        if group is None or member is None:  # the next poll joins again
            self._has_nothing()
            return
        self._was_seen = True
        self._commits = max(self._commits, member.commits)
        self.generation, self.group_number = group.generation, group.number
        self.share = {key: state.topics[key.topic_id].name for key in member.assigned}
        self.assigned = tuple((topic, key.partition) for key, topic in self.share.items())

    def _has_nothing(self) -> None:
        self.generation, self.assigned, self.share = 0, (), {}


def _new_member_id() -> str:
    return f"consumer-{new_id()}"


def _submit(connection: Connection, command: Command) -> None:
    committer = connection.committer
    committer.submit(committer.begin(command))
