"""Which members of a group are silent, as somebody sees it who follows the chain (no coordinator is needed).

A member shows that it is alive by commits, with or without offsets. Whoever sees it unrenewed for its session timeout,
by its own monotonic clock, may evict it. That is a command that names the renewal seen, so a member that was renewed in
the meantime stays: a wrong clock, or an old state, evicts nobody who is at work.
"""

from __future__ import annotations

from sparklog.core.commands import LeaveGroup
from sparklog.core.groups import Group
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber

RENEWALS_PER_SESSION = 3  # as Kafka's heartbeat.interval.ms is a third of session.timeout.ms, at most


def renewal_interval_ms(session_timeout_ms: int) -> int:
    """How long a member may do nothing in the chain before it should show that it is alive."""
    return max(1, session_timeout_ms // RENEWALS_PER_SESSION)


class GroupsWatch:
    """What a coordinator has seen of the members of all groups while it leads."""

    def __init__(self) -> None:
        self._watches: dict[str, MemberWatch] = {}

    def silent(self, state: ClusterState, asked_ms: int, now_ms: int) -> list[LeaveGroup]:
        """The evictions that are due in all groups, as `MemberWatch.silent`."""
        active = {group.name: group for group in state.groups.values() if group.members}
        self._watches = {name: self._watches.get(name) or MemberWatch() for name in active}
        return [each for name, watch in self._watches.items() for each in watch.silent(active[name], asked_ms, now_ms)]


class MemberWatch:
    """What one process has seen of the members of one group. All times are of its own monotonic clock."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, EntryNumber], int] = {}  # when each renewal was there first

    def silent(self, group: Group, asked_ms: int, now_ms: int) -> list[LeaveGroup]:
        """The evictions that are due, after a state that was asked for at `asked_ms` and is here at `now_ms`.

        A renewal counts as new when it arrives, and as old only by states that were asked for later. So time in which
        this process saw nothing does not count against anybody.
        """
        present = {(member.member_id, member.renewed_at): member for member in group.members}
        self._seen = {key: self._seen.get(key, now_ms) for key in present}
        return [
            LeaveGroup(group.name, member.member_id, member.renewed_at)
            for key, member in present.items()
            if asked_ms - self._seen[key] >= member.session_timeout_ms
        ]
