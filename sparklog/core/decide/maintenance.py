"""Commands of the maintenance jobs: rewrites, retention, deletion and FLOOR."""

from __future__ import annotations

from sparklog.core.commands import ConfirmDeleted, MoveCleaner, MoveLogStart, RaiseFloor, Swap
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.config.topic_config import TopicConfig
from sparklog.core.decide.append import check_holder, named_in_errors, partition_name
from sparklog.core.decide.changes import delay_begins_ms, held_end
from sparklog.core.decide.groups import expired as expired_offsets
from sparklog.core.decide.groups import without_members_before
from sparklog.core.decide.uploads import check_uploads
from sparklog.core.describe.readable import counted
from sparklog.core.errors import InvalidInput, OffsetOutOfRange, PolicyViolation, SwapRefused
from sparklog.core.lookup import existing_partition
from sparklog.core.maintenance.cleaner import moved, within_log
from sparklog.core.records import At, CleanerMoved, FloorRaised, LogStartMoved, ObjectsDeleted, Record, SlicesSwapped
from sparklog.core.replication.partition_change import change_from
from sparklog.core.replication.rewrites import (
    check_given_up,
    move_log_start,
    rewritten_everywhere,
    swap,
    with_records_lost,
    without,
)
from sparklog.core.row_offsets import records_between
from sparklog.core.state import ClusterState, Partition
from sparklog.core.tables.slice_table import SliceColumns, digest
from sparklog.core.types import (
    NamedObject,
    ObjectKind,
    ObjectNumber,
    OffsetRange,
    Slice,
    TopicPartition,
)


def decide_swap(state: ClusterState, command: Swap, at: At) -> SlicesSwapped:
    """Replace slices with rewritten ones.

    Raises SwapRefused unless the range lies between the log start and HW and still has the slices that the rewrite
    read. Raises PolicyViolation if the swap has fewer records, unless the topic is compacted or the command gives up
    lost records. A swap without new slices only gives up lost records, and needs no leader.
    """
    key = TopicPartition(command.topic_id, command.partition)
    partition = existing_partition(state, key)
    place = partition_name(state, key)
    if command.start >= command.end:
        raise InvalidInput(f"a rewrite of {place} covers at least one offset, found [{command.start}, {command.end})")
    if command.start < partition.log_start:
        raise SwapRefused(
            f"a rewrite of {place} begins at offset {command.start}, but its log start is now {partition.log_start}"
        )
    if command.end > partition.high_watermark:
        raise SwapRefused(
            f"a rewrite of {place} ends at offset {command.end}, above its high watermark {partition.high_watermark}"
        )
    replaced = state.slices.find(key, OffsetRange(command.start, command.end))
    if digest(replaced) != command.digest:
        raise SwapRefused(
            f"the slices of {place} [{command.start}, {command.end}) are not those that the rewrite read: plan it again"
        )
    check_uploads(state, command.objects, [rewritten.new for rewritten in command.slices], ObjectKind.SEGMENT)
    _check_rewritten(command, replaced, partition)
    for object_ in command.objects:
        for holder in object_.holders:
            check_holder(state, holder)
    holders = frozenset(partition.replication.replicas).intersection(
        *(frozenset(holder.store for holder in object_.holders) for object_ in command.objects)
    )
    topic = state.topics[command.topic_id]
    config = state.topic_config(topic)
    _check_count(command, replaced, config, place)
    begin = command.slices[0].start if command.slices else command.end
    new = OffsetRange(begin, held_end(state, key, command.end))
    with named_in_errors(place):
        check_given_up(partition.replication, command.lost, state.registrations())
        before = without(partition.replication, OffsetRange(command.start, begin), command.lost)
        if command.slices:
            after = swap(before, new, holders, config.min_insync_replicas)
        else:
            after = with_records_lost(before, new, config.min_insync_replicas)
    numbers = [ObjectNumber(state.next_object_number + index) for index in range(len(command.objects))]
    return SlicesSwapped(
        command.topic_id,
        command.partition,
        command.start,
        command.end,
        tuple(NamedObject(number, object_) for number, object_ in zip(numbers, command.objects, strict=True)),
        tuple(
            Slice(
                topic_id=command.topic_id,
                partition=command.partition,
                start=rewritten.start,
                end=rewritten.end,
                records=rewritten.new.records,
                object_number=numbers[rewritten.new.object_index],
                position=rewritten.new.position,
                length=rewritten.new.length,
                first_batch=rewritten.new.first_batch,
                batches=rewritten.new.batches,
                min_timestamp_us=rewritten.new.min_timestamp_us,
                max_timestamp_us=rewritten.new.max_timestamp_us,
                append_time_ms=rewritten.append_time_ms,
                timestamp_source=rewritten.timestamp_source,
                leader_epoch=rewritten.leader_epoch,
                producer=rewritten.new.producer,
            )
            for rewritten in command.slices
        ),
        delay_begins_ms(state, at) + config.rewrite_delete_delay_ms,
        change_from(rewritten_everywhere(partition.replication), after, key),
    )


def _check_rewritten(command: Swap, replaced: SliceColumns, partition: Partition) -> None:
    """Check that the swap replaces whole slices, and that the new ones cover the same offsets, except those of records
    that the command gives up as lost.

    `replaced`: the slices that cover the range of the swap now. Raises InvalidInput.
    """
    starts, ends = replaced.columns["start"], replaced.columns["end"]
    if not len(replaced) or starts[0] != command.start or ends[-1] != command.end:
        covered = f"[{starts[0]}, {ends[-1]})" if len(replaced) else "nothing"
        raise InvalidInput(f"a rewrite replaces whole slices: wanted [{command.start}, {command.end}), found {covered}")
    if (starts[1:] != ends[:-1]).any():  # offsets that an election gave up must stay visible
        raise InvalidInput(f"a rewrite covers no gap, found one in [{command.start}, {command.end})")
    before = command.start
    gaps = []
    for rewritten in command.slices:
        if before < rewritten.start:
            gaps.append(OffsetRange(before, rewritten.start))
            before = rewritten.start
        most = records_between(rewritten.start, rewritten.end)
        if (
            rewritten.start != before
            or not rewritten.start < rewritten.end <= command.end
            or rewritten.new.records > most
        ):
            raise InvalidInput(
                f"rewritten slices cover [{command.start}, {command.end}) in order and without a gap, found {rewritten}"
            )
        ours = (rewritten.new.topic_id, rewritten.new.partition) == (command.topic_id, command.partition)
        known_epoch = 0 <= rewritten.leader_epoch <= partition.replication.leader_epoch
        if not ours or not known_epoch or not 0 <= rewritten.append_time_ms < 1 << 53:
            raise InvalidInput(f"a rewritten slice belongs to the partition of the rewrite, found {rewritten}")
        before = rewritten.end
    if before < command.end:
        gaps.append(OffsetRange(before, command.end))
    if gaps != list(command.lost):
        raise InvalidInput(
            f"rewritten slices cover [{command.start}, {command.end}) without a gap, except for lost records, "
            f"{[(range_.start, range_.end) for range_ in command.lost]}, found the gaps "
            f"{[(range_.start, range_.end) for range_ in gaps]}"
        )


def _check_count(command: Swap, replaced: SliceColumns, config: TopicConfig, place: str) -> None:
    """Raise PolicyViolation unless the new slices have as many records as those they replace (`replaced`).

    Fewer are allowed in a compacted topic, or if the command gives up lost records. `place`: the name of the partition,
    for errors.
    """
    before, after = int(replaced.columns["records"].sum()), sum(rewritten.new.records for rewritten in command.slices)
    if after > before or (after < before and not (config.compact or command.lost)):
        raise PolicyViolation(
            f"a rewrite of {place} [{command.start}, {command.end}) keeps {counted(before, 'record')}, or fewer if "
            f"cleanup.policy of the topic is compact, found {after:,}"
        )


def decide_move_log_start(state: ClusterState, command: MoveLogStart, at: At) -> tuple[LogStartMoved, ...]:
    """Raise the log start. Returns () if it is already there or above.

    Any offset up to the high watermark is allowed, also one inside a slice (R-05): the whole slice then stays stored
    until the log start has passed its end. Raises OffsetOutOfRange above the high watermark, and PolicyViolation if
    `cleanup.policy` of the topic does not contain delete.
    """
    key = TopicPartition(command.topic_id, command.partition)
    partition = existing_partition(state, key)
    config = state.topic_config(state.topics[command.topic_id])
    if not config.delete:
        raise PolicyViolation(
            f"records of {partition_name(state, key)} can't be deleted by offset: cleanup.policy of the topic is "
            "compact, wanted one with delete in it"
        )
    if command.to > partition.high_watermark:
        raise OffsetOutOfRange(
            f"the log start of {partition_name(state, key)} can rise to its high watermark {partition.high_watermark}, "
            f"wanted {command.to}"
        )
    if command.to <= partition.log_start:
        return ()
    before = partition.replication
    plain = move_log_start(before, command.to)
    after = move_log_start(before, command.to, max(command.to, held_end(state, key, command.to)))
    return (
        LogStartMoved(
            command.topic_id,
            command.partition,
            command.to,
            delay_begins_ms(state, at) + config.file_delete_delay_ms,
            change_from(plain, after, key),
        ),
    )


def decide_move_cleaner(state: ClusterState, command: MoveCleaner, at: At) -> tuple[Record, ...]:
    """Move the cleaner's position forward. Raises InvalidInput if the new position is above the high watermark.

    Raises SwapRefused if another run has moved the cleaner since the command was planned. If the state has no cleaner
    any more because the log start has passed its position, the command is accepted: the records above the log start are
    still as the command says.
    """
    key = TopicPartition(command.topic_id, command.partition)
    partition = existing_partition(state, key)
    before = state.cleaners.get(key)
    position = None if before is None else before.position
    passed = position is None and command.position is not None and command.position <= partition.log_start
    if position != command.position and not passed:
        raise SwapRefused(
            f"the cleaner of {partition_name(state, key)} was at {command.position} when the compaction was planned, "
            f"it is now at {position}: plan it again"
        )
    if command.to < (position or 0) or command.to > partition.high_watermark:
        raise InvalidInput(
            f"the cleaner of {partition_name(state, key)} can move from {position or 0} to the high watermark "
            f"{partition.high_watermark}, wanted {command.to}"
        )
    passed_at_ms = delay_begins_ms(state, at) if command.passes_tombstones else None
    whole = moved(before, command.to, command.dropped_below, passed_at_ms, keeps_superseded=command.keeps_superseded)
    after = within_log(whole, partition.log_start, partition.next_offset)
    return () if after is None or after == before else (CleanerMoved(command.topic_id, command.partition, after),)


def decide_confirm_deleted(state: ClusterState, command: ConfirmDeleted) -> tuple[Record, ...]:
    """Drop retired objects that are gone from every store. Those that the state has dropped already are skipped.

    Raises InvalidInput if an object is not retired.
    """
    still = [number for number in state.objects.present(command.numbers) if number not in state.retired]
    if still:
        raise InvalidInput(f"objects {still[:5]} are not retired: slices name them")
    numbers = tuple(number for number in command.numbers if number in state.retired)
    return (ObjectsDeleted(numbers),) if numbers else ()


def decide_raise_floor(state: ClusterState, command: RaiseFloor, at: At) -> tuple[Record, ...]:
    """Raise FLOOR. Forget producers that were silent for `producer.id.expiration.ms`, and expired offsets of groups.

    Also remove the group members that `silent_members` returns for the command's entry `silent_before`.
    """
    now_ms = min(at.time_ms, command.shown_ms)
    if command.floor > state.n + 1:
        raise InvalidInput(f"FLOOR can rise to the end of the chain, {state.n + 1}, wanted {command.floor}")
    if command.silent_before > state.n + 1:
        raise InvalidInput(
            f"the chain ends at {state.n + 1}, members were named as silent since {command.silent_before}"
        )
    silent_since_ms = now_ms - effective_cluster(state.config).producer_id_expiration_ms
    silent = (producer.producer_id for producer in state.producers.values() if producer.last_used_ms < silent_since_ms)
    expired = tuple(sorted(silent))
    offsets = expired_offsets(state, now_ms)
    forgotten: tuple[Record, ...] = without_members_before(state, command.silent_before, at)
    forgotten += () if offsets is None else (offsets,)
    if command.floor <= state.floor and not expired:
        return forgotten
    return (FloorRaised(max(command.floor, state.floor), expired), *forgotten)
