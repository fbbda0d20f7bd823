"""Silent members of groups, as one process sees them by its own monotonic clock.

While a coordinator is in force, members send it heartbeats, which it keeps in memory, and it alone evicts. Without a
coordinator, members renew themselves in the chain, where all members see it, and they evict each other. A commit counts
as a sign of life in both cases.

An eviction is a command that names the last renewal seen, and a member that was renewed in the meantime stays. So
neither a wrong clock nor an old state evicts a member that is active in the chain. A member that was evicted although
it was alive can't commit any more, and joins again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sparklog.core.commands import LeaveGroup
from sparklog.core.coordination import NO_COORDINATOR, Coordinator
from sparklog.core.groups.membership import ConsumerGroup
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber

RENEWALS_PER_SESSION = 3  # as in Kafka, where heartbeat.interval.ms is at most a third of session.timeout.ms


def renewal_interval_ms(session_timeout_ms: int) -> int:
    """The time in milliseconds after which an idle member should show that it is alive."""
    return max(1, session_timeout_ms // RENEWALS_PER_SESSION)


@dataclass(slots=True)
class _LastSign:
    """The last sign of life of a member. `renewed_at`: the entry of its newest renewal.

    `seen_ms`: the time at which this process saw that renewal, or the newest heartbeat since.
    """

    renewed_at: EntryNumber
    seen_ms: int


class MemberWatch:
    """The signs of life that one process has seen from the members of one group. All times are from its own monotonic
    clock.
    """

    def __init__(self) -> None:
        self._signs: dict[str, _LastSign] = {}

    def silent(self, group: ConsumerGroup, asked_ms: int, now_ms: int) -> list[LeaveGroup]:
        """Return the evictions that are due. `group` is from a state that was requested at `asked_ms` and arrived at
        `now_ms`.

        A renewal counts as seen when the first state with it arrives, a heartbeat when `heard` notes it. A member is
        silent if `group` has no new renewal of it, and was requested at least a session timeout after the last
        renewal or heartbeat was seen. So time in which this process read nothing of the chain counts against no member.
        """
        known = self._signs
        self._signs = {}
        for member in group.members:
            sign = known.get(member.member_id)
            if sign is None or sign.renewed_at != member.renewed_at:
                sign = _LastSign(member.renewed_at, now_ms)
            self._signs[member.member_id] = sign
        return [
            LeaveGroup(group.name, member.member_id, member.renewed_at)
            for member in group.members
            if asked_ms - self._signs[member.member_id].seen_ms >= member.session_timeout_ms
        ]

    def heard(self, member_id: str, now_ms: int) -> None:
        """Note a heartbeat of the member. It is ignored if no call of `silent` has seen the member in a state yet."""
        sign = self._signs.get(member_id)
        if sign is not None:
            sign.seen_ms = now_ms

    def was_deaf(self, deaf_ms: int, now_ms: int) -> None:
        """Note that this process heard no heartbeats for `deaf_ms`: that time counts against no member."""
        for sign in self._signs.values():
            sign.seen_ms = min(sign.seen_ms + deaf_ms, now_ms)


class PeerWatch:
    """The signs of life that a member has seen from the other members of its group."""

    def __init__(self, member_id: str) -> None:
        self._member_id = member_id
        self._coordinator: Coordinator = NO_COORDINATOR
        self._watch = MemberWatch()

    def silent(self, group: ConsumerGroup, coordinator: Coordinator, asked_ms: int, now_ms: int) -> list[LeaveGroup]:
        """Return the evictions of other members that are due; none while a coordinator is in force.

        `group` is from a state that was requested at `asked_ms` and arrived at `now_ms`. The chain does not show the
        heartbeats that a coordinator got. So once the coordinator is gone, every member has a whole session to show
        that it is alive.
        """
        if coordinator.in_force or coordinator != self._coordinator:
            self._watch, self._coordinator = MemberWatch(), coordinator
        evictions = self._watch.silent(group, asked_ms, now_ms)
        return [eviction for eviction in evictions if eviction.member_id != self._member_id]


class GroupsWatch:
    """The signs of life that a coordinator has seen and heard from the members of all groups while it leads."""

    def __init__(self) -> None:
        self._watches: dict[str, MemberWatch] = {}

    def silent(self, state: ClusterState, asked_ms: int, now_ms: int) -> Iterator[LeaveGroup]:
        """Yield the evictions that are due, one group after the other.

        `state` was requested at `asked_ms` and arrived at `now_ms`.
        """
        active = {group.name: group for group in state.groups.values() if group.members}
        self._watches = {name: self._watches.get(name) or MemberWatch() for name in active}
        for name, watch in self._watches.items():
            yield from watch.silent(active[name], asked_ms, now_ms)

    def heard(self, group: str, member_id: str, now_ms: int) -> None:
        """Note a heartbeat of a member."""
        watch = self._watches.get(group)
        if watch is not None:
            watch.heard(member_id, now_ms)

    def was_deaf(self, deaf_ms: int, now_ms: int) -> None:
        """Note in all groups that this process heard no heartbeats for `deaf_ms`: the time counts against no member."""
        for watch in self._watches.values():
            watch.was_deaf(deaf_ms, now_ms)
