"""Consumer groups: joining, leaving, committing offsets, and forgetting what has expired (I-07)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from sparklog.core.commands import CommitOffsets, DeleteGroups, JoinGroup, LeaveGroup
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.decide.append import partition_name
from sparklog.core.describe.readable import counted
from sparklog.core.errors import (
    InvalidInput,
    InvalidSessionTimeout,
    NonEmptyGroup,
    OffsetMetadataTooLarge,
    OffsetOutOfRange,
    OutOfOrderSequence,
    UnknownMemberId,
)
from sparklog.core.groups.membership import (
    ConsumerGroup,
    Member,
    OffsetToCommit,
    TopicSize,
    check_commit_size,
    check_fencing,
    check_name,
    check_same_group,
    next_generation,
    unknown_member,
)
from sparklog.core.lookup import existing_group, existing_partition
from sparklog.core.names.topic_names import check_topic_name
from sparklog.core.reading.positions import Position, valid_up_to
from sparklog.core.records import At, GroupChanged, GroupPartitions, OffsetsCommitted, OffsetsForgotten, Record
from sparklog.core.state import ClusterState
from sparklog.core.tables.slice_table import topic_partition_of
from sparklog.core.types import EntryNumber, TopicId, TopicPartition

FORGOTTEN_PER_COMMAND = 10_000  # groups and offsets; the next job forgets the rest
_MINUTE_MS = 60_000


def decide_join_group(state: ClusterState, command: JoinGroup, at: At) -> tuple[Record, ...]:
    """Return the record that puts the member into the group, or that renews a member that joins again unchanged.

    A new or changed member begins the next generation, except a static member that restarted with the same topics: it
    gets its partitions back in the same generation. The former id of a static member that restarted is fenced.

    Raises InvalidGroupId, InvalidSessionTimeout, InvalidTopic, InvalidInput, FencedInstanceId.
    """
    check_name("a group id", command.group)
    check_name("a member id", command.member_id)
    topics = tuple(sorted(set(command.topics)))
    if not topics:
        raise InvalidInput(f"member {command.member_id} of group {command.group} needs at least one topic")
    for topic in topics:
        check_topic_name(topic)
    config = effective_cluster(state.config)
    shortest, longest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not shortest <= command.session_timeout_ms <= longest:
        raise InvalidSessionTimeout(
            f"a session timeout is {shortest} to {longest} ms (group.min.session.timeout.ms and "
            f"group.max.session.timeout.ms), found {command.session_timeout_ms}"
        )
    group = state.groups.get(command.group) or ConsumerGroup(command.group, state.next_group_number)
    known = group.member(command.member_id)
    commits = 0 if known is None else known.commits
    if known is not None and (known.topics, known.session_timeout_ms) == (topics, command.session_timeout_ms):
        return (OffsetsCommitted(group.name, group.number, (), known.member_id, known.commits),)
    member = Member(command.member_id, topics, command.session_timeout_ms, at.n, commits=commits)
    before = group.holder(member.instance_id) if known is None else None
    if before is not None:
        if command.again:
            raise unknown_member(group, command.member_id)
        if before.topics == topics:
            return (GroupChanged(group.with_member(msgspec.structs.replace(member, assigned=before.assigned))),)
    return (GroupChanged(_divided(state, group.with_member(member))),)


def decide_leave_group(state: ClusterState, command: LeaveGroup, at: At) -> tuple[Record, ...]:
    """Return the group without the member, at its next generation.

    An eviction changes nothing if the member is gone already or was renewed in the meantime. Raises GroupIdNotFound,
    UnknownMemberId, FencedInstanceId.
    """
    group = existing_group(state, command.group)
    member = group.member(command.member_id)
    if command.renewed_at is not None and (member is None or member.renewed_at != command.renewed_at):
        return ()
    if member is None:
        raise unknown_member(group, command.member_id)
    return (_without(state, group, [member], at),)


def silent_members(state: ClusterState, before: EntryNumber) -> dict[str, tuple[Member, ...]]:
    """Return, by group, the members last renewed before entry `before`; {} while a coordinator watches them.

    Entry `before` must be at least `floor.delay.ms` old. A member with a longer session timeout than that is left out.
    The last entry of the last coordinator counts as a renewal of all members, because until then it evicted silent
    members itself.
    """
    if state.coordinator.in_force:  # the chain shows nothing of heartbeats
        return {}
    delay_ms = effective_cluster(state.config).floor_delay_ms
    gone = {
        group.name: tuple(
            member
            for member in group.members
            if last_heard(state, member) < before and member.session_timeout_ms <= delay_ms
        )
        for group in state.groups.values()
        if group.members
    }
    return {name: gone[name] for name in sorted(gone) if gone[name]}


def last_heard(state: ClusterState, member: Member) -> EntryNumber:
    """Return the newest entry at which the member counts as alive.

    This is its last renewal or the last coordinator's last entry, whichever is later.
    """
    return max(member.renewed_at, state.coordinator.entry)


def without_members_before(state: ClusterState, before: EntryNumber, at: At) -> tuple[GroupChanged, ...]:
    """Return the groups that have `silent_members`, without those members."""
    return tuple(_without(state, state.groups[name], gone, at) for name, gone in silent_members(state, before).items())


def decide_commit_offsets(state: ClusterState, command: CommitOffsets) -> tuple[Record, ...]:
    """Return the record that sets the command's offsets. If one offset is refused, all are.

    Returns () if the number of a member's commit is not above that of its last one, or if `only_forward` skips all
    offsets.

    If an unclean election gave up records below an offset after they were read, the offset is lowered to the first of
    these records, as if it had been committed before the election.

    Raises InvalidGroupId, UnknownMemberId, FencedInstanceId, IllegalGeneration, InvalidCommitOffsetSize,
    OffsetMetadataTooLarge, OffsetOutOfRange (negative, or above the high watermark), UnknownTopicOrPartition (also if
    the topic was created again), InconsistentClusterId, UnknownLeaderEpoch, InvalidInput.
    """
    check_name("a group id", command.group)
    group = state.groups.get(command.group) or ConsumerGroup(command.group, state.next_group_number)
    check_same_group(group, command.group_number)
    if command.member_id is None:
        if group.members:
            raise UnknownMemberId(  # no ids: the author may commit in one topic, and the members may read others
                f"group {group.name} has {counted(len(group.members), 'active member')}: without a member, offsets are "
                "committed only to a group that has none"
            )
        if not command.offsets:
            raise InvalidInput(f"a commit to group {group.name} without a member needs at least one offset")
    else:
        known = group.member(command.member_id)
        if known is not None and 0 < command.number <= known.commits:
            return ()
        check_fencing(group, command.member_id, command.generation)
        if command.number < 1:
            raise InvalidInput(f"the commits of a member are counted from 1, found {command.number}")
    check_commit_size(command.offsets)
    _check_once(command.offsets)
    most = effective_cluster(state.config).offset_metadata_max_bytes
    offsets = tuple(_checked(state, command.chain_id, offset, most) for offset in command.offsets)
    if command.only_forward:
        offsets = _ahead(state, group, offsets)
        if not offsets:
            return ()
    return (OffsetsCommitted(group.name, group.number, offsets, command.member_id, command.number),)


def decide_consumed(state: ClusterState, command: CommitOffsets) -> tuple[Record, ...]:
    """Return the record that sets offsets in the entry of an append (I-05).

    Raises the errors of `decide_commit_offsets`, and GroupIdNotFound if a member's group is gone. Raises
    OutOfOrderSequence if the commit's number is not above the member's last one: without an append such a commit
    changes nothing, but an append may not be written without its offsets.
    """
    check_commit_size(command.offsets, with_records=True)
    if command.member_id is not None:
        group = existing_group(state, command.group)
        check_same_group(group, command.group_number)
        known = check_fencing(group, command.member_id, command.generation)
        if command.number <= known.commits:
            raise OutOfOrderSequence(
                f"member {command.member_id} of group {command.group} has made commit {known.commits}, found commit "
                f"{command.number} with records: the commit numbers of a member must rise"
            )
    return decide_commit_offsets(state, command)


def decide_delete_groups(state: ClusterState, command: DeleteGroups) -> tuple[Record, ...]:
    """Forget the groups. Raises GroupIdNotFound, NonEmptyGroup."""
    names = tuple(dict.fromkeys(command.groups))
    for name in names:
        check_no_members(existing_group(state, name))
    return (OffsetsForgotten(names),) if names else ()


def check_no_members(group: ConsumerGroup) -> None:
    """Raise NonEmptyGroup if the group has members."""
    if group.members:
        ids = ", ".join(member.member_id for member in group.members[:3])
        raise NonEmptyGroup(
            f"group {group.name} has {counted(len(group.members), 'active member')} ({ids}): stop them first; one that "
            "crashed is evicted after its session timeout by the other members or a coordinator, or at once by "
            "'sparklog group evict'"
        )


def rebalanced(state: ClusterState, topic: str, size: TopicSize | None) -> tuple[GroupChanged, ...]:
    """Return the groups that read this topic, with their partitions divided again.

    `size`: the new size of the topic; None if it is deleted.
    """
    readers = [group for group in state.groups.values() if group.reads(topic)]
    return tuple(
        GroupChanged(_divided(state, group, {topic: size})) for group in sorted(readers, key=lambda group: group.name)
    )


def expired(state: ClusterState, now_ms: int) -> OffsetsForgotten | None:
    """Return the offsets and groups to forget after `offsets.retention.minutes`; None if nothing has expired (KIP-211).

    The retention time counts from the commit or from the time the last member left, whichever is later. Offsets in
    topics that members of the group read do not expire. A group without members is forgotten together with its last
    offset. At most FORGOTTEN_PER_COMMAND groups and offsets are returned.
    """
    retention_ms = effective_cluster(state.config).offsets_retention_minutes * _MINUTE_MS
    before_ms = now_ms - retention_ms
    rows = state.offsets.all_columns()
    by_number = {group.number: group for group in state.groups.values()}
    numbers, of_row, counted_rows = np.unique(rows["group"], return_inverse=True, return_counts=True)
    emptied = np.array([by_number[number].emptied_ms for number in numbers.tolist()], dtype=np.int64)
    due = np.maximum(rows["committed_ms"], emptied[of_row]) <= before_ms
    partitions: dict[int, list[TopicPartition]] = {}
    subscribed = {group.number: _subscribed(state, group) for group in by_number.values() if group.members}
    for number, key in zip(rows["group"][due].tolist(), rows["partition_key"][due].tolist(), strict=True):
        partition = topic_partition_of(key)
        if partition.topic_id not in subscribed.get(number, ()):
            partitions.setdefault(number, []).append(partition)
    counts = dict(zip(numbers.tolist(), counted_rows.tolist(), strict=True))
    groups = sorted(
        group.name
        for number, group in by_number.items()
        if not group.members
        and len(partitions.get(number, ())) == counts.get(number, 0)
        and (number in counts or group.emptied_ms <= before_ms)
    )[:FORGOTTEN_PER_COMMAND]
    offsets, left = [], FORGOTTEN_PER_COMMAND - len(groups)
    for number in sorted(partitions.keys() - {state.groups[name].number for name in groups}):
        some = tuple(partitions[number][:left])
        left -= len(some)
        offsets += [GroupPartitions(by_number[number].name, some)] if some else []
    return OffsetsForgotten(tuple(groups), tuple(offsets)) if groups or offsets else None


def _without(state: ClusterState, group: ConsumerGroup, gone: Sequence[Member], at: At) -> GroupChanged:
    left = tuple(member for member in group.members if member not in gone)
    emptied_ms = 0 if left else max(at.time_ms, state.time_ms, 1)
    return GroupChanged(_divided(state, msgspec.structs.replace(group, members=left, emptied_ms=emptied_ms)))


def _divided(
    state: ClusterState, group: ConsumerGroup, changed: dict[str, TopicSize | None] | None = None
) -> ConsumerGroup:
    """Return the group at its next generation, with the partitions divided again.

    `changed`: the new sizes of topics that are about to change; None for a topic that is deleted.
    """
    sizes: dict[str, TopicSize] = {}
    for name in {name for member in group.members for name in member.topics}:
        topic = state.topic_named(name)
        size = None if topic is None else TopicSize(topic.topic_id, topic.partitions)
        size = (changed or {}).get(name, size)
        if size is not None:
            sizes[name] = size
    return next_generation(group, sizes)


def _subscribed(state: ClusterState, group: ConsumerGroup) -> frozenset[TopicId]:
    names = {name for member in group.members for name in member.topics}
    return frozenset(state.topic_ids[name] for name in names if name in state.topic_ids)


def _ahead(state: ClusterState, group: ConsumerGroup, offsets: Iterable[OffsetToCommit]) -> tuple[OffsetToCommit, ...]:
    """Return the offsets that are above the group's committed offset, or in a partition without one."""
    known = state.offsets.of_group(group.number)
    places = ((TopicPartition(offset.topic_id, offset.partition), offset) for offset in offsets)
    return tuple(offset for place, offset in places if place not in known or known[place].offset < offset.offset)


def _check_once(offsets: Iterable[OffsetToCommit]) -> None:
    seen: set[tuple[int, int]] = set()
    for offset in offsets:
        place = offset.topic_id, offset.partition
        if place in seen:
            raise InvalidInput(f"a commit names each partition once, found {offset.topic_id}-{offset.partition} twice")
        seen.add(place)


def _checked(state: ClusterState, chain_id: str, offset: OffsetToCommit, most_bytes: int) -> OffsetToCommit:
    key = TopicPartition(offset.topic_id, offset.partition)
    position = Position(chain_id, offset.topic_id, offset.partition, offset.offset, offset.leader_epoch)
    valid_to = valid_up_to(state, position)
    end = existing_partition(state, key).high_watermark
    if not 0 <= offset.offset <= end:
        raise OffsetOutOfRange(
            f"{partition_name(state, key)}: a group can continue at an offset from 0 to the high watermark {end}, "
            f"found {offset.offset}"
        )
    size = len(offset.metadata.encode())
    if size > most_bytes:
        raise OffsetMetadataTooLarge(
            f"{partition_name(state, key)}: the metadata of an offset has at most {most_bytes} bytes "
            f"(offset.metadata.max.bytes), found {size}"
        )
    return offset if valid_to == offset.offset else msgspec.structs.replace(offset, offset=valid_to)
