"""Consumer groups: members, generations, and the assignment of partitions to members.

Membership is a part of the chain's state, so a group needs no coordinator. A join, a leave or a change of the
partitions gives the group its next generation, and each generation divides all partitions again. A commit names its
member and generation, and a commit of an older generation is refused. So a member can't commit for a partition that has
been assigned to another member since.

A static member (KIP-345) has an instance id, with which its member id begins. If it dies and joins again within its
session, it takes the place of its former member: the generation and all shares stay, and only commits of the former
member are fenced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from sparklog.core.describe.readable import amount, counted
from sparklog.core.errors import (
    FencedInstanceId,
    IllegalGeneration,
    InvalidCommitOffsetSize,
    InvalidGroupId,
    InvalidInput,
    UnknownMemberId,
)
from sparklog.core.texts.user_text import utf8_of
from sparklog.core.types import EntryNumber, LeaderEpoch, Offset, PartitionIndex, TopicId, TopicPartition

GROUP_CONDITIONS = ("Stable", "Empty")  # with members, and without
MAX_INSTANCE_LENGTH = 200  # of a group_instance_id, with which member ids begin
MAX_NAME_LENGTH = 249  # of a group and of a member id, as of a topic
# A commit must fit into one entry of the chain.
OFFSETS_PER_COMMIT = 50_000
TEXT_BYTES_PER_COMMIT = 4 * 2**20  # of the metadata of all offsets, in UTF-8


class OffsetToCommit(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The offset up to which a group has consumed a partition.

    All records below `offset` were consumed. `leader_epoch`: the leader epoch of the partition when they were read.
    `metadata` is a text from the client that commits.
    """

    topic_id: TopicId
    partition: PartitionIndex
    offset: Offset
    leader_epoch: LeaderEpoch
    metadata: str = ""


class CommittedOffset(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The offset at which a group continues in a partition, and its commit time. `metadata`: a text from the client
    that committed.
    """

    offset: Offset
    leader_epoch: LeaderEpoch
    metadata: str
    committed_ms: int


class Member(msgspec.Struct, frozen=True, array_like=True):
    """A consumer of a group, subscribed to `topics`, which need not exist yet. The member reads the partitions
    `assigned`.

    `renewed_at` is the last entry in which it showed that it is alive. The member may be evicted if `renewed_at` has
    not changed for `session_timeout_ms` by the clock of the process that evicts it. `commits` is the number of its last
    commit.
    """

    member_id: str
    topics: tuple[str, ...]
    session_timeout_ms: int
    renewed_at: EntryNumber
    assigned: tuple[TopicPartition, ...] = ()
    commits: int = 0

    @property
    def instance_id(self) -> str | None:
        """The instance id of a static member, or None if the member is not static."""
        return instance_of(self.member_id)


class ConsumerGroup(msgspec.Struct, frozen=True, array_like=True):
    """A consumer group. `number` is never used twice: a group that is deleted and created again has another one.

    `members` are ordered by id. `emptied_ms`: the time at which the last member left; 0 while there are members, and if
    there never were any.
    """

    name: str
    number: int
    generation: int = 0
    members: tuple[Member, ...] = ()
    emptied_ms: int = 0

    def member(self, member_id: str) -> Member | None:
        """The member of this id, or None."""
        return next((member for member in self.members if member.member_id == member_id), None)

    def holder(self, instance_id: str | None) -> Member | None:
        """The static member that has this instance id now, or None."""
        return next((member for member in self.members if instance_id and member.instance_id == instance_id), None)

    def with_member(self, changed: Member) -> ConsumerGroup:
        """Return the group with this member added, or in place of the one with the same id or the same instance id.

        The generation stays, and so do the partitions of all other members.
        """
        before = self.holder(changed.instance_id)
        gone = {changed.member_id} if before is None else {changed.member_id, before.member_id}
        others = [member for member in self.members if member.member_id not in gone]
        members = tuple(sorted([*others, changed], key=lambda member: member.member_id))
        return msgspec.structs.replace(self, members=members, emptied_ms=0)

    def reads(self, topic: str) -> bool:
        """True if a member has subscribed to this topic."""
        return any(topic in member.topics for member in self.members)

    @property
    def condition(self) -> str:
        """The group's state under Kafka's name, one of `GROUP_CONDITIONS`."""
        return "Stable" if self.members else "Empty"


class GroupGeneration(msgspec.Struct, frozen=True):
    """A generation of a group. A group that was deleted and created again has another `group_number`."""

    group_number: int
    number: int

    def follows(self, before: GroupGeneration | None) -> bool:
        """True if this is the generation directly after `before` in the same group; False if `before` is None."""
        return before is not None and (before.group_number, before.number + 1) == (self.group_number, self.number)


class TopicSize(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The id of a topic, and its number of partitions: all that an assignment needs."""

    topic_id: TopicId
    partitions: int


def check_name(what: str, name: str) -> None:
    """Raise InvalidGroupId unless `name` has 1 to 249 printable characters and no space at its ends.

    `what` describes the name in the error: "a group id".
    """
    if not 1 <= len(name) <= MAX_NAME_LENGTH or not name.isprintable() or name != name.strip():
        raise InvalidGroupId(f"wanted {what} of 1 to {MAX_NAME_LENGTH} printable characters, found {name[:80]!r}")


def check_instance_id(instance_id: str) -> None:
    """Raise InvalidGroupId unless the id is legal and short enough for a member id, which adds a random part to it."""
    check_name("a group_instance_id", instance_id)
    if len(instance_id) > MAX_INSTANCE_LENGTH:
        raise InvalidGroupId(
            f"a group_instance_id has at most {MAX_INSTANCE_LENGTH} characters, found {len(instance_id)}"
        )


def instance_of(member_id: str) -> str | None:
    """The instance id in the member id of a static member, INSTANCE@RANDOM; None if the member is not static."""
    return member_id.rpartition("@")[0] or None


def check_commit_size(offsets: Sequence[OffsetToCommit], *, with_records: bool = False) -> None:
    """Raise InvalidCommitOffsetSize if a commit is too large for an entry, InvalidInput if metadata isn't valid text.

    `with_records`: the commit comes with an append. Then the error gives other advice, because the offsets can't be
    committed in several parts.
    """
    text_bytes = sum(len(utf8_of(offset.metadata, "metadata", InvalidInput)) for offset in offsets if offset.metadata)
    if len(offsets) <= OFFSETS_PER_COMMIT and text_bytes <= TEXT_BYTES_PER_COMMIT:
        return
    actual = counted(len(offsets), "offset")
    if text_bytes > TEXT_BYTES_PER_COMMIT:
        actual = f"{amount(text_bytes)} of text with {actual}: shorten the text, or commit fewer offsets at a time"
    elif with_records:
        actual = (
            f"{actual} to be committed with records, in the same entry of the chain: read fewer partitions for one "
            "write, or let the reader commit its offsets by itself, after the write"
        )
    else:
        actual = f"{actual}: commit them in several parts"
    limits = f"{OFFSETS_PER_COMMIT:,} offsets, and {amount(TEXT_BYTES_PER_COMMIT)} of text with them"
    raise InvalidCommitOffsetSize(f"a commit has at most {limits}, found {actual}")


def check_same_group(group: ConsumerGroup, number: int | None) -> None:
    """Raise UnknownMemberId unless the group has this number: a group that is created again has another one.

    If `number` is None, any group is accepted.
    """
    if number not in (None, group.number):
        raise UnknownMemberId(
            f"group {group.name} was deleted after this commit was begun, and perhaps created again: join again, and "
            "continue from the committed offsets"
        )


def check_fencing(group: ConsumerGroup, member_id: str, generation: int) -> Member:
    """Return the member of this id. Raises IllegalGeneration unless `generation` is the present one of the group.

    Raises UnknownMemberId or FencedInstanceId if the group has no such member.
    """
    member = group.member(member_id)
    if member is None:
        raise unknown_member(group, member_id)
    if generation != group.generation:
        raise IllegalGeneration(
            f"group {group.name} is at generation {group.generation}, member {member_id} names {generation}: its "
            "partitions may belong to others now; read the new assignment, and continue from the committed offsets"
        )
    return member


def unknown_member(group: ConsumerGroup, member_id: str) -> UnknownMemberId | FencedInstanceId:
    """Return the error for a member id that the group does not have.

    FencedInstanceId if a newer member of the same instance has taken its place; UnknownMemberId if it left or was
    evicted.
    """
    instance_id = instance_of(member_id)
    if group.holder(instance_id) is not None:
        return FencedInstanceId(
            f"group {group.name} has another member with the group_instance_id {instance_id}, which joined later: only "
            "one consumer at a time may have it"
        )
    return UnknownMemberId(
        f"group {group.name} (generation {group.generation}) has no member {member_id}: it left, or it was silent for "
        "longer than its session timeout; join again, and continue from the committed offsets"
    )


def next_generation(group: ConsumerGroup, topics: Mapping[str, TopicSize]) -> ConsumerGroup:
    """The group at its next generation, with the partitions of `topics` (by name) divided again among the members."""
    shares = range_assignment({member.member_id: member.topics for member in group.members}, topics)
    members = tuple(msgspec.structs.replace(member, assigned=shares[member.member_id]) for member in group.members)
    return msgspec.structs.replace(group, generation=group.generation + 1, members=members)


def range_assignment(
    wanted: Mapping[str, Sequence[str]], topics: Mapping[str, TopicSize]
) -> dict[str, tuple[TopicPartition, ...]]:
    """Return the partitions of each member, as Kafka's RangeAssignor assigns them. `wanted`: the topics that each
    member has subscribed to, by member id.

    The partitions of each topic are divided among the members that want the topic, so that each gets neighbouring ones.
    Static members come first, in the order of their instances, then the others in the order of their ids. If the
    partitions can't be divided evenly, the first members get one more each. A topic that does not exist is assigned to
    no member.
    """
    shares: dict[str, list[TopicPartition]] = {member_id: [] for member_id in wanted}
    for name in sorted({name for names in wanted.values() for name in names} & topics.keys()):
        topic = topics[name]
        readers = sorted((member_id for member_id, names in wanted.items() if name in names), key=_order)
        even, more = divmod(topic.partitions, len(readers))
        first = 0
        for at, member_id in enumerate(readers):
            end = first + even + (at < more)
            shares[member_id] += _partitions(topic.topic_id, range(first, end))
            first = end
    return {member_id: tuple(partitions) for member_id, partitions in shares.items()}


def _order(member_id: str) -> tuple[bool, str]:
    instance_id = instance_of(member_id)
    return instance_id is None, instance_id or member_id


def _partitions(topic_id: TopicId, indexes: Iterable[int]) -> list[TopicPartition]:
    return [TopicPartition(topic_id, PartitionIndex(index)) for index in indexes]
