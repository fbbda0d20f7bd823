"""Writers: plain ones, idempotent producers, and applications that count their writes and survive their crashes.

Each of them: plan on what it has read, upload to the stores in sync, read their INCARNATION, commit;
refused under another leader, it submits the same command id and n0 again with what is true then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from sparklog.core.commands import AllocateProducer, Append, Application, PartitionEpoch, Submission
from sparklog.core.errors import (
    FencedLeaderEpoch,
    InvalidInput,
    InvalidProducerEpoch,
    Landed,
    NoReplicaOnline,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OutcomeUnknown,
    OutOfOrderSequence,
    RequestTimedOut,
    SparklogError,
    StaleBrokerEpoch,
    StoreUnavailable,
    UnknownLeaderEpoch,
    UnknownProducerId,
    WriteExpired,
    WriteLost,
)
from sparklog.core.idempotence.producers import span_of
from sparklog.core.records import CommandResult
from sparklog.core.replication.replica_append import Acks, committed
from sparklog.core.state import ClusterState, Topic
from sparklog.core.types import (
    CommandId,
    EntryNumber,
    Holder,
    NewSlice,
    Offset,
    OffsetRange,
    PartitionIndex,
    StoreId,
    TopicPartition,
)
from tests.sim.process import Process, Steps
from tests.sim.uploads import Encoded, encode, holders_among, put_on

TRIES = 8
REFUSED_FOR_NOW = (
    FencedLeaderEpoch,
    UnknownLeaderEpoch,
    NotLeaderOrFollower,
    StaleBrokerEpoch,
    NoReplicaOnline,
    NotEnoughReplicas,
)
GONE_PRODUCER = (UnknownProducerId, InvalidProducerEpoch, OutOfOrderSequence, WriteLost)


@dataclass
class Write:
    """What is to be written: the values of each partition, and how. `is_cut`: of one partition, in two objects."""

    topic: str
    parts: dict[PartitionIndex, tuple[bytes, ...]]
    acks: Acks = Acks.ALL
    pull: bool = False
    take_over: bool = False
    is_cut: bool = False
    producer: tuple[int, int] | None = None  # id, and first sequence
    application: Application | None = None

    def objects(self) -> list[dict[PartitionIndex, tuple[bytes, ...]]]:
        """The values of each object."""
        (partition, values), *others = self.parts.items()
        if others or not self.is_cut or len(values) == 1:
            return [self.parts]
        return [{partition: values[:1]}, {partition: values[1:]}]


class GaveUp(Exception):
    """Tried long enough: the write may be there or not."""


class Unsent(NoReplicaOnline):
    """There is no store to name, so nothing was asked: this says nothing of earlier tries."""


@dataclass
class Memory:
    """What a writer keeps through crashes: an application's checkpoint."""

    version: int = 0
    write: Write | None = None
    lives: int = 0
    counts: dict[str, int] = field(default_factory=dict)


def plain_writer(process: Process) -> Steps:
    """Writes to one partition or several; gives up what it hears nothing of."""
    memory = _memory(process)
    while not process.world.is_ending:
        yield process.dice.randint(2, 40)
        try:
            state = yield from process.catch_up()
        except SparklogError:
            continue
        topic = _some_topic(process, state)
        if topic is None:
            continue
        acks = process.dice.choice((Acks.ALL, Acks.ALL, Acks.LEADER, Acks.LEADER, Acks.NONE))
        partitions = _partitions(process, topic, several=acks is Acks.ALL)
        write = Write(
            topic.name,
            {partition: _values(process, memory, "w") for partition in partitions},
            acks,
            pull=len(partitions) == 1 and process.dice.random() < 0.4,
            take_over=process.dice.random() < 0.5,
            is_cut=process.dice.random() < 0.3,
        )
        yield from _tried(process, write)


def producer(process: Process) -> Steps:
    """An idempotent producer: retries for ever under its sequences, with a new id if the chain has lost its own."""
    memory = _memory(process)
    producer_id: int | None = None
    stream = ""
    sequences: dict[tuple[int, PartitionIndex], int] = {}
    write: Write | None = None
    while write is not None or not process.world.is_ending:
        yield process.dice.randint(2, 30)
        try:
            if producer_id is None:
                producer_id = (yield from process.submit(AllocateProducer())).producer_id
                stream, sequences, write = f"p{producer_id}", {}, None
            state = yield from process.catch_up()
            topic = _some_topic(process, state) if write is None else state.topic_named(write.topic)
            if topic is None:
                write = None
                continue
            if write is None:
                (partition,) = _partitions(process, topic, several=False)
                values = _values(process, memory, stream)
                first = sequences.get((topic.topic_id, partition), 0)
                acks = process.dice.choice((Acks.ALL, Acks.ALL, Acks.LEADER))
                pull = process.dice.random() < 0.3
                is_cut = process.dice.random() < 0.3
                write = Write(
                    topic.name, {partition: values}, acks, pull, is_cut=is_cut, producer=(producer_id or 0, first)
                )
            ((partition, values),) = write.parts.items()
            result = yield from written(process, write)
            del result
            sequences[topic.topic_id, partition] = (write.producer or (0, 0))[1] + len(values)
            write = None
        except GONE_PRODUCER:
            producer_id = None
        except GaveUp:
            continue
        except SparklogError as error:
            process.refused(error)
            if write is not None and error.code == "UNKNOWN_TOPIC_OR_PARTITION":
                producer_id = None


def application(process: Process) -> Steps:
    """Counts its writes: what it was writing when it died, it writes again under the same version."""
    memory = _memory(process)
    while memory.write is not None or not process.world.is_ending:
        yield process.dice.randint(2, 40)
        if memory.write is None:
            try:
                state = yield from process.catch_up()
            except SparklogError:
                continue
            topic = _some_topic(process, state)
            if topic is None:
                continue
            memory.version += 1
            memory.write = Write(
                topic.name,
                {each: _values(process, memory, "a") for each in _partitions(process, topic, several=True)},
                take_over=process.dice.random() < 0.5,
                application=Application(process.name, memory.version),
            )
        done = yield from _tried(process, memory.write)
        if done:
            memory.write = None


def _tried(process: Process, write: Write) -> Steps:
    """Write it. Returns whether there is nothing more to do about it."""
    try:
        yield from written(process, write)
    except GaveUp:
        return write.application is None
    except SparklogError as error:
        process.refused(error)
        return write.application is None or error.code == "UNKNOWN_TOPIC_OR_PARTITION"
    return True


# ---- one write --------------------------------------------------------------------------------------


def written(process: Process, write: Write) -> Steps:
    """Upload and commit. Returns the result; raises the command's error, or GaveUp."""
    if process.head.n < 0 or process.dice.random() < 0.7:
        yield from process.catch_up()
    state = process.state
    topic = _topic(state, write)
    encoded = encode(process, topic, write.objects())
    n0 = process.position
    wanted = _stores(state, topic, write)
    taken = yield from put_on(encoded.objects, wanted)
    if process.stall == "stalled-upload":
        process.stall = ""
        process.world.faults.count("stalled-upload")
        yield process.dice.randint(3_000, 12_000)
    holders = yield from holders_among(state, taken)
    return (yield from _committed(process, write, encoded, n0, holders))


def _committed(process: Process, write: Write, encoded: Encoded, n0: EntryNumber, holders: Sequence[Holder]) -> Steps:
    """Submit the same command until there is an answer."""
    command_id = CommandId(process.new_id())
    in_doubt = is_refused = False
    state = process.state
    try:
        for _ in range(TRIES):
            try:
                topic = _topic(state, write)
                command = _command(state, topic, write, encoded, holders)
                result = yield from process.commit(Submission(command_id, n0, command, in_doubt))
                yield from _visible(process, write, encoded, result)
                process.world.acknowledge(process, write, result)
                return result
            except REFUSED_FOR_NOW as error:
                in_doubt = in_doubt or error.landed is Landed.UNKNOWN
                is_refused = error.landed is Landed.NO and not isinstance(error, Unsent)
                process.refused(error)
            except (OutcomeUnknown, RequestTimedOut, StoreUnavailable) as error:
                in_doubt = in_doubt or error.landed is not Landed.NO
                is_refused = False
            yield process.dice.randint(30, 300)
            try:
                state = yield from process.catch_up()
                holders = yield from _holders_now(state, write, encoded, holders)
            except (StoreUnavailable, OutcomeUnknown):
                continue
    except SparklogError as error:
        if isinstance(error, WriteLost):
            _check_lost(process, write, error)
        if error.landed is Landed.NO:
            process.world.history.refused |= encoded.upload_ids
        elif write.producer is None and write.application is None:
            raise GaveUp from error
        if type(error) is InvalidInput:
            raise AssertionError(f"{process.name}: {error}") from error
        if isinstance(error, WriteExpired):
            raise GaveUp from error
        raise
    if is_refused:
        process.world.history.refused |= encoded.upload_ids
    raise GaveUp


def _check_lost(process: Process, write: Write, error: WriteLost) -> None:
    """Check 5: what its author is told of a loss."""
    history = process.world.history
    process.world.faults.count("write-lost")
    left = [value for values in write.parts.values() for value in values if value in history.live]
    is_whole = len(left) == sum(map(len, write.parts.values()))
    assert not is_whole, f"5: all of {left} is there: {error}"
    assert not left or error.landed is not Landed.NO, f"5: {left} is there: {error}"


def _holders_now(state: ClusterState, write: Write, encoded: Encoded, holders: Sequence[Holder]) -> Steps:
    """Who holds the objects under the numbers of now. The leaders' stores get them if they have not."""
    topic = _topic(state, write)
    valid = [each for each in holders if state.registrations().get(each.store) == each.registration]
    leaders = {state.partition(topic.topic_id, partition).replication.leader for partition in write.parts}  # type: ignore[union-attr]
    missing = sorted(store for store in leaders if store is not None and store not in {each.store for each in valid})
    if missing:
        taken = yield from put_on(encoded.objects, missing)
        valid += yield from holders_among(state, taken)
    return valid


def _command(state: ClusterState, topic: Topic, write: Write, encoded: Encoded, holders: Sequence[Holder]) -> Append:
    if not holders:
        raise Unsent(f"no store has taken {sorted(encoded.upload_ids)}")
    slices = encoded.slices
    if write.producer is not None:
        slices = tuple(_in_sequence(write.producer, slices))
    epochs = []
    for partition in write.parts:
        known = state.partition(topic.topic_id, partition)
        assert known is not None
        epochs.append(PartitionEpoch(topic.topic_id, partition, known.replication.leader_epoch))
    return Append(
        tuple(msgspec.structs.replace(each, holders=tuple(holders)) for each in encoded.named),
        slices,
        tuple(epochs),
        write.application,
        acks=write.acks,
        pull=write.pull,
        take_over=write.take_over and write.acks is Acks.ALL and not write.pull,
    )


def _in_sequence(producer: tuple[int, int], slices: Sequence[NewSlice]) -> Iterator[NewSlice]:
    producer_id, first = producer
    for each in slices:
        yield msgspec.structs.replace(each, producer=span_of(producer_id, 0, first, each.records))
        first += each.records


def _visible(process: Process, write: Write, encoded: Encoded, result: CommandResult) -> Steps:
    """With acks=all and pull the answer waits for HW."""
    if not (write.pull and write.acks is Acks.ALL):
        return
    for _ in range(20):
        state = yield from process.catch_up()
        (each,) = result.ranges
        key = TopicPartition(each.topic_id, each.partition)
        partition = state.partitions.get(key)
        if partition is None:
            raise GaveUp
        if partition.log_start > each.start:
            return
        named = any(
            known.upload_id in encoded.upload_ids
            for part in state.slices.find(key, OffsetRange(each.start, each.end))
            if (known := state.objects.get(part.object_number)) is not None
        ) or _is_rolled(state, key, each.start)
        min_isr = state.topic_config(state.topics[each.topic_id]).min_insync_replicas
        try:
            if committed(partition.replication, each.end, min_isr, named=named):
                return
        except SparklogError as error:
            raise GaveUp from error
        yield process.dice.randint(50, 400)
    raise GaveUp


def _is_rolled(state: ClusterState, key: TopicPartition, start: Offset) -> bool:
    """The slice is part of a sealed segment by now: it was below HW then."""
    return any(part.start < start for part in state.slices.find(key, OffsetRange(start, Offset(start + 1))))


def _stores(state: ClusterState, topic: Topic, write: Write) -> list[StoreId]:
    """All stores in sync of the partitions written to; with pull only the leaders'."""
    stores: dict[StoreId, None] = {}
    for partition in write.parts:
        known = state.partition(topic.topic_id, partition)
        assert known is not None
        value = known.replication
        if value.leader is not None:
            stores[value.leader] = None
        if not write.pull:
            stores.update(dict.fromkeys(value.isr))
    return [store for store in stores if not state.stores[store].fenced]


def _topic(state: ClusterState, write: Write) -> Topic:
    topic = state.topic_named(write.topic)
    if topic is None or any(partition >= topic.partitions for partition in write.parts):
        raise GaveUp
    return topic


def _some_topic(process: Process, state: ClusterState) -> Topic | None:
    names = sorted(state.topic_ids)
    return state.topic_named(process.dice.choice(names)) if names else None


def _partitions(process: Process, topic: Topic, *, several: bool) -> list[PartitionIndex]:
    count = process.dice.randint(1, topic.partitions) if several else 1
    return [PartitionIndex(each) for each in sorted(process.dice.sample(range(topic.partitions), count))]


def _values(process: Process, memory: Memory, stream: str) -> tuple[bytes, ...]:
    """One to three new values."""
    stream = stream if stream.startswith("p") else f"{stream}{process.name}"
    count = memory.counts.get(stream, 0)
    memory.counts[stream] = count + (records := process.dice.randint(1, 3))
    return tuple(f"{stream}/{each}".encode() for each in range(count, count + records))


def _memory(process: Process) -> Memory:
    return process.world.memory.setdefault(process.name, Memory())
