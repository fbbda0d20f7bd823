"""Random commands on partitions whose objects really lie on stores, or are lost there.

After each step the log is checked as `PhysicalLog` says. Besides,

E. a command that is submitted again is refused as not landed, or written, only if nothing of it is left;
F. a fork from some steps ago is as it was.

At the end everything is healed. Then

G. a partition has a leader if any of its replicas has everything below HW;
H. agents bring all replicas of a partition that has one to its end and into the ISR, and moves are done.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from sparklog.core.commands import (
    AddPartitions,
    AgentDown,
    AgentUp,
    Append,
    Application,
    ConfirmDeleted,
    DropLagging,
    Election,
    ElectLeaders,
    HeldEnd,
    LaggingReplicas,
    Move,
    MoveLogStart,
    MoveReplicas,
    PartitionEpoch,
    PromoteTopic,
    RemoveStore,
    ReplicaReport,
    ReportLoss,
    ReportReplicas,
)
from sparklog.core.errors import Landed, SparklogError
from sparklog.core.placement.replica_fetch import replica_reports, unfinished_replicas
from sparklog.core.replication.replica_append import Acks
from sparklog.core.state import ClusterState
from sparklog.core.types import (
    KafkaTopic,
    NewObject,
    NewSlice,
    Offset,
    OffsetRange,
    PartitionIndex,
    StoreId,
    TimestampSource,
)
from tests.core.decided_log import TOPIC, place, span
from tests.core.mirrored_log import SOURCE
from tests.core.physical_log import PhysicalLog, Write
from tests.core.state_contents import contents
from tests.kit.budget import Seeds, random_runs
from tests.kit.kernel import RandomSteps, counts_of

STEPS = 120


class Walk(RandomSteps, PhysicalLog):
    """What is under way beside the log, and the dice that choose what happens next."""

    length = STEPS
    mirror_of: KafkaTopic | None = None

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        PhysicalLog.__init__(self, self.mirror_of)
        self.log.configure(
            min_insync_replicas=str(self.dice.randint(1, 3)),
            unclean_leader_election_enable=self.dice.choice(["false", "false", "true"]),
            file_delete_delay_ms="0",
        )
        self.lives = Counter(dict.fromkeys("abcdef", 0))
        self.pending: list[Write] = []
        self.reports: list[ReportReplicas] = []
        self.producers = [self.log.producer() for _ in range(2)]
        self.sequences: Counter[tuple[int, int]] = Counter()
        self.fork: tuple[ClusterState, dict[str, Any]] | None = None

    def stores(self) -> list[str]:
        return sorted(self.state.stores)

    def working(self) -> list[str]:
        return [each.store for each in self.state.stores.values() if not each.fenced]

    def some(self, of: Iterable[str], share: float = 0.7) -> list[str]:
        return [each for each in of if self.dice.random() < share]

    # ---- steps ----------------------------------------------------------------------------------

    def step(self) -> None:
        actions: list[tuple[float, Callable[[], object]]] = [
            (6, self.write),
            (2, self.commit_late),
            (9, self.fetch),
            (2, self.report_late),
            (1, self.again),
            (1, self.drop),
            (1.5, self.elect),
            (2, self.move),
            (0.7, lambda: self.log.fence(self.one())),
            (2, self.register),
            (0.5, self.damage),
            (1, self.notice),
            (0.7, lambda: self.log.submit(AgentDown(StoreId(each := self.one()), self.log.registration(each)))),
            (1.2, lambda: self.log.submit(AgentUp(StoreId(each := self.one()), self.log.registration(each)))),
            (1.5, self.swap),
            (0.5, self.retain),
            (0.5, self.clean),
            (0.3, lambda: self.log.configure(min_insync_replicas=str(self.dice.randint(1, 3)))),
            (0.5, lambda: self.log.submit(RemoveStore(StoreId(self.one()), {}))),
            (0.05, lambda: self.log.submit(AddPartitions(TOPIC, len(self.partitions()) + 1))),
            (0.3, self.leave),
        ]
        before = self.state.n
        gone_before = {at: self.log.value(at) for at in self.partitions()}
        live_before, lost_before = self.live(), self.lost()
        assert self.act(actions) or self.state.n == before, "a refusal leaves a trace"
        self.forgotten(gone_before, live_before)
        self.counts["lost"] += self.lost() != lost_before
        self.check()
        self.check_fork()

    def lost(self) -> list[object]:
        return [self.log.value(at).lost for at in self.partitions()]

    def one(self) -> str:
        return self.dice.choice(self.stores())

    # ---- writers --------------------------------------------------------------------------------

    def write(self) -> None:
        wide = self.dice.random() < 0.3
        partitions = self.dice.sample(self.partitions(), 2) if wide else [self.dice.choice(self.partitions())]
        acks = Acks.ALL if wide else self.dice.choice([Acks.ALL, Acks.ALL, Acks.LEADER, Acks.NONE])
        producer = self.dice.choice(self.producers) if self.dice.random() < 0.4 else None
        objects: list[NewObject] = []
        slices: list[NewSlice] = []
        for _ in range(self.dice.choice([1, 1, 2])):
            members = {store for at in partitions for store in self.log.value(at).isr}
            replicas = {store for at in partitions for store in self.log.value(at).replicas}
            on = self.dice.choice([members, members, replicas, self.some(sorted(replicas)), self.some("abcdef")])
            objects.append(self.upload(self.log.uploaded(40), on))
            for index, at in enumerate(partitions):
                slices.append(
                    self.log.part(self.dice.randint(1, 2), at, object_index=len(objects) - 1, position=index * 20)
                )
        if producer is not None:
            after = {at: self.sequences[producer, at] for at in partitions}
            for index, each in enumerate(slices):
                first = after[each.partition]
                after[each.partition] = first + each.records
                slices[index] = replace(each, producer=span(producer, 0, first, first + each.records - 1))
        epochs = tuple(PartitionEpoch(TOPIC, PartitionIndex(at), self.log.value(at).leader_epoch) for at in partitions)
        app = None
        if acks is Acks.ALL and producer is None and self.dice.random() < 0.3:
            app = Application("app", self.state.n)
        command = Append(tuple(objects), tuple(slices), epochs, app, acks=acks, take_over=self.dice.random() < 0.2)
        written = Write(self.log.begin(command), tuple(each.upload_id for each in objects), wide or app is not None)
        if self.dice.random() < 0.2:
            self.pending.append(written)
        else:
            self.commit(written)

    def commit_late(self) -> None:
        if self.pending:
            self.commit(self.pending.pop(self.dice.randrange(len(self.pending))))

    def commit(self, written: Write) -> None:
        command = written.submission.command
        assert isinstance(command, Append)
        producer = command.slices[0].producer
        n = self.state.n
        try:
            result = self.log.submit_again(written.submission)
        except SparklogError as error:
            if error.code == "OUT_OF_ORDER_SEQUENCE_NUMBER" and producer is not None:
                for at in {each.partition for each in command.slices}:  # go on where the state says
                    known = self.state.producers[producer.producer_id].batches.get(place(at), ())
                    self.sequences[producer.producer_id, at] = known[-1].last_sequence + 1 if known else 0
            raise
        if self.state.n == n or result.lost is not None:
            return  # a repeat, a version that was written before, or its author hears of a loss
        written.landed = True
        written.acknowledged = command.acks is Acks.ALL
        self.writes.append(written)
        if producer is not None:
            for each in command.slices:
                assert each.producer is not None
                self.sequences[producer.producer_id, each.partition] = each.producer.last_sequence + 1

    def again(self) -> None:
        """Whoever submits a command again learns the truth (E)."""
        if not self.writes:
            return
        written = self.dice.choice(self.writes)
        command = written.submission.command
        assert isinstance(command, Append)
        if command.slices[0].producer is not None:
            return
        left = set(written.uploads) & self.live()
        taken = set(written.uploads) & self.gone
        landed = Landed.YES
        try:
            decision = self.log.decide_again(replace(written.submission, in_doubt=True))
        except SparklogError as error:
            self.counts["again refused"] += 1
            landed = error.landed
        assert landed is not Landed.NO or not left, f"E: {written} is refused as not landed, and {left} is in the log"
        if landed is not Landed.YES:
            return
        if decision.committed_in is not None and (written.acknowledged and not taken):
            assert left == set(written.uploads), f"E: {written} is said to be written, {left} is left"
            self.counts["again known"] += 1
        if decision.records:
            assert not left, f"E: {written} would be written again, {left} is in the log"

    # ---- agents ---------------------------------------------------------------------------------

    def fetch(self) -> None:
        store = self.dice.choice(self.working() or self.stores())
        said = []
        for at in self.some_partitions():
            value = self.log.value(at)
            if store not in value.replicas:
                continue
            end = value.log_end(StoreId(store))
            missing = [
                each for each in self.log.slices(at) if each.end > end and self.upload_of(each) not in self.has[store]
            ]
            for each in missing[: self.dice.choice([1, 3, 9])]:
                if not any(self.upload_of(each) in self.has[other] for other in self.working()):
                    break
                self.has[store].add(self.upload_of(each))
            reached = self.contiguous_end(store, at, end)
            said.append(ReplicaReport(TOPIC, PartitionIndex(at), value.leader_epoch, value.version, reached))
        if said:
            report = ReportReplicas(StoreId(store), self.log.registration(store), tuple(said))
            self.reports.append(report)
            if self.dice.random() < 0.8:
                self.log.submit(report)

    def report_late(self) -> None:
        if self.reports:
            self.log.submit(self.dice.choice(self.reports[-10:]))

    def some_partitions(self) -> list[int]:
        return [at for at in self.partitions() if self.dice.random() < 0.6]

    # ---- stores ---------------------------------------------------------------------------------

    def register(self) -> None:
        """Back, or new. What a store lacks is noticed first; one that was removed may come back empty or as it was."""
        store = self.dice.choice("abcdef")
        if store in self.damaged:
            return
        if store not in self.state.stores and self.dice.random() < 0.5:
            self.has[store] = set()
            self.lives[store] += 1
        self.log.register(store, self.incarnation(store))

    def incarnation(self, store: str) -> str:
        """What is in the store's INCARNATION: another one in each of its lives."""
        return f"i-{store}" + (f"-{self.lives[store]}" if self.lives[store] else "")

    def damage(self) -> None:
        store = self.one()
        objects = sorted(self.has[store])
        gone = objects if self.dice.random() < 0.4 else self.some(objects, 0.3)
        self.has[store] -= set(gone)
        if len(gone) == len(objects):
            self.lives[store] += 1
        if gone:
            self.damaged.add(store)

    def notice(self) -> None:
        if self.damaged:
            self.report_loss(self.dice.choice(sorted(self.damaged)))

    def report_loss(self, store: str) -> None:
        if store not in self.state.stores:
            self.damaged.discard(store)
            return
        known = self.state.stores[StoreId(store)]
        incarnation = self.incarnation(store)
        held = tuple(
            HeldEnd(TOPIC, PartitionIndex(at), self.contiguous_end(store, at, self.log.value(at).log_start))
            for at in self.partitions()
        )
        wiped = incarnation != known.incarnation
        self.log.submit(ReportLoss(known.store, known.registration, incarnation, () if wiped else held))
        self.damaged.discard(store)

    def leave(self) -> None:
        """Copies on a store that has no replica of the partition any more are deleted."""
        store = self.one()
        at = self.dice.choice(self.partitions())
        if store in self.log.value(at).replicas:
            return
        needed = {
            self.upload_of(each)
            for other in self.partitions()
            if store in self.log.value(other).replicas
            for each in self.log.slices(other)
        }
        self.has[store] -= {self.upload_of(each) for each in self.log.slices(at)} - needed

    # ---- the end --------------------------------------------------------------------------------

    def end(self) -> None:
        self.heal()
        self.drain()

    def heal(self) -> None:
        """Every loss is reported, and every store is back with its agent (G)."""
        before, live_before = {at: self.log.value(at) for at in self.partitions()}, self.live()
        for store in self.stores():
            if store in self.damaged or self.state.stores[StoreId(store)].incarnation != self.incarnation(store):
                self.report_loss(store)
            if self.state.stores[StoreId(store)].fenced:
                self.log.register(store, self.incarnation(store))
            self.log.submit(AgentUp(StoreId(store), self.log.registration(store)))
        self.forgotten(before, live_before)
        self.check()
        for at in self.partitions():
            value = self.log.value(at)
            assert value.leader is not None or max(value.log_ends) < value.high_watermark, f"G: {value}"

    def drain(self) -> None:
        """The agents copy and report, as they do, until nothing changes (H)."""
        n = -1
        while n < self.state.n:
            n = self.state.n
            for store in self.stores():
                self.copy_all(store)
        self.check()
        for at in self.partitions():
            value = self.log.value(at)
            if value.leader is not None:
                done = set(value.log_ends) == {value.next_offset} and value.isr == value.replicas == value.target
                assert done, f"H: {at}: {value}, slices {self.log.bounds(at)}"

    def copy_all(self, store: str) -> None:
        at = unfinished_replicas(self.state, StoreId(store))
        for key in at.behind:
            for each in self.log.slices(key.partition, self.log.value(key.partition).log_end(StoreId(store))):
                if any(self.upload_of(each) in self.has[other] for other in self.stores()):
                    self.has[store].add(self.upload_of(each))
        checked = [each.number for each in self.state.objects if each.object.upload_id in self.has[store]]
        reports = replica_reports(self.state, StoreId(store), at, checked)
        if reports:
            self.log.submit(ReportReplicas(StoreId(store), self.log.registration(store), reports))

    # ---- operators and jobs ---------------------------------------------------------------------

    def drop(self) -> None:
        at = self.dice.choice(self.partitions())
        value = self.log.value(at)
        stores = tuple(self.dice.sample(value.replicas, min(2, len(value.replicas))))
        lagging = LaggingReplicas(TOPIC, PartitionIndex(at), value.leader_epoch, value.version, stores)
        self.log.submit(DropLagging((lagging,)))

    def elect(self) -> None:
        store = StoreId(self.one()) if self.dice.random() < 0.5 else None
        chosen = tuple(Election(TOPIC, PartitionIndex(at), store) for at in self.some_partitions())
        self.log.submit(ElectLeaders(chosen, self.dice.random() < 0.2))

    def move(self) -> None:
        size = min(self.dice.choice([1, 2, 3, 3, 4]), len(self.stores()))
        moves = tuple(
            Move(TOPIC, PartitionIndex(at), tuple(map(StoreId, self.dice.sample(self.stores(), size))))
            for at in self.some_partitions()
        )
        self.log.submit(MoveReplicas(moves))

    def swap(self) -> None:
        at = self.dice.choice(self.partitions())
        value = self.log.value(at)
        slices = [
            each for each in self.log.slices(at) if each.start >= value.log_start and each.end <= value.high_watermark
        ]
        if not slices:
            return
        low = self.dice.randrange(len(slices))
        chosen = slices[low : low + self.dice.randint(1, 3)]
        if not all(any(self.upload_of(each) in self.has[store] for store in self.stores()) for each in chosen):
            return
        records = sum(each.records for each in chosen)
        command = self.log.swap_of(chosen[0].start, chosen[-1].end, records, partition=at)
        on = self.dice.choice([value.isr, value.replicas, self.some(value.replicas)])
        sealed = self.upload(command.objects[0], on)
        if not sealed.holders:
            return
        if len(chosen) == 1 and chosen[0].producer is not None:  # a roll of one slice keeps its span
            (made,) = command.slices
            command = replace(command, slices=(replace(made, new=replace(made.new, producer=chosen[0].producer)),))
        self.log.submit(replace(command, objects=(sealed,)))
        made_of = [self.upload_of(each) for each in chosen]
        for name in list(made_of):
            made_of += self.made_of.get(name, ())
        self.made_of[sealed.upload_id] = tuple(made_of)

    def retain(self) -> None:
        at = self.dice.choice(self.partitions())
        value = self.log.value(at)
        to = Offset(self.dice.randint(value.log_start, value.high_watermark))
        self.log.submit(MoveLogStart(TOPIC, PartitionIndex(at), to))

    def clean(self) -> None:
        """The bytes of retired objects go, everywhere."""
        retired = [each.number for each in self.state.retired]
        for number in retired:
            found = self.state.objects.get(number)
            assert found is not None
            for store in self.has:
                self.has[store].discard(found.upload_id)
        self.log.submit(ConfirmDeleted(tuple(retired)))

    def check_fork(self) -> None:
        if self.fork is not None and self.dice.random() < 0.2:
            assert contents(self.fork[0]) == self.fork[1], "F"
            self.fork = None
        if self.fork is None:
            fork = self.state.fork()
            self.fork = fork, contents(fork)


class MirrorWalk(Walk):
    """The topic mirrors Kafka until it is promoted: writes name their offsets, and leave some of them empty.

    I. A mirror's records lie in slices of just the offsets that it named.
    """

    mirror_of = SOURCE

    def step(self) -> None:
        super().step()
        if self.dice.random() < 0.015:
            self.act([(1, self.promote)])
            self.check()

    @property
    def is_mirrored(self) -> bool:
        return self.state.topics[TOPIC].mirror_of is not None

    def promote(self) -> None:
        ends = tuple(Offset(self.log.value(at).next_offset + self.dice.randint(0, 3)) for at in self.partitions())
        self.log.submit(PromoteTopic(TOPIC, ends))

    def commit(self, written: Write) -> None:
        """Mostly as a mirror writes: it names the offsets that the log continues at, or did when it began."""
        command = written.submission.command
        assert isinstance(command, Append)
        if self.is_mirrored and self.dice.random() < 0.9:
            command = replace(command, slices=self.named(command.slices), acks=Acks.ALL)
            written = dataclasses.replace(written, submission=replace(written.submission, command=command))
        super().commit(written)
        if written.landed and command.slices[0].offsets is not None:
            named = [(each.partition, each.offsets, each.records) for each in command.slices]
            slices = [
                (each.partition, OffsetRange(each.start, each.end), each.records)
                for at in sorted({each.partition for each in command.slices})
                for each in self.log.slices(at)
                if self.upload_of(each) in written.uploads
            ]
            assert slices == sorted(named), f"I: {named} are at {slices}"
            self.counts["mirrored"] += 1
            self.counts["gapped"] += any(each.records < each.offset_count for each in command.slices)

    def named(self, slices: Iterable[NewSlice]) -> tuple[NewSlice, ...]:
        ends = {at: self.log.value(at).next_offset for at in self.partitions()}
        named = []
        for each in slices:
            start = Offset(max(0, ends[each.partition] + self.dice.choice([0] * 30 + [-1, 1])))
            end = Offset(start + each.records + self.dice.choice([0, 0, 1, 4]))
            ends[each.partition] = end
            source = self.dice.choice([TimestampSource.CREATE_TIME, TimestampSource.APPEND_TIME_IN_COLUMN])
            named.append(replace(each, producer=None, offsets=OffsetRange(start, end), timestamp_source=source))
        return tuple(named)


MET = """write commit_late fetch report_late again drop elect move register damage notice swap retain clean leave lost
    STALE_BROKER_EPOCH NOT_ENOUGH_REPLICAS NOT_LEADER_OR_FOLLOWER FENCED_LEADER_EPOCH NO_REPLICA_ONLINE
    INVALID_UPDATE_VERSION CONFLICT OUT_OF_ORDER_SEQUENCE_NUMBER"""


@random_runs(range(5), campaign=[range(24)])
def test_no_walk_finds_a_store_without_what_it_is_said_to_hold(seeds: Seeds) -> None:
    seen = counts_of(map(Walk, seeds))
    assert [each for each in MET.split() if not seen[each]] == []


@random_runs(range(8), campaign=[range(24)])
def test_no_walk_of_a_mirrored_topic_loses_or_moves_a_record(seeds: Seeds) -> None:  # M: S-03
    seen = counts_of(map(MirrorWalk, seeds))
    wanted = "mirrored gapped promote POLICY_VIOLATION OFFSET_OUT_OF_RANGE fetch elect swap retain lost"
    assert [each for each in wanted.split() if not seen[each]] == []
