"""Endpoints for consumer groups: their state, members and lag in the topics that the caller may describe."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Final

from msgspec import structs
from starlette.requests import Request

from sparklog.coordinator.access.gate import caller_of
from sparklog.coordinator.http.endpoint import CHAIN, SEEN, Endpoint, Openness, Parameter
from sparklog.coordinator.leading.reader_threads import ReaderThreads
from sparklog.core.access import ALL, Principal, Verb
from sparklog.core.describe.group_rows import describe_group, group_row
from sparklog.core.errors import GroupIdNotFound, InconsistentClusterId
from sparklog.core.groups.lag import GroupLag, group_lags
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber
from sparklog.wire.group_messages import GROUP, GROUPS, MOST_GROUPS, GroupReply, GroupsReply
from sparklog.wire.topic_messages import MOST_PARTITIONS

_AFTER: Final = Parameter("after", "query", "Begin after the group of this name.", default="")
_GROUPS_LIMIT: Final = Parameter("limit", "query", "Maximum number of groups.", MOST_GROUPS, 1, MOST_GROUPS)
_NAME: Final = Parameter("name", "path", "The name of the group.")
_FIRST: Final = Parameter("first", "query", "Number of partitions to skip.", 0, 0, 2**31 - 1)
_LIMIT: Final = Parameter("limit", "query", "Maximum number of partitions.", MOST_PARTITIONS, 1, MOST_PARTITIONS)


def group_routes(reading: ReaderThreads) -> list[Endpoint]:
    """The endpoints for the list of groups, and for one group."""

    async def groups(request: Request) -> GroupsReply:
        after, limit = request.query_params.get("after", ""), _GROUPS_LIMIT.number(request)
        state = await reading.state(request)
        return await reading.run(partial(groups_after, state, after, limit, caller_of(request.scope).principal))

    async def group(request: Request) -> GroupReply:
        first, limit = _FIRST.number(request), _LIMIT.number(request)
        state = await reading.state(request)
        name, principal = request.path_params["name"], caller_of(request.scope).principal
        return await reading.run(partial(described_group, state, name, first, limit, principal))

    return [
        Endpoint(
            "GET",
            GROUPS,
            groups,
            "The consumer groups, by name: state, members and lag",
            needs=Openness.BY_TOPIC,
            gives=GroupsReply,
            parameters=(_AFTER, _GROUPS_LIMIT, CHAIN, SEEN),
            errors=(InconsistentClusterId,),
        ),
        Endpoint(
            "GET",
            GROUP,
            group,
            "One consumer group: its members, and the committed offset and lag of each partition",
            needs=Openness.BY_TOPIC,
            gives=GroupReply,
            parameters=(_NAME, _FIRST, _LIMIT, CHAIN, SEEN),
            errors=(InconsistentClusterId, GroupIdNotFound),
        ),
    ]


def groups_after(state: ClusterState, after: str, limit: int, principal: Principal) -> GroupsReply:
    """The first `limit` groups, by name, whose names are greater than `after` and that the principal may see."""
    lags = group_lags(state)
    visible = (_seen_by(principal, lags.of(state.groups[name])) for name in sorted(state.groups) if name > after)
    seen = tuple(islice((group_row(lag) for lag in visible if lag is not None), limit + 1))
    return GroupsReply(state.chain_id, EntryNumber(state.n), seen[:limit], len(seen) > limit)


def described_group(state: ClusterState, name: str, first: int, limit: int, principal: Principal) -> GroupReply:
    """A group, and at most `limit` of its partitions that the principal may see, after the first `first` of these.

    Raises GroupIdNotFound if there is no such group, or the principal may not see it.
    """
    group = state.groups.get(name)
    if group is None or _seen_by(principal, group_lags(state).of(group)) is None:
        raise GroupIdNotFound(f"wanted group {name[:80]}, found no group of this name that {principal.name} may see")
    described = describe_group(state, name, partial(principal.may, Verb.DESCRIBE))
    total = len(described.partitions)
    return GroupReply(
        **structs.asdict(structs.replace(described, partitions=described.partitions[first : first + limit])),
        chain_id=state.chain_id,
        position=EntryNumber(state.n),
        partitions_total=total,
        more=first + limit < total,
    )


def _seen_by(principal: Principal, lag: GroupLag) -> GroupLag | None:
    """The group's lag in topics that the principal may describe; None if the principal may not know of the group.

    The principal may know of the group if it may describe all topics, or one topic that the group has offsets in or
    that a member wants.
    """
    topics = tuple(topic for topic in lag.topics if principal.may(Verb.DESCRIBE, topic.topic))
    wanted = (topic for member in lag.group.members for topic in member.topics)
    if topics or any(principal.may(Verb.DESCRIBE, topic) for topic in (ALL, *wanted)):
        return GroupLag(lag.group, topics)
    return None
