"""The rules of the log once more, in the slowest and plainest way: lists of slices, searched from the front.

The twin takes the same commands as `decide` and `apply` and says what must come of them. Where it expects a refusal it
gives the error's type.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sparklog.core.commands import (
    AddPartitions,
    AllocateProducer,
    Append,
    Command,
    ConfirmDeleted,
    CreateTopic,
    DeleteTopic,
    MoveLogStart,
    RaiseFloor,
    Submission,
    Swap,
)
from sparklog.core.errors import (
    DuplicateResource,
    InvalidInput,
    InvalidPartitions,
    InvalidProducerEpoch,
    OffsetOutOfRange,
    OutOfOrderSequence,
    SparklogError,
    TopicAlreadyExists,
    UnknownProducerId,
    UnknownTopicOrPartition,
    WriteExpired,
)

Place = tuple[int, int]  # topic id, partition
Range = tuple[int, int, int, int]  # topic id, partition, start, end


@dataclass
class TwinSlice:
    """Records [start, end): `length` bytes at `position` of the object with this upload id."""

    start: int
    end: int
    upload_id: str
    position: int
    length: int


@dataclass
class TwinPartition:
    next: int = 0
    log_start: int = 0
    slices: list[TwinSlice] = field(default_factory=list)


@dataclass
class TwinProducer:
    epoch: int = 0
    batches: dict[Place, list[tuple[int, int, int, int]]] = field(default_factory=dict)  # first, last, start, end


@dataclass
class Told:
    """What an author is told: the ranges that were written, or an error."""

    ranges: tuple[Range, ...] = ()
    error: type[SparklogError] | None = None


@dataclass
class SlowTwin:
    """`n` is the last entry. Every upload that was ever named is live, or in `retired`, or in `deleted`."""

    n: int = -1
    floor: int = 0
    topics: dict[int, str] = field(default_factory=dict)
    partitions: dict[Place, TwinPartition] = field(default_factory=dict)
    producers: list[TwinProducer] = field(default_factory=list)
    applications: dict[str, tuple[int, Told]] = field(default_factory=dict)
    results: dict[str, tuple[int, Told]] = field(default_factory=dict)  # n0, what was told
    numbers: dict[int, str] = field(default_factory=dict)  # object number -> upload id
    retired: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    topics_made: int = 0
    last_swap: tuple[str, ...] = ()

    def submit(self, submission: Submission) -> Told:
        """What comes of it; if it is no error and no repeat, it is the next entry or changes nothing."""
        if submission.command_id in self.results:
            return self.results[submission.command_id][1]
        command = submission.command
        if isinstance(command, Append):
            known = self._known(command)
            if known is not None:
                return known
        oldest = min([submission.n0, *(each.n0 for each in getattr(command, "objects", ()))])
        if oldest < self.floor:
            return Told(error=WriteExpired)
        if isinstance(command, Append) and not self.named().isdisjoint(each.upload_id for each in command.objects):
            return Told(error=DuplicateResource)
        before = self.n
        told = self._do(command)
        by_producer = isinstance(command, Append) and command.slices[0].producer is not None
        if self.n > before and submission.n0 >= self.floor and not by_producer:
            self.results[submission.command_id] = (submission.n0, told)
        return told

    def live(self) -> set[str]:
        """The uploads that slices name."""
        return {each.upload_id for partition in self.partitions.values() for each in partition.slices}

    def named(self) -> set[str]:
        """The uploads that can't be named again."""
        return self.live() | self.retired

    # ---- commands -------------------------------------------------------------------------------

    def _do(self, command: Command) -> Told:
        match command:
            case CreateTopic():
                if command.name in self.topics.values():
                    return Told(error=TopicAlreadyExists)
                self.topics_made += 1
                self.topics[self.topics_made] = command.name
                for index in range(command.partitions or 1):
                    self.partitions[self.topics_made, index] = TwinPartition()
            case AddPartitions():
                if command.topic_id not in self.topics:
                    return Told(error=UnknownTopicOrPartition)
                count = sum(1 for topic_id, _ in self.partitions if topic_id == command.topic_id)
                if command.total <= count:
                    return Told(error=InvalidPartitions)
                for index in range(count, command.total):
                    self.partitions[command.topic_id, index] = TwinPartition()
            case DeleteTopic():
                if command.topic_id not in self.topics:
                    return Told(error=UnknownTopicOrPartition)
                del self.topics[command.topic_id]
                gone = [place for place in self.partitions if place[0] == command.topic_id]
                self._forget({place: (0, self.partitions[place].next) for place in gone})
                for place in gone:
                    del self.partitions[place]
                    for producer in self.producers:
                        producer.batches.pop(place, None)
            case Append():
                return self._append(command)
            case Swap():
                self._swap(command)
            case MoveLogStart():
                found = self.partitions.get((command.topic_id, command.partition))
                if found is None:
                    return Told(error=UnknownTopicOrPartition)
                if command.to > found.next:
                    return Told(error=OffsetOutOfRange)
                if command.to <= found.log_start:
                    return Told()
                found.log_start = command.to
                self._forget({(command.topic_id, command.partition): (0, command.to)})
            case ConfirmDeleted():
                uploads = {self.numbers[number] for number in command.numbers if number in self.numbers}
                if uploads & self.live():
                    return Told(error=InvalidInput)
                if not uploads & self.retired:
                    return Told()
                self.deleted |= uploads & self.retired
                self.retired -= uploads
            case RaiseFloor():
                if command.floor > self.n + 1:
                    return Told(error=InvalidInput)
                if command.floor <= self.floor:
                    return Told()
                self.floor = command.floor
                self.results = {each: kept for each, kept in self.results.items() if kept[0] >= self.floor}
            case AllocateProducer():
                if command.producer_id is None:
                    self.producers.append(TwinProducer())
                elif command.producer_id >= len(self.producers):
                    return Told(error=UnknownProducerId)
                else:
                    known = self.producers[command.producer_id]
                    if command.producer_epoch not in (None, known.epoch):
                        return Told(error=InvalidProducerEpoch)
                    for batch in command.in_doubt:
                        landed = known.batches.get((batch.topic_id, batch.partition), [])
                        if any(last >= batch.first_sequence for _, last, *_ in landed):
                            return Told(error=OutOfOrderSequence)
                    self.producers[command.producer_id] = TwinProducer(known.epoch + 1)
            case _:
                raise AssertionError(f"the twin knows no {command}")
        self.n += 1
        return Told()

    def _known(self, command: Append) -> Told | None:
        if command.application is not None:
            version, told = self.applications.get(command.application.app_id, (-1, Told()))
            if command.application.version <= version:
                return told
        (first, *_), last = command.slices, command.slices[-1]
        if first.producer is None or last.producer is None:
            return None
        if first.producer.producer_id >= len(self.producers):
            return Told(error=UnknownProducerId)
        producer = self.producers[first.producer.producer_id]
        if producer.epoch != first.producer.producer_epoch:
            return Told(error=InvalidProducerEpoch)
        kept = producer.batches.get((first.topic_id, first.partition), [])[-5:]
        for batch in kept:
            if batch[:2] == (first.producer.first_sequence, last.producer.last_sequence):
                return Told(((first.topic_id, first.partition, batch[2], batch[3]),))
        if first.producer.first_sequence != (kept[-1][1] + 1 if kept else 0):
            return Told(error=OutOfOrderSequence)
        return None

    def _append(self, command: Append) -> Told:
        if any((each.topic_id, each.partition) not in self.partitions for each in command.slices):
            return Told(error=UnknownTopicOrPartition)
        written: dict[Place, tuple[int, int]] = {}
        for each in command.slices:
            place = (each.topic_id, each.partition)
            found = self.partitions[place]
            start, found.next = found.next, found.next + each.records
            upload_id = command.objects[each.object_index].upload_id
            found.slices.append(TwinSlice(start, found.next, upload_id, each.position, each.length))
            written[place] = (written.get(place, (start, 0))[0], found.next)
        for each_object in command.objects:
            self.numbers[len(self.numbers)] = each_object.upload_id
        told = Told(tuple((*place, start, end) for place, (start, end) in written.items()))
        self.n += 1
        if command.application is not None:
            self.applications[command.application.app_id] = (command.application.version, told)
        (first, *_), last = command.slices, command.slices[-1]
        if first.producer is not None and last.producer is not None:
            batches = self.producers[first.producer.producer_id].batches.setdefault(
                (first.topic_id, first.partition), []
            )
            batches.append((first.producer.first_sequence, last.producer.last_sequence, *told.ranges[0][2:]))
        return told

    def _swap(self, command: Swap) -> None:
        """A swap that fits: the machine makes no others here."""
        found = self.partitions[command.topic_id, command.partition]
        for each in command.objects:
            self.numbers[len(self.numbers)] = each.upload_id
        gone = [each for each in found.slices if command.start <= each.start < command.end]
        found.slices = [each for each in found.slices if each not in gone]
        for new in command.slices:
            upload_id = command.objects[new.new.object_index].upload_id
            found.slices.append(TwinSlice(new.start, new.end, upload_id, new.new.position, new.new.length))
        found.slices.sort(key=lambda each: each.start)
        self.retired |= {each.upload_id for each in gone} - self.live()

    def _forget(self, ranges: dict[Place, tuple[int, int]]) -> None:
        """Slices wholly inside the ranges are forgotten."""
        for place, (start, end) in ranges.items():
            found = self.partitions[place]
            gone = [each for each in found.slices if each.start >= start and each.end <= end]
            found.slices = [each for each in found.slices if each not in gone]
            self.retired |= {each.upload_id for each in gone} - self.live()
