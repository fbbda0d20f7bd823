"""Decides which partitions a consumer reads, and fences its stale commits: as a member of a group, or without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from sparklog.client.connection import Connection
from sparklog.client.consumer.subscription import Assignment, Share, Subscription
from sparklog.client.groups.member import GroupMember
from sparklog.client.groups.offsets import commit_offsets, commit_with_records
from sparklog.core.commands import CommitOffsets
from sparklog.core.errors import InvalidGroupId
from sparklog.core.groups.group_progress import committed_offsets
from sparklog.core.groups.membership import CommittedOffset, GroupGeneration, check_instance_id, check_name
from sparklog.core.purgatory import KnownTopic
from sparklog.core.reading.positions import Position
from sparklog.core.state import ClusterState
from sparklog.core.types import TopicPartition


class Shares:
    """A consumer's subscription or assignment (`wanted`; None: neither), and its membership if it is in a group."""

    def __init__(
        self, connection: Connection, group: str | None, session_timeout_ms: int, instance_id: str | None
    ) -> None:
        """Create shares without a subscription. Raises InvalidGroupId if `group` or `instance_id` is invalid."""
        if group is not None:
            check_name("a group id", group)
        if instance_id is not None:
            check_instance_id(instance_id)
        self._instance_id = instance_id
        self.group = group
        self.wanted: Subscription | Assignment | None = None
        self._connection = connection
        self._session_timeout_ms = session_timeout_ms
        self._member: GroupMember | None = None

    def look(self) -> None:
        """Read the chain. With a subscription in a group, join the group, or stay a member and update the topics.

        The topics of a subscription by pattern are those whose names match now.
        """
        follower = self._connection.follower
        if self._member is not None:
            self._member.poll()
        else:
            follower.catch_up()
        if self.group is None or not isinstance(self.wanted, Subscription):
            return
        topics = self.wanted.names(follower.state)
        if not topics:
            return  # a member needs a topic: it joins, or changes its topics, once one matches the pattern
        if self._member is None:
            self._member = GroupMember(
                self._connection,
                self.group,
                topics,
                session_timeout_ms=self._session_timeout_ms,
                instance_id=self._instance_id,
            )
        elif topics != self._member.topics:
            self._member.wants(topics)

    def is_stale(self, generation: GroupGeneration | None) -> bool:
        """True if the newest state known here has another generation of the group than `generation`.

        Also true if this member is no longer in the group; False without a membership.
        """
        if self._member is None:
            return False
        group = self._connection.follower.state.groups.get(self._member.group)
        if group is None or group.member(self._member.member_id) is None:
            return True
        return GroupGeneration(group.number, group.generation) != generation

    def now(self) -> tuple[Share, GroupGeneration | None]:
        """The consumer's partitions as of the last `look`, and the group's generation (None without a membership).

        Raises UnknownTopicOrPartition if a partition of an explicit assignment is gone.
        """
        if self._member is not None:
            return self._member.share, self._member.generation
        if self.wanted is None or (self.group is not None and isinstance(self.wanted, Subscription)):
            return {}, None
        return self.wanted.share(self._connection.follower.state), None

    def awaited_topics(self, state: ClusterState) -> tuple[KnownTopic, ...]:
        """The topics to watch during a wait for records, which ends if one is deleted or gets new partitions.

        Empty for a member of a group: such a change begins another generation of the group, which ends the wait.
        """
        return () if self.wanted is None or self._member is not None else self.wanted.known(state)

    def committed(self, state: ClusterState) -> Mapping[TopicPartition, CommittedOffset]:
        """The committed offsets of the group by partition; empty without a group."""
        return {} if self.group is None else committed_offsets(state, self.group)

    def prepared(
        self, rows: Mapping[TopicPartition, Position], share: Share, generation: GroupGeneration | None, metadata: str
    ) -> Callable[[], None]:
        """Return a function that commits the positions in `rows`. It may run in another thread.

        Run the returned functions in the order in which they were made. `share` and `generation` are those under which
        the positions were read: if the group has a newer generation by now, the commit is refused, because the
        partitions may belong to other members. Raises InvalidGroupId without a group, and the errors of
        `rows_to_commit`.
        """
        if self.group is None:
            raise without_group()
        offsets = {(share[key], int(key.partition)): position for key, position in rows.items()}
        if self._member is not None and generation is not None:
            return self._member.prepared(offsets, metadata, generation)
        return partial(commit_offsets, self._connection, self.group, offsets, metadata)

    def command(
        self, rows: Mapping[TopicPartition, Position], share: Share, generation: GroupGeneration | None
    ) -> CommitOffsets:
        """Return the command for `Append.consumed` that commits the positions in `rows`.

        Parameters and errors are those of `prepared`.
        """
        if self.group is None:
            raise without_group()
        offsets = {(share[key], int(key.partition)): position for key, position in rows.items()}
        if self._member is not None and generation is not None:
            return self._member.command(offsets, generation=generation, with_records=True)
        return commit_with_records(self._connection.follower.state, self.group, offsets)

    def leave(self) -> None:
        """Drop the subscription or assignment, and leave the group if the consumer is a member."""
        member, self._member = self._member, None
        self.wanted = None
        if member is not None:
            member.leave()


def without_group() -> InvalidGroupId:
    """The error for a commit by a consumer that has no group."""
    return InvalidGroupId("this consumer has no group, so it has nothing to commit to: give it a group")
