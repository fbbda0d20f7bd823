"""A member of a consumer group in this process, which stays a member as long as it is polled.

    member = GroupMember(connection, "billing", ["orders"])     joins
    while …:
        member.poll()                   stay a member; True: the group has another generation, so read `assigned` again
        (read `member.assigned`, starting at `member.starts()`, and process)
        member.commit({("orders", 0): 120})
    member.leave()

No coordinator is needed: members see each other's renewals in the chain. With a coordinator in force, commands go
through it, and members send it heartbeats instead of renewals, which saves entries of the chain
(`core/groups/sessions.py`).
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
    """A member of a group, from its construction until `leave`. For one thread at a time.

    `generation`, `assigned` and `share` are as of the last `poll`; `share` has the partitions of `assigned` by topic
    id. If more than the session timeout passes between two polls or commits, the other members get its partitions.

    In a forked child every call except `leave` raises InvalidInput; `leave` does nothing there, as the parent is still
    a member.
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
        """Join the group. Raises InvalidGroupId, InvalidSessionTimeout, InvalidInput.

        With `instance_id` it is a static member (KIP-345): it replaces the member that has this instance id now, and
        gets its partitions. `member_id` and `clock` are for tests; by default, a new member id is drawn.
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
        """Stay a member: send a sign of life if one is due, evict silent members, join again if this one was evicted.

        Returns True if the group has another generation than at the last call: then read `assigned` again, and continue
        from the committed offsets (`starts`). Raises FencedInstanceId, and the errors of reading and writing the chain.
        """
        self._owner.check()
        before = self.generation
        asked_ms = self._clock.monotonic_ms()
        state = self._connection.newest_state()
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
        """The group's committed offset in each of this member's partitions that has a committed offset."""
        self._owner.check()
        state = self._connection.newest_state()
        offsets = committed(state, self.group)
        return {place: offsets[place].offset for place in self.assigned if place in offsets}

    def commit(self, offsets: Offsets, metadata: str = "") -> None:
        """Commit offsets under the generation of the last `poll`: all of them, or nothing.

        Raises IllegalGeneration or UnknownMemberId if the partitions may belong to other members by now: then call
        `poll`, and continue from the committed offsets. Also raises the errors of `Cluster.commit_offsets`.
        """
        self.prepared(offsets, metadata)()

    def prepared(
        self, offsets: Offsets, metadata: str = "", generation: GroupGeneration | None = None
    ) -> Callable[[], None]:
        """Return a function that commits these offsets. It may run in another thread.

        Run the returned functions in the order in which they were made. The commit is made under `generation`, by
        default that of the last `poll`, even if the member has another generation when the function runs. Raises at
        once the errors of invalid offsets (`rows_to_commit`).
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
        """Return the command that commits these offsets. Parameters and errors are those of `prepared`.

        `with_records`: true if the command is for `Append.consumed`; this only changes the text of
        InvalidCommitOffsetSize.
        """
        self._owner.check()
        state = self._connection.newest_state()
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
        """Replace the member's topics by `topics`, and join again with them. Raises InvalidInput if there are none."""
        self._owner.check()
        self.topics = tuple(sorted(set(topics)))
        self._join()

    def _commit(self, command: CommitOffsets) -> None:
        self._owner.check()
        begun_ms = self._clock.monotonic_ms()
        self._connection.submit(command)
        self._renewed_ms = begun_ms

    def leave(self) -> None:
        """Leave the group, so that the other members get this one's partitions at once. Not an error after an eviction.

        A static member does not leave: it keeps its partitions until its session times out, so that a new member with
        its instance id can take them over.
        """
        if not self._owner.is_here:
            return
        if not self._is_static:
            with suppress(UnknownMemberId, GroupIdNotFound):
                self._connection.submit(LeaveGroup(self.group, self.member_id))
        self._has_nothing()

    def _renew(self, coordinator: Coordinator) -> None:
        """Show that this member is alive: by a heartbeat to the coordinator in force; without one, by a renewal.

        A heartbeat that fails with a retriable error is not repeated. The next one, a third of the session timeout
        later, is still in time. A coordinator that takes over gives all members a full session timeout.
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
        state = self._connection.newest_state()
        self._take_over(state)

    def _take_over(self, state: ClusterState) -> None:
        """Set `generation`, `assigned` and `share` from `state`: to nothing if the group no longer has this member."""
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
