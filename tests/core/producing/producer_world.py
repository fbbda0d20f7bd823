"""A producer's flushes on their way to a real chain of decisions, where anything may go wrong on the way.

world = ProducerWorld(seed=7)
world.run(steps=200)       # sends, uploads, commits; replies get lost, and what is lost may arrive later
world.settle()             # nothing goes wrong any more
world.check()              # order, uniqueness, and what callers were told
"""

from __future__ import annotations

import random
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field

from sparklog.core.commands import AddPartitions, AllocateProducer, Append, PartitionEpoch, Submission
from sparklog.core.errors import (
    Landed,
    NoReplicaOnline,
    OutcomeUnknown,
    OutOfOrderSequence,
    SparklogError,
    StaleBrokerEpoch,
    StoreUnavailable,
)
from sparklog.core.idempotence.producers import span_of
from sparklog.core.producing.flush import FailedFlush, Flush, FlushCommit, FlushUpload, Renew, Work
from sparklog.core.producing.flushes import Flushes
from sparklog.core.producing.producer_settings import ProducerSettings
from sparklog.core.records import CommandResult
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import LeaderEpoch, PartitionIndex, TopicPartition
from tests.core.decided_log import RECORD_BYTES, TOPIC, A, DecidedLog, place

PARTITIONS = 3


@dataclass(frozen=True)
class Labels:
    """The rows of a flush: for each partition the label of what was sent to it."""

    of: dict[TopicPartition, str]

    def only(self, parts: Collection[TopicPartition]) -> Labels:
        return Labels({key: self.of[key] for key in parts})


@dataclass
class ProducerWorld:
    """`trouble` is the chance that something goes wrong in a step. `log` has what landed, by partition, in order."""

    seed: int
    trouble: float = 0.4
    settings: ProducerSettings = field(default_factory=lambda: ProducerSettings(linger_ms=0, delivery_timeout_ms=8_000))
    now_ms: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.chain = DecidedLog()
        self.chain.submit(AddPartitions(TOPIC, PARTITIONS, ((A,),) * (PARTITIONS - 2)))
        allocated = self.chain.submit(AllocateProducer())
        assert allocated.producer_id is not None
        self.flushes = Flushes(self.settings, allocated.producer_id, 0)
        self.unrouted: list[tuple[Flush, dict[TopicPartition, int]]] = []
        self.under_way: list[Work] = []
        self.strays: list[Submission] = []  # commands that got lost, and may still arrive
        self.renewal: Submission | None = None
        self.log: dict[TopicPartition, list[str]] = {place(p): [] for p in range(PARTITIONS)}
        self.starts: dict[tuple[TopicPartition, str], int] = {}
        self.flush_of: dict[str, Flush] = {}  # by command id
        self.sent: dict[str, set[TopicPartition]] = {}
        self.told: dict[tuple[TopicPartition, str], int | SparklogError] = {}
        self.offline: set[TopicPartition] = set()
        self.commits = self.repeats = self.renewals = 0
        self.doubtful: set[tuple[TopicPartition, str]] = set()  # what some commit was in doubt of
        self.most_at_once = self.most_joined = 0
        self.settled_around_doubt = False  # whether what was next in the partition that stayed offline was in doubt
        self.shut_out = self.not_shut_out = 0  # epochs that began, or did not, with commits in doubt

    # ---- steps ----------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        """One thing happens: something is sent, taken up, replied to, or time passes."""
        dice = self.dice
        self.now_ms += dice.choice((0, 1, 1, 20, 120))
        if dice.random() < self.trouble / 40:
            self.now_ms += dice.choice((3_000, 9_000))
        if dice.random() < self.trouble / 20:
            key = place(dice.randrange(PARTITIONS))
            self.offline ^= {key}
        if dice.random() < 0.15:
            self.hear_a_stray()
        if self.unrouted and dice.random() < 0.5:
            self.route(dice.randrange(len(self.unrouted)))
        if self.flushes.has_slot and dice.random() < 0.5:
            self.send()
            if dice.random() < 0.7:
                self.route(-1)
        work = self.flushes.next(self.now_ms)
        if work is not None:
            self.under_way.append(work)
            at_once = sum(isinstance(each, FlushCommit) for each in self.under_way)
            self.most_at_once = max(self.most_at_once, at_once)
        if self.under_way and dice.random() < 0.6:
            self.reply(self.under_way.pop(dice.randrange(len(self.under_way))))
        self.hear()

    def hear_a_stray(self) -> None:
        """A command that got lost arrives; nobody hears what came of it."""
        if self.strays:
            with suppress(SparklogError):
                self.arrive(self.strays.pop(self.dice.randrange(len(self.strays))))

    def settle(self) -> None:
        """Nothing goes wrong any more: everything is settled before long. Whatever got lost arrives too late."""
        self.calm(set())
        assert self.flushes.is_settled(self.flushes.last_order)
        while self.strays:
            self.hear_a_stray()

    def settle_around(self) -> None:
        """Only one partition stays offline: what was sent to the others is written well before its time is over.

        It is one whose next records are in doubt, if there is such a one.
        """
        places = [place(p) for p in range(PARTITIONS)]
        in_doubt = [key for key in places if self.next_of(key) in self.doubtful]
        self.settled_around_doubt = bool(in_doubt)
        offline = self.dice.choice(in_doubt or places)
        begun_ms = self.now_ms
        sent = self.send(dict.fromkeys(range(PARTITIONS), 1))
        self.calm({offline})
        for key, label in labels(sent).of.items():
            if key != offline:
                told = self.told.get((key, label))
                assert isinstance(told, int), f"{key} was held up: {told!r}"
        assert self.now_ms - begun_ms <= self.settings.delivery_timeout_ms // 2, "held up"

    def next_of(self, key: TopicPartition) -> tuple[TopicPartition, str] | None:
        """The first records of the partition that are neither there nor given up."""
        sent = ((key, label) for label, parts in self.sent.items() if key in parts)
        return next((each for each in sent if each not in self.starts | self.told), None)

    def calm(self, offline: set[TopicPartition]) -> None:
        """Nothing goes wrong, but for these partitions, until all records of the others are settled."""
        self.trouble, self.offline = 0, offline
        while self.unrouted:
            self.route(0)
        for _ in range(10_000):
            work = self.flushes.next(self.now_ms)
            if work is not None:
                self.under_way.append(work)
            elif self.under_way:
                if self.dice.random() < 0.1:
                    self.hear_a_stray()
                self.reply(self.under_way.pop(0))
            else:
                due_ms = self.flushes.due_ms(self.now_ms)
                if due_ms is None or not self.unsettled() - offline:
                    break
                self.now_ms = due_ms
            self.hear()

    def unsettled(self) -> set[TopicPartition]:
        """The partitions with records that have no outcome yet."""
        return {key for label, parts in self.sent.items() for key in parts if (key, label) not in self.told}

    def send(self, records: dict[int, int] | None = None) -> Flush:
        """Records for some partitions: one label for those of each."""
        dice = self.dice
        chosen = records or {p: dice.randint(1, 3) for p in range(PARTITIONS) if dice.random() < 0.7} or {0: 1}
        label = f"{len(self.sent):04d}"
        parts = {place(p): count for p, count in chosen.items()}
        self.sent[label] = set(parts)
        flush = self.flushes.take(self.now_ms, Labels(dict.fromkeys(parts, label)))
        self.unrouted.append((flush, parts))
        return flush

    def route(self, at: int) -> None:
        self.flushes.routed(*self.unrouted.pop(at))

    def hear(self) -> None:
        for failed in self.flushes.failures(self.now_ms):
            self.tell(failed)

    def tell(self, failed: FailedFlush) -> None:
        for piece in failed.flush.pieces:
            for key, label in labels(piece).of.items():
                assert (key, label) not in self.told, "a record has one outcome"
                self.told[key, label] = failed.error

    # ---- replies --------------------------------------------------------------------------------

    def reply(self, work: Work) -> None:
        match work:
            case FlushUpload(flush, _):
                self.reply_to_upload(flush)
            case FlushCommit():
                self.reply_to_commit(work)
            case Renew():
                self.reply_to_renewal(work)

    def reply_to_upload(self, flush: Flush) -> None:
        if self.offline.intersection(flush.parts):
            self.flushes.refused(flush, NoReplicaOnline("offline"), self.now_ms)
        elif self.dice.random() < self.trouble / 3:
            self.flushes.refused(flush, StoreUnavailable("no"), self.now_ms)
        else:
            flush.upload = self.chain.begin(Append((), (), ()))
            self.flush_of[flush.upload.command_id] = flush
            self.flushes.uploaded(flush)

    def reply_to_commit(self, work: FlushCommit) -> None:
        """The command arrives or not, at once or later; and its reply, too."""
        flush = work.flush
        submission = Submission(flush.upload.command_id, flush.upload.n0, self.append_of(work), in_doubt=flush.in_doubt)
        fate = self.dice.random()
        if fate < self.trouble / 3:
            self.strays.append(submission)
            self.doubtful |= sent_in(flush)
            self.lose_a_leader(flush)
            self.flushes.refused(flush, OutcomeUnknown("no answer"), self.now_ms)
        elif fate < self.trouble / 2 and not flush.in_doubt:
            self.flushes.refused(flush, StoreUnavailable("not sent"), self.now_ms)
        else:
            try:
                result = self.arrive(submission)
            except SparklogError as error:
                self.flushes.refused(flush, error, self.now_ms)
                return
            if self.dice.random() < self.trouble / 2:
                self.lose_a_leader(flush)
                self.flushes.refused(flush, OutcomeUnknown("the reply is lost"), self.now_ms)
                return
            for key, label, start in parts_at(flush, result):
                assert (key, label) not in self.told, "a record has one outcome"
                self.told[key, label] = start
            self.most_joined = max(self.most_joined, len(flush.joined))
            self.flushes.written(flush)

    def lose_a_leader(self, flush: Flush) -> None:
        """Now and then a partition of a commit in doubt loses its leader."""
        if self.dice.random() < 0.4:
            self.offline.add(self.dice.choice(sorted(flush.parts)))

    def reply_to_renewal(self, work: Renew) -> None:
        submission = self.renewal or self.chain.begin(work.command)
        self.renewal = submission
        lost = self.dice.random()
        if lost < self.trouble / 2:
            self.flushes.not_renewed(OutcomeUnknown("no answer"), self.now_ms)
            return
        try:
            result = self.chain.submit_again(submission)
        except SparklogError as error:
            self.renewal = None
            self.not_shut_out += isinstance(error, OutOfOrderSequence)
            self.flushes.not_renewed(error, self.now_ms)
            return
        if lost < self.trouble:
            self.flushes.not_renewed(OutcomeUnknown("the reply is lost"), self.now_ms)
            return
        self.renewal = None
        self.renewals += 1
        self.shut_out += bool(work.command.in_doubt)
        assert result.producer_id is not None
        assert result.producer_epoch is not None
        self.flushes.renewed(result.producer_id, result.producer_epoch)

    # ---- the chain ------------------------------------------------------------------------------

    def append_of(self, work: FlushCommit) -> Append:
        """One object with a slice for each partition."""
        parts = work.flush.parts
        named = self.chain.uploaded(sum(parts.values()) * RECORD_BYTES)
        slices, position = [], 0
        for key, records in parts.items():
            span = span_of(work.producer_id, work.producer_epoch, work.first_sequences[key], records)
            slices.append(self.chain.part(records, key.partition, position=position, producer=span))
            position += records * RECORD_BYTES
        epochs = tuple(PartitionEpoch(TOPIC, PartitionIndex(key.partition), LeaderEpoch(0)) for key in parts)
        return Append((named,), tuple(slices), epochs, acks=self.settings.acks)

    def arrive(self, submission: Submission) -> CommandResult:
        """A command reaches the chain."""
        sent = sent_in(self.flush_of[submission.command_id])
        if any(key in self.offline for key, label in sent - self.starts.keys()):
            kind = self.dice.choice((NoReplicaOnline, StaleBrokerEpoch))  # what was uploaded before names its old store
            raise kind("offline", landed=Landed.UNKNOWN if submission.in_doubt else Landed.NO)
        before = self.chain.state.n
        result = self.chain.submit_again(submission)
        if self.chain.state.n == before:
            self.repeats += 1
        else:
            self.commits += 1
            for key, label, start in parts_at(self.flush_of[submission.command_id], result):
                self.log[key].append(label)
                self.starts[key, label] = start
        return result

    # ---- promises -------------------------------------------------------------------------------

    def check(self) -> None:
        for key, landed in self.log.items():
            assert landed == sorted(set(landed)), f"{key}: in order, and once"
        for (key, label), told in self.told.items():
            is_there = label in self.log[key]
            if isinstance(told, int):
                assert is_there, f"{label} was acknowledged"
                assert self.starts[key, label] == told
            elif told.landed is Landed.NO:
                assert not is_there, f"{label} was said not to be written: {told}"
            elif told.landed is Landed.YES:
                assert is_there


def parts_at(flush: Flush, result: CommandResult) -> list[tuple[TopicPartition, str, int]]:
    """What was written, and where: partition, label, first offset."""
    starts = {TopicPartition(range_.topic_id, range_.partition): int(range_.start) for range_ in result.ranges}
    found = []
    for piece in flush.pieces:
        for key, label in labels(piece).of.items():
            found.append((key, label, starts[key]))
            starts[key] += piece.parts[key]
    return found


def sent_in(flush: Flush) -> set[tuple[TopicPartition, str]]:
    """The labels of a flush, with their partitions."""
    return {each for piece in flush.pieces for each in labels(piece).of.items()}


def labels(flush: Flush) -> Labels:
    assert isinstance(flush.rows, Labels)
    return flush.rows


def with_acks(acks: Acks) -> ProducerSettings:
    return ProducerSettings(acks=acks, linger_ms=0, delivery_timeout_ms=8_000)
