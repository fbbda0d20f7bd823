"""Partitions whose objects really lie on stores, or are lost there: what the state says of them must be so.

`check` compares the state with the stores, but for those whose losses nobody has reported yet:

A. a replica has every live slice below its LEO, and whoever holds a slice by `Holding` has it;
B. what was acknowledged with `acks=all` is in the log, on every replica in sync or eligible, until retention or an
   unclean election;
C. an epoch has one leader for ever, and the slices of a write belong to the epoch they lie in;
D. a sequence number of a producer is in the log once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from sparklog.core.commands import Submission
from sparklog.core.placement.held_slices import Holding
from sparklog.core.state import ClusterState
from sparklog.core.types import Holder, KafkaTopic, NewObject, ObjectKind, Offset, Slice, StoreId
from tests.core.decided_log import TOPIC
from tests.core.replicated_log import ReplicatedLog


@dataclass
class Write:
    """A write whose objects were uploaded: its command, and where its records are once it was accepted."""

    submission: Submission
    uploads: tuple[str, ...]
    atomic: bool = False
    acknowledged: bool = False
    landed: bool = False


class PhysicalLog:
    """Stores a to e, and f later; partitions 0 to 2 begin on a, b and c. `has`: the uploads that are really there."""

    def __init__(self, mirror_of: KafkaTopic | None = None) -> None:
        self.log = ReplicatedLog(stores="abcde", partitions=3, mirror_of=mirror_of)
        self.has: dict[str, set[str]] = {each: set() for each in "abcdef"}
        self.damaged: set[str] = set()  # stores that lost something nobody noticed
        self.writes: list[Write] = []
        self.made_of: dict[str, tuple[str, ...]] = {}  # a rewritten upload -> the uploads it was made from
        self.gone: set[str] = set()  # uploads that retention or an unclean election may have taken
        self.leaders: dict[tuple[int, int], str] = {}

    # ---- the state ------------------------------------------------------------------------------

    @property
    def state(self) -> ClusterState:
        return self.log.state

    def partitions(self) -> list[int]:
        return list(range(self.state.topics[TOPIC].partitions))

    def upload_of(self, each: Slice) -> str:
        found = self.state.objects.get(each.object_number)
        assert found is not None
        return found.upload_id

    def live(self) -> set[str]:
        """Uploads some slice names, and what they were made from."""
        names = {self.upload_of(each) for at in self.partitions() for each in self.log.slices(at)}
        for name in list(names):
            names.update(self.made_of.get(name, ()))
        return names

    def upload(self, command: NewObject, on: Iterable[str]) -> NewObject:
        there = [each for each in on if each in self.state.stores]
        for each in there:
            self.has[each].add(command.upload_id)
        holders = tuple(Holder(StoreId(each), self.log.registration(each)) for each in sorted(there))
        return replace(command, holders=holders)

    def contiguous_end(self, store: str, at: int, start: int) -> Offset:
        for each in self.log.slices(at):
            if each.end > start and self.upload_of(each) not in self.has[store]:
                return Offset(max(start, each.start))
        return self.log.value(at).next_offset

    def forgotten(self, before: dict[int, Any], live_before: set[str]) -> None:
        """Note what may have gone: by retention, or by an unclean election."""
        gone = live_before - self.live()
        for at, value in before.items():
            now = self.log.value(at)
            if now.log_start > value.log_start or now.lost != value.lost:
                self.gone |= gone

    # ---- checks ---------------------------------------------------------------------------------

    def check(self) -> None:
        for at in self.partitions():
            self.check_partition(at)
        self.check_acknowledged()

    def check_partition(self, at: int) -> None:
        value, slices = self.log.value(at), list(self.log.slices(at))
        if value.leader is not None:
            key = (at, value.leader_epoch)
            assert self.leaders.setdefault(key, value.leader) == value.leader, f"C: two leaders: {value}"
        holding = Holding(self.state, self.log.partition(at))
        sound = {each for each in value.replicas if each not in self.damaged}
        sequences: Counter[tuple[int, int]] = Counter()
        acknowledged = {name for each in self.writes if each.acknowledged for name in each.uploads}
        for each in slices:
            upload = self.upload_of(each)
            found = self.state.objects.get(each.object_number)
            assert found is not None
            for store in sound & set(holding.of(each.end, found.holders)):
                assert upload in self.has[store], f"A: {store} lacks {each} of {at}: {value}"
            for store in sound:
                if value.log_end(store) >= each.end:
                    assert upload in self.has[store], f"A: {store} lacks {each} below its LEO: {value}"
            epochs = [epoch for epoch, start in value.epochs if start <= each.start]
            if found.kind is ObjectKind.APPEND and epochs:
                assert each.leader_epoch == epochs[-1], f"C: {each} of {at} among {value.epochs}"
            names = {upload, *self.made_of.get(upload, ())}
            if names & acknowledged and each.end <= value.high_watermark:
                for store in sound & {*value.isr, *value.elr}:
                    assert upload in self.has[store], f"B: {store} lacks the acknowledged {each}: {value}"
            if each.producer is not None:
                for sequence in range(each.producer.first_sequence, each.producer.last_sequence + 1):
                    sequences[each.producer.producer_id, sequence] += 1
        twice = [key for key, count in sequences.items() if count > 1]
        assert not twice, f"D: {twice} of {at}: {slices}"

    def check_acknowledged(self) -> None:
        live = self.live() | self.gone
        for each in self.writes:
            if each.acknowledged:
                assert set(each.uploads) <= live, f"B: {each} is gone"
