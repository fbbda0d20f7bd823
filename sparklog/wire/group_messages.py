"""Requests about consumer groups, and the replies.

GET  /v1/groups           -> GroupsReply
GET  /v1/groups/{name}    -> GroupReply

Any coordinator answers these requests, whether it leads or stands by. A reply has only what the caller may see: the
partitions of topics that it may describe, and the groups that have committed in such a topic or read it. A caller that
may describe all topics sees all groups. Rows of groups are in `core/describe/group_rows.py`.
"""

from __future__ import annotations

import msgspec

from sparklog.core.describe.group_rows import GroupDescription, GroupRow
from sparklog.core.types import EntryNumber

GROUPS = "/v1/groups"
GROUP = "/v1/groups/{name:path}"  # a name may contain slashes

MOST_GROUPS = 1_000


class GroupsReply(msgspec.Struct, frozen=True):
    """Groups, sorted by name. `more` is true if further groups follow the last one."""

    chain_id: str
    position: EntryNumber
    groups: tuple[GroupRow, ...]
    more: bool


class GroupReply(GroupDescription, frozen=True, kw_only=True):
    """A group with some of its partitions. `partitions_total` is the number of all that the caller may see.

    `more` is true if further partitions follow the last one.
    """

    chain_id: str
    position: EntryNumber
    partitions_total: int
    more: bool
