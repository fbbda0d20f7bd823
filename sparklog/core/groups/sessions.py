"""Which members of groups are silent, as one process sees it by its own monotonic clock.

While a coordinator is in force, members send it heartbeats, which it keeps in memory, and it alone evicts. Without one,
members renew themselves in the chain, where all of them see it, and each evicts others. A commit counts in both cases.

An eviction is a command that names the renewal that was seen last, so a member that was renewed in the meantime stays:
a wrong clock, or an old state, evicts nobody who is at work in the chain. A member that was evicted wrongly all the
same commits nothing more, and joins again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sparklog.core.commands import LeaveGroup
from sparklog.core.coordination import NO_COORDINATOR, Coordinator
from sparklog.core.groups.membership import Group
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber

RENEWALS_PER_SESSION = 3  # as Kafka's heartbeat.interval.ms is a third of session.timeout.ms, at most


def renewal_interval_ms(session_timeout_ms: int) -> int:
    """How long a member may do nothing before it should show that it is alive."""
    return max(1, session_timeout_ms // RENEWALS_PER_SESSION)


@dataclass(slots=True)
class _LastSign:
    """The last sign of life of a member: the renewal that the chain shows, and when that or a heartbeat was new."""

    renewed_at: EntryNumber
    seen_ms: int


class MemberWatch:
    """What one process has seen of the members of one group. All times are of its own monotonic clock."""

    def __init__(self) -> None:
        self._signs: dict[str, _LastSign] = {}

    def silent(self, group: Group, asked_ms: int, now_ms: int) -> list[LeaveGroup]:
        """The evictions that are due, after a state that was asked for at `asked_ms` and is here at `now_ms`.

        A renewal counts as new when it arrives, and as old only by states that were asked for later. So time in which
        this process saw nothing of the chain does not count against anybody.
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
        """A heartbeat of the member has arrived. A member not seen yet gets a whole session once it is seen."""
        sign = self._signs.get(member_id)
        if sign is not None:
            sign.seen_ms = now_ms

    def was_deaf(self, deaf_ms: int, now_ms: int) -> None:
        """For `deaf_ms` this process heard no heartbeats: that time counts against nobody."""
        for sign in self._signs.values():
            sign.seen_ms = min(sign.seen_ms + deaf_ms, now_ms)


class PeerWatch:
    """What a member has seen of the other members of its group."""

    def __init__(self, member_id: str) -> None:
        self._member_id = member_id
        self._coordinator: Coordinator = NO_COORDINATOR
        self._watch = MemberWatch()

    def silent(self, group: Group, coordinator: Coordinator, asked_ms: int, now_ms: int) -> list[LeaveGroup]:
        """The evictions of others that are due, as `MemberWatch.silent`: none while a coordinator is in force.

        The chain does not show heartbeats. So once that coordinator is gone, every member gets a whole session.
        """
        if coordinator.in_force or coordinator != self._coordinator:
            self._watch, self._coordinator = MemberWatch(), coordinator
        evictions = self._watch.silent(group, asked_ms, now_ms)
        return [eviction for eviction in evictions if eviction.member_id != self._member_id]


class GroupsWatch:
    """What a coordinator has seen and heard of the members of all groups while it leads."""

    def __init__(self) -> None:
        self._watches: dict[str, MemberWatch] = {}

    def silent(self, state: ClusterState, asked_ms: int, now_ms: int) -> Iterator[LeaveGroup]:
        """The evictions that are due in all groups, as `MemberWatch.silent`, each group when its turn comes."""
        active = {group.name: group for group in state.groups.values() if group.members}
        self._watches = {name: self._watches.get(name) or MemberWatch() for name in active}
        for name, watch in self._watches.items():
            yield from watch.silent(active[name], asked_ms, now_ms)

    def heard(self, group: str, member_id: str, now_ms: int) -> None:
        """A heartbeat of a member has arrived."""
        watch = self._watches.get(group)
        if watch is not None:
            watch.heard(member_id, now_ms)

    def was_deaf(self, deaf_ms: int, now_ms: int) -> None:
        """As `MemberWatch.was_deaf`."""
        for watch in self._watches.values():
            watch.was_deaf(deaf_ms, now_ms)
