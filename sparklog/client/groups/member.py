"""A member of a consumer group in this process, which keeps itself alive.

    member = GroupMember(connection, "billing", ["orders"])     joins
    while …:
        member.poll()                   stay a member; True: the group has another generation, so read `assigned` again
        (read `member.assigned`, starting at `member.starts()`, and process)
        member.commit({("orders", 0): 120})
    member.leave()

No coordinator is needed: members see each other in the chain. With one, the same commands go through it, and members
send it heartbeats instead, which cost no entry of the chain (`core/groups/sessions.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from sparklog.client.connection import Connection
from sparklog.client.groups.offsets import Offsets, committed, rows_to_commit
from sparklog.core.commands import CommitOffsets, JoinGroup, LeaveGroup
from sparklog.core.coordination import Coordinator
from sparklog.core.errors import GroupIdNotFound, SparklogError, UnknownMemberId
from sparklog.core.groups.membership import GroupGeneration, check_instance_id
from sparklog.core.groups.sessions import PeerWatch, renewal_interval_ms
from sparklog.core.state import ClusterState
from sparklog.core.types import Place, TopicPartition
from sparklog.host.clock import Clock
from sparklog.host.dice import new_id
from sparklog.host.fork import OwnerProcess

SESSION_TIMEOUT_MS = 45_000  # Kafka's session.timeout.ms
NO_GENERATION = GroupGeneration(0, 0)  # of a process that is no member: a group with members is at generation 1 or more


class GroupMember:
    """A member of a group, for one thread at a time. It is a member from its construction until `leave`.

    `generation` and `assigned` are as of the last `poll`, and so is `share`, which names the same partitions by numbers
    that are never used twice. If more than the session timeout passes between two polls, the others take its
    partitions; a commit counts as a poll.

    A forked child can't use it: every call except `leave` raises InvalidInput there. `leave` does nothing there, as the
    process that was forked is still a member.
    """

    def __init__(
        self,
        connection: Connection,
        group: str,
        topics: Iterable[str],
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        instance_id: str | None = None,
        member_id: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Join. Raises InvalidGroupId, InvalidSessionTimeout, InvalidInput.

        With `instance_id` it is a static member (KIP-345), and takes the place of an earlier member of this instance.
        `member_id` is drawn unless a test gives one. It differs after each restart of a process.
        """
        if instance_id is not None:
            check_instance_id(instance_id)
        self.group, self.topics = group, tuple(sorted(set(topics)))
        self.member_id = member_id or f"{'consumer-' if instance_id is None else f'{instance_id}@'}{new_id()}"
        self._is_static = instance_id is not None
        self._was_member = False
        self.generation = NO_GENERATION
        self.assigned: tuple[Place, ...] = ()
        self.share: dict[TopicPartition, str] = {}  # the names of topics, by partition
        self._connection = connection
        self._owner = OwnerProcess("member of a group")
        self._session_timeout_ms = session_timeout_ms
        self._clock = clock or connection.committer.clock
        self._peers = PeerWatch(self.member_id)
        self._commits = 0
        self._chain_id = connection.follower.state.chain_id
        self._join()

    def __enter__(self) -> GroupMember:
        return self

    def __exit__(self, *exc: object) -> None:
        self.leave()

    def poll(self) -> bool:
        """Stay a member: show a sign of life if that is due, evict silent others, join again if this one was evicted.

        True if the group has another generation than before: then read `assigned` again, and resume from the committed
        offsets. Raises FencedInstanceId, and the errors of reading and writing the chain.
        """
        self._owner.check()
        before = self.generation
        asked_ms = self._clock.monotonic_ms()
        state = self._connection.follower.newest_state()
        group, coordinator = state.groups.get(self.group), state.coordinator
        if group is None or group.member(self.member_id) is None:
            self._join()
            return True
        self._take_over(state)
        evictions = self._peers.silent(group, coordinator, asked_ms, self._clock.monotonic_ms())
        for eviction in evictions:
            with suppress(GroupIdNotFound):  # deleted since
                self._connection.submit(eviction)
        if self._clock.monotonic_ms() - self._renewed_ms >= renewal_interval_ms(self._session_timeout_ms):
            self._renew(coordinator)
        elif evictions:
            self._catch_up()
        return self.generation != before

    def starts(self) -> dict[Place, int]:
        """The group's committed offset in each partition of this member; partitions without one are left out."""
        self._owner.check()
        state = self._connection.follower.newest_state()
        offsets = committed(state, self.group)
        return {place: offsets[place].offset for place in self.assigned if place in offsets}

    def commit(self, offsets: Offsets, metadata: str = "") -> None:
        """Commit offsets in this generation: all of them, or nothing.

        Raises IllegalGeneration or UnknownMemberId if the partitions may belong to others by now: `poll`, and resume
        from the committed offsets. Raises the errors of `Cluster.commit_offsets`.
        """
        self.prepared(offsets, metadata)()

    def prepared(
        self, offsets: Offsets, metadata: str = "", generation: GroupGeneration | None = None
    ) -> Callable[[], None]:
        """A commit to run later, perhaps in another thread. Run several commits one after the other, in this order.

        It is a commit of this generation, by default the present one, whatever the member does meanwhile. Raises the
        errors of the commit that are about its offsets.
        """
        return partial(self._commit, self.command(offsets, metadata, generation))

    def command(
        self,
        offsets: Offsets,
        metadata: str = "",
        generation: GroupGeneration | None = None,
        *,
        with_records: bool = False,
    ) -> CommitOffsets:
        """The command of a commit, as in `prepared`. `with_records`: it goes with an append."""
        self._owner.check()
        state = self._connection.follower.newest_state()
        rows = rows_to_commit(state, offsets, metadata, with_records=with_records)
        self._commits += 1
        fence = generation or self.generation
        return CommitOffsets(
            self._chain_id,
            self.group,
            rows,
            self.member_id,
            fence.number,
            self._commits,
            group_number=fence.group_number,
        )

    def wants(self, topics: Iterable[str]) -> None:
        """Share the partitions of these topics from now on. Raises InvalidInput if there is none."""
        self._owner.check()
        self.topics = tuple(sorted(set(topics)))
        self._join()

    def _commit(self, command: CommitOffsets) -> None:
        self._owner.check()
        begun_ms = self._clock.monotonic_ms()
        self._connection.submit(command)
        self._renewed_ms = begun_ms

    def leave(self) -> None:
        """Leave the group, so that the others get its partitions at once. No error if it is no member any more.

        A static member does not leave: it keeps its partitions until its session times out, so that a restart can
        reclaim them.
        """
        if not self._owner.is_here:
            return
        if not self._is_static:
            with suppress(UnknownMemberId, GroupIdNotFound):
                self._connection.submit(LeaveGroup(self.group, self.member_id))
        self._has_nothing()

    def _renew(self, coordinator: Coordinator) -> None:
        """Show that this member is alive: to the coordinator in force, or, without one, in the chain.

        If a heartbeat fails for now, the next one is a third of a session later: one may be late, and the next
        coordinator gives all members a whole session.
        """
        if not coordinator.in_force:
            self._join()  # with the same topics, so that it only renews
            return
        self._renewed_ms = self._clock.monotonic_ms()
        try:
            self._connection.committer.member_heartbeat(self.group, self.member_id)
        except (UnknownMemberId, GroupIdNotFound):  # evicted since the state was read
            self._join()
        except SparklogError as error:
            if not error.retriable:
                raise

    def _join(self) -> None:
        self._renewed_ms = self._clock.monotonic_ms()
        timeout_ms, again = self._session_timeout_ms, self._was_member
        self._connection.submit(JoinGroup(self.group, self.member_id, self.topics, timeout_ms, again))
        self._was_member = True
        self._catch_up()

    def _catch_up(self) -> None:
        state = self._connection.follower.newest_state()
        self._take_over(state)

    def _take_over(self, state: ClusterState) -> None:
        """Take generation and share from a state; none if this member was evicted in the meantime."""
        group = state.groups.get(self.group)
        member = None if group is None else group.member(self.member_id)
        if group is None or member is None:  # the next poll joins again
            self._has_nothing()
            return
        self.generation = GroupGeneration(group.number, group.generation)
        self.share = {key: state.topics[key.topic_id].name for key in member.assigned}
        self.assigned = tuple((topic, key.partition) for key, topic in self.share.items())

    def _has_nothing(self) -> None:
        self.generation, self.assigned, self.share = NO_GENERATION, (), {}
