"""Plans the micro-batches of a stream: where each one ends, and its tasks.

    start_positions (first run) -> [newest_positions -> next_positions -> tasks_between] for each micro-batch

Nothing here does I/O, except look-ups of starting timestamps. Spark keeps the positions (`StreamPositions`) in its
checkpoint. After a restart it may ask for the tasks of a micro-batch again, although topics and log starts may have
changed since.
"""

from __future__ import annotations

from collections.abc import Iterable

from sparklog.client.plans.read_plan import offsets_to_read, partitions_to_read, tasks_of
from sparklog.core.errors import DataLoss, InconsistentClusterId, UnknownTopicOrPartition
from sparklog.core.reading.plan import RangeToRead, WeighedRange, offset_after_bytes, weigh
from sparklog.core.reading.positions import Position, valid_up_to
from sparklog.core.reading.stream_positions import StreamPositions
from sparklog.core.reading.trigger_limits import TriggerLimits, shares
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.types import Offset, OffsetRange, Place, TopicPartition
from sparklog.log.cluster_stores import Stores
from sparklog.options.typed import AssignPartitions, ReadOptions, SubscribeTopics

NEW_PARTITION_STARTS: int = 0  # a log start above it means that the stream has missed records


def start_positions(state: ClusterState, options: ReadOptions, stores: Stores, warnings: list[str]) -> StreamPositions:
    """Return the positions at which a stream's first run begins, by its options.

    `warnings` and errors are those of `offsets_to_read`.
    """
    ranges = offsets_to_read(state, options, stores, warnings)
    return _positions(state, ((topic, partition, offsets.start) for topic, partition, offsets in ranges))


def newest_positions(state: ClusterState, options: ReadOptions, known: StreamPositions | None) -> StreamPositions:
    """The high watermark of each partition of the stream. `known`: the stream's positions; None before its first batch.

    A topic that does not exist is left out in three cases: `known` has a position in the topic (`losses_at` reports the
    loss), `known` is None, or the option failOnDataLoss is false. In any other case raises UnknownTopicOrPartition.
    """
    assert options.subscription is not None
    had = None if known is None else {topic for topic, _ in known.at}
    gone = _named(options) if had is None or not options.fail_on_data_loss else had
    read = partitions_to_read(state, options.subscription, gone)
    return _positions(state, ((topic, partition, partition.high_watermark) for topic, partition in read))


def not_beyond(newest: StreamPositions, target: StreamPositions) -> StreamPositions:
    """Return the positions in `newest`, but none above that in `target`. Leave out partitions that `target` lacks.

    A topic that was deleted and created again since `target` is another topic, so its partitions are left out, too.
    """
    at = {}
    for place, position in newest.at.items():
        last = target.at.get(place)
        if last is not None and last.topic_id == position.topic_id:
            at[place] = min(position, last, key=_offset_of)
    return StreamPositions(newest.chain_id, at)


def next_positions(
    state: ClusterState, start: StreamPositions, newest: StreamPositions, limits: TriggerLimits
) -> StreamPositions:
    """The end of the micro-batch that begins at `start` and reads towards `newest`, as far as `limits` allow.

    A partition without records to read keeps its position. If this position is above the end of the log (`losses_at`
    reports that), the micro-batch ends at the end of the log.
    """
    unread = {place: _unread(state, start, place, end) for place, end in newest.at.items()}
    ends = {place: offsets.end for place, offsets in unread.items()}
    if limits.max_offsets is not None:
        weighed = {
            place: _weighed(state, newest.at[place], offsets)
            for place, offsets in unread.items()
            if offsets.start < offsets.end
        }
        backlogs = {place: range_.records for place, range_ in weighed.items()}
        for place, share in shares(limits.max_offsets, backlogs).items():
            ends[place] = min(ends[place], weighed[place].after(share))
    if limits.max_bytes is not None:
        sizes = {place: _stored_bytes(state, newest.at[place], offsets) for place, offsets in unread.items()}
        for place, share in shares(limits.max_bytes, sizes).items():
            ends[place] = min(ends[place], offset_after_bytes(state, _key(newest.at[place]), unread[place], share))
    at = {}
    for place, position in newest.at.items():
        known = start.at.get(place)
        is_same = known is not None and known.topic_id == position.topic_id
        is_beyond = known is not None and known.offset > _log_end(state, position)
        if known is not None and is_same and ends[place] <= known.offset and not is_beyond:
            at[place] = known
        else:
            at[place] = _moved(position, ends[place])
    return StreamPositions(newest.chain_id, at)


def new_offsets(state: ClusterState, start: StreamPositions, newest: StreamPositions) -> int:
    """Number of offsets to read from `start` to `newest`, in all partitions together."""
    unread = (_unread(state, start, place, end) for place, end in newest.at.items())
    return sum(offsets.end - offsets.start for offsets in unread)


def tasks_between(
    state: ClusterState, start: StreamPositions, end: StreamPositions, options: ReadOptions, losses: list[str]
) -> list[list[RangeToRead]]:
    """Return the tasks of the micro-batch from `start` to `end`. Leaves out records that are gone.

    Adds a text to `losses` for each partition with such records. Raises the errors of `check_cluster`.
    """
    check_cluster(state, end)
    ranges: list[tuple[Topic, Partition, OffsetRange]] = []
    for place, position in sorted(end.at.items()):
        begin = _begin(start, place, position)
        if begin >= position.offset:
            continue
        wanted = f"{_name(place)}: wanted offsets [{begin}, {position.offset})"
        topic = state.topics.get(position.topic_id)
        partition = state.partition(position.topic_id, position.partition)
        if topic is None or partition is None:
            losses.append(f"{wanted}, {_gone(state, place, position)}")
            continue
        low, high = partition.log_start, partition.high_watermark
        if begin < low or position.offset > high:
            losses.append(f"{wanted}, the readable range is [{low}, {high})")
        ranges.append((topic, partition, OffsetRange(max(begin, low), min(position.offset, high))))
    return tasks_of(state, ranges, options)


def losses_at(state: ClusterState, start: StreamPositions, newest: StreamPositions, options: ReadOptions) -> list[str]:
    """Return texts that describe the losses of a stream at `start`. `newest`: from `newest_positions`.

    These are losses:

    - Records were deleted before the stream read them, also in a partition that is new to the stream.
    - An unclean election gave up records that the stream has read.
    - A position of the stream is above the end of the log.
    - A partition in `start` was deleted, or is no longer subscribed.
    - A topic in the options does not exist, and `start` has no position in it.

    Raises the errors of `check_cluster`.
    """
    check_cluster(state, start)
    losses = []
    for place, position in sorted(start.at.items()):
        name = _name(place)
        try:
            valid_to = valid_up_to(state, position)
        except UnknownTopicOrPartition:
            losses.append(f"{name}: the stream is at offset {position.offset}, {_gone(state, place, position)}")
            continue
        if place not in newest.at:
            losses.append(
                f"{name}: the checkpoint is at offset {position.offset}, and the query no longer subscribes to it"
            )
            continue
        if valid_to < position.offset:
            losses.append(
                f"{name}: the stream has read up to {position.offset}, and an unclean election gave up records from "
                f"{valid_to} on: the stream has used records that are not in the log"
            )
        log_start, log_end = _partition(state, position).log_start, _log_end(state, position)
        if position.offset < log_start:
            losses.append(f"{name}: the stream is at offset {position.offset}, the log starts at {log_start}")
        if position.offset > log_end:
            losses.append(f"{name}: the stream is at offset {position.offset}, the log ends at {log_end}")
    for place, position in sorted(newest.at.items()):
        log_start = _partition(state, position).log_start
        if place not in start.at and log_start > NEW_PARTITION_STARTS:
            losses.append(f"{_name(place)}: is new to the stream, and its log starts at {log_start}, not at 0")
    had = {topic for topic, _ in start.at}
    losses += [f"{name}: there is no such topic" for name in sorted(_named(options) - state.topic_ids.keys() - had)]
    return losses


def check_cluster(state: ClusterState, positions: StreamPositions) -> None:
    """Raise InconsistentClusterId if `positions` are from another cluster, or from before this cluster was restored."""
    if positions.chain_id == state.chain_id:
        return
    if positions.chain_id in state.ancestors:
        why = (
            "it was restored from a copy of its metadata, so records that the stream read may be gone, and their "
            "offsets used for others"
        )
    else:
        why = "it is another one, or it was deleted and created again"
    raise InconsistentClusterId(
        f"the checkpoint is of cluster {positions.chain_id}, found cluster {state.chain_id}: {why}: begin again with "
        "a new checkpointLocation, and choose the start with startingOffsets"
    )


def data_loss(losses: Iterable[str]) -> DataLoss:
    """The error for lost records of a stream, with all texts in `losses`."""
    return DataLoss(f"{'; '.join(losses)}; failOnDataLoss=false continues with the existing records")


def _name(place: Place) -> str:
    return f"{place[0]}-{place[1]}"


def _gone(state: ClusterState, place: Place, position: Position) -> str:
    again = state.topic_ids.get(place[0])
    if again is None:
        return "the topic was deleted"
    return f"the topic was deleted and created again (its id was {position.topic_id}, and is {again})"


def _positions(state: ClusterState, offsets: Iterable[tuple[Topic, Partition, Offset]]) -> StreamPositions:
    at: dict[Place, Position] = {
        (topic.name, partition.partition): Position(
            state.chain_id, topic.topic_id, partition.partition, offset, partition.replication.leader_epoch
        )
        for topic, partition, offset in offsets
    }
    return StreamPositions(state.chain_id, at)


def _begin(start: StreamPositions, place: Place, end: Position) -> Offset:
    """The first offset, in one partition, of a micro-batch from `start` to `end`; 0 if `start` lacks this partition.

    Also 0 if the topic was deleted and created again after `start`.
    """
    known = start.at.get(place)
    return known.offset if known is not None and known.topic_id == end.topic_id else Offset(NEW_PARTITION_STARTS)


def _unread(state: ClusterState, start: StreamPositions, place: Place, end: Position) -> OffsetRange:
    """The offsets to read in one partition from `start` to `end`, without those below the log start.

    Empty if no offsets are left.
    """
    begin = max(min(_begin(start, place, end), _log_end(state, end)), _partition(state, end).log_start)
    return OffsetRange(begin, max(begin, end.offset))


def _moved(position: Position, offset: Offset) -> Position:
    return Position(position.chain_id, position.topic_id, position.partition, offset, position.leader_epoch)


def _partition(state: ClusterState, position: Position) -> Partition:
    return state.partitions[_key(position)]


def _log_end(state: ClusterState, position: Position) -> Offset:
    """The offset that the next record of the partition gets. It may be above the high watermark."""
    return _partition(state, position).replication.next_offset


def _key(position: Position) -> TopicPartition:
    return TopicPartition(position.topic_id, position.partition)


def _stored_bytes(state: ClusterState, position: Position, offsets: OffsetRange) -> int:
    """The number of stored bytes of the records in a range of offsets. At least 1, unless the range is empty.

    With 0 bytes, a limit in bytes would give the partition no share of a micro-batch, and the stream would not pass the
    range.
    """
    if offsets.start >= offsets.end:
        return 0
    return max(1, _weighed(state, position, offsets).size_bytes)


def _weighed(state: ClusterState, position: Position, offsets: OffsetRange) -> WeighedRange:
    return weigh(state, position.topic_id, position.partition, offsets)


def _offset_of(position: Position) -> Offset:
    return position.offset


def _named(options: ReadOptions) -> set[str]:
    match options.subscription:
        case SubscribeTopics(topics=topics):
            return set(topics)
        case AssignPartitions(partitions=partitions):
            return set(partitions)
        case _:
            return set()
