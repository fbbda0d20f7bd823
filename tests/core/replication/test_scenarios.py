"""The three scenarios that broke the rule "a follower truncates to its HW" (L-08 to L-10), and that rule beside ours.

Each is played twice: by the transitions, where nothing may be lost or differ; and under the old rule, where it must be,
or the play could not see the fault (L-11).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from sparklog.core.replication.isr import LogEndReport, report
from sparklog.core.replication.partition import created
from sparklog.core.replication.replica_append import Acks, append
from sparklog.core.replication.store_changes import fence, reachable_changed
from sparklog.core.types import LeaderEpoch, Offset, StoreId
from tests.core.replication.example_partition import REGISTRATIONS, held, stores


class Play:
    """A partition, and the record at each offset of each store. `write` returns after a write with acks=all."""

    def __init__(self, replicas: str, min_isr: int) -> None:
        self.value = created(stores(*replicas))
        self.min_isr = min_isr
        self.logs: dict[str, dict[int, str]] = {store: {} for store in replicas}
        self.known_hw = dict.fromkeys(replicas, 0)  # what each store was last told
        self.up = set(stores(*replicas))
        self.acknowledged: set[str] = set()

    def write(self, record: str, by: str, acks: Acks = Acks.ALL) -> None:
        offset = self.value.next_offset
        self.value = append(self.value, [held(1, by)], acks, self.value.leader_epoch, self.min_isr)
        for store in by:
            self.logs[store][offset] = record
        if acks is Acks.ALL:
            self.acknowledged.add(record)

    def hear(self, store: str) -> None:
        """The store is told HW."""
        self.known_hw[store] = self.value.high_watermark

    def follow(self, store: str) -> None:
        """The store copies what the leader has beyond the store's LEO, and reports it."""
        value = self.value
        assert value.leader is not None
        of, source = StoreId(store), self.logs[value.leader]
        for offset in range(value.log_end(of), value.next_offset):
            if offset in source:
                self.logs[store][offset] = source[offset]
        said = LogEndReport(of, REGISTRATIONS[of], value.leader_epoch, value.version, value.next_offset)
        self.value = report(value, said, REGISTRATIONS, self.min_isr).after

    def restart(self, store: str) -> None:
        """The store is away and back before anybody notices. Nothing is cut: the chain says what it holds."""

    def fail(self, store: str) -> None:
        self.up.discard(StoreId(store))
        change = fence(self.value, StoreId(store), self.up, self.min_isr)
        self.value = change.after
        if change.forgotten is not None:
            self.forget(change.forgotten.start)

    def come_back(self, store: str) -> None:
        self.up.add(StoreId(store))
        change = reachable_changed(self.value, self.up, self.min_isr)
        self.value = change.after
        if change.forgotten is not None:
            self.forget(change.forgotten.start)

    def forget(self, start: int) -> None:
        """The slices from here on are in the log no more, so that no store has them for a reader."""
        for log in self.logs.values():
            for offset in [each for each in log if each >= start]:
                del log[offset]

    def is_whole(self) -> bool:
        """Whether all acknowledged records can be read, and the stores in sync have the same ones everywhere."""
        assert self.value.leader is not None
        readable = self.logs[self.value.leader]
        same = all(self.logs[store] == readable for store in self.value.isr)
        return same and self.acknowledged <= set(readable.values())


class OldPlay(Play):
    """The rule of Kafka 0.10: who restarts or follows a new leader cuts its log to the HW it was last told.

    An election asks only who is in the ISR, and the new leader goes on writing at its own log end.
    """

    def cut(self, store: str) -> None:
        self.logs[store] = {at: record for at, record in self.logs[store].items() if at < self.known_hw[store]}
        self.take_stock()

    def restart(self, store: str) -> None:
        self.cut(store)

    def fail(self, store: str) -> None:
        self.up.discard(StoreId(store))
        self.elect()

    def come_back(self, store: str) -> None:
        self.up.add(StoreId(store))
        if self.value.leader is None:
            self.elect()
        else:
            self.cut(store)

    def elect(self) -> None:
        value = self.value
        in_sync = [store for store in value.isr if store in self.up] or [
            store for store in value.elr if store in self.up
        ]
        if value.leader in self.up and value.leader is not None:
            return
        leader = in_sync[0] if in_sync else None
        epoch = LeaderEpoch(value.leader_epoch + (leader is not None))
        out = tuple(store for store in value.replicas if store not in in_sync)
        self.value = msgspec.structs.replace(
            value,
            leader=leader,
            leader_epoch=epoch,
            isr=tuple(in_sync),
            elr=out if leader is None else (),
            epochs=(*value.epochs, (epoch, value.next_offset)) if leader is not None else value.epochs,
        )
        for store in in_sync:
            if store != leader:
                self.cut(store)
        self.take_stock()

    def take_stock(self) -> None:
        """LEOs are what the stores have, and the leader's is the next offset."""
        ends = tuple(Offset(max(self.logs[store], default=-1) + 1) for store in self.value.replicas)
        self.value = msgspec.structs.replace(self.value, log_ends=ends)
        if self.value.leader is not None:
            end = self.value.log_end(self.value.leader)
            starts = tuple((epoch, min(start, end)) for epoch, start in self.value.epochs)
            hw = min(self.value.high_watermark, end)
            self.value = msgspec.structs.replace(self.value, next_offset=end, epochs=starts, high_watermark=hw)


def loss(play: Play) -> None:
    """L-08. a leads, b follows; both LEO 2, b was told HW 1; b restarts; a fails; b leads; a returns."""
    play.write("m0", "ab")
    play.hear("b")
    play.write("m1", "ab")
    play.restart("b")
    play.fail("a")
    play.come_back("a")
    play.follow("a")


def divergence(play: Play) -> None:
    """L-09. Both fail, a was told HW 2, b HW 1; b returns alone, leads, writes another record; a returns."""
    play.write("m0", "ab")
    play.hear("b")
    play.write("m1", "ab")
    play.hear("a")
    play.restart("b")  # it fails and comes back with what it has
    play.fail("b")
    play.fail("a")
    play.come_back("b")
    play.write("m2", "b", Acks.LEADER)
    play.come_back("a")
    play.follow("a")


def three(play: Play) -> None:
    """L-10. a leads, a record is on all three, HW is known to a only; a fails, b leads; b fails, c leads."""
    play.write("m0", "abc")
    play.hear("a")
    play.fail("a")
    play.fail("b")


SCENARIOS: list[tuple[Callable[[Play], None], str, int]] = [(loss, "ab", 1), (divergence, "ab", 2), (three, "abc", 1)]


@pytest.mark.parametrize(("scenario", "replicas", "min_isr"), SCENARIOS)
def test_nothing_is_lost_and_the_replicas_are_the_same(
    scenario: Callable[[Play], None], replicas: str, min_isr: int
) -> None:
    play = Play(replicas, min_isr)
    scenario(play)
    assert play.is_whole(), play.logs


@pytest.mark.parametrize(("scenario", "replicas", "min_isr"), SCENARIOS)
def test_l_11_the_old_rule_loses_or_diverges(scenario: Callable[[Play], None], replicas: str, min_isr: int) -> None:
    play = OldPlay(replicas, min_isr)
    scenario(play)
    assert not play.is_whole(), play.logs


def test_l_06_a_store_that_comes_back_with_forgotten_records_ends_with_the_leaders_records() -> None:
    """m1 is on a alone, with acks=1; b leads without it and writes m2, at an offset that m1 never had."""
    play = Play("abc", 2)
    play.write("m0", "abc")
    play.write("m1", "a", Acks.LEADER)
    late = LogEndReport(
        StoreId("a"), REGISTRATIONS[StoreId("a")], play.value.leader_epoch, play.value.version, Offset(2)
    )
    play.fail("a")
    play.write("m2", "bc")
    play.come_back("a")
    with pytest.raises(Exception, match="begun under epoch 0"):
        report(play.value, late, REGISTRATIONS, 2)
    play.follow("a")
    assert play.is_whole()
    assert play.logs["a"] == {0: "m0", 2: "m2"}


def test_l_12_the_visible_end_never_goes_back_over_an_election() -> None:
    play = Play("abc", 2)
    play.write("m0", "abc")
    play.write("m1", "a", Acks.LEADER)
    visible = [play.value.high_watermark]
    for step, store in ((play.fail, "a"), (play.fail, "b"), (play.come_back, "b"), (play.follow, "b")):
        step(store)
        visible.append(play.value.high_watermark)
    assert visible == sorted(visible)
