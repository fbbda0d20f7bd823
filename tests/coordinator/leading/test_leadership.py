"""Which coordinator leads: when each process claims, and what becomes of several of them, by seeds."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from sparklog.coordinator.leading.leadership import STANDBY_LOOK_MS, Leadership
from sparklog.core.commands import ClaimCoordination
from sparklog.core.coordination import Author, Coordinator, decide_claim, is_fenced
from sparklog.core.errors import StaleControllerEpoch
from sparklog.core.types import EntryNumber

SESSION_MS = 9_000
THIRD_MS = SESSION_MS // 3


def process(name: str = "me") -> Leadership:
    return Leadership(name, f"http://{name}", SESSION_MS)


def of(name: str, epoch: int = 1, entry: int = 5) -> Coordinator:
    return Coordinator(epoch, name, f"http://{name}", EntryNumber(entry))


def test_a_cluster_without_a_coordinator_is_claimed_at_once() -> None:
    me = process()
    assert me.claim_due(0) is None  # it has not read the chain yet
    me.observe(Coordinator(), 10)
    assert me.claim_due(10) == ClaimCoordination(1, "me", "http://me")


def test_a_standby_waits_for_a_session_without_anything_new() -> None:
    me = process()
    me.observe(of("other"), 1_000)
    me.observe(of("other"), 9_999)
    assert me.claim_due(9_999) is None
    me.observe(of("other"), 10_000)
    assert me.claim_due(10_000) == ClaimCoordination(2, "me", "http://me")


def test_each_entry_of_the_leader_begins_the_session_again() -> None:
    me = process()
    me.observe(of("other", entry=5), 1_000)
    me.observe(of("other", entry=6), 9_000)
    assert me.claim_due(17_999) is None
    assert me.claim_due(18_000) == ClaimCoordination(2, "me", "http://me")


def test_a_process_that_was_paused_learns_first_what_is_new() -> None:
    me = process()
    me.observe(of("other", entry=5), 1_000)
    me.observe(of("other", entry=6), 100_000)  # it woke up, and read
    assert me.claim_due(100_000) is None


def test_the_leader_claims_its_own_epoch_again_after_a_third_without_an_entry() -> None:
    me = process()
    me.observe(of("me", epoch=3), 1_000)
    assert me.leads
    assert me.claim_due(3_999) is None
    assert me.claim_due(4_000) == ClaimCoordination(3, "me", "http://me")
    me.observe(of("me", epoch=3, entry=6), 3_999)
    assert me.claim_due(4_000) is None


def test_a_leader_that_another_one_followed_is_a_standby() -> None:
    me = process()
    me.observe(of("me"), 1_000)
    me.observe(of("other", epoch=2), 5_000)
    assert not me.leads
    assert me.claim_due(13_999) is None
    assert me.claim_due(14_000) == ClaimCoordination(3, "me", "http://me")


def test_one_that_was_made_to_resign_lets_the_others_go_first() -> None:
    me, other = process("me"), process("other")
    for each in (me, other):
        each.observe(of("me"), 1_000)
        each.observe(Coordinator(1, "me", "", EntryNumber(6)), 2_000)
    assert not me.leads
    assert me.claim_due(10_999) is None
    assert other.claim_due(2_000) == ClaimCoordination(2, "other", "http://other")
    assert me.claim_due(11_000) == ClaimCoordination(2, "me", "http://me")


def test_another_process_of_the_same_address_is_not_this_one() -> None:
    me = process()
    me.observe(Coordinator(1, "before", "http://me", EntryNumber(5)), 0)
    assert not me.leads
    assert me.claim_due(SESSION_MS) == ClaimCoordination(2, "me", "http://me")


@pytest.mark.parametrize(
    ("known", "at_ms", "look_ms"),
    [
        (Coordinator(), 0, 0),
        (of("other"), 0, STANDBY_LOOK_MS),
        (of("other"), SESSION_MS - 100, 100),
        (of("other"), SESSION_MS + 1, 0),
        (of("me"), 0, THIRD_MS),
        (of("me"), THIRD_MS - 1, 1),
    ],
)
def test_the_chain_is_looked_at_in_time(known: Coordinator, at_ms: int, look_ms: int) -> None:
    me = process()
    assert me.next_look_ms(at_ms) == 0
    me.observe(known, 0)
    assert me.next_look_ms(at_ms) == look_ms


# ---- several of them ----------------------------------------------------------------------------------


@dataclass
class Chain:
    """What the chain says of coordinators, with the rules that it is written by."""

    known: Coordinator = field(default_factory=Coordinator)
    n: int = 0
    leaders: dict[int, str] = field(default_factory=dict)  # by epoch

    def claim(self, claim: ClaimCoordination) -> None:
        record = decide_claim(self.known, claim)
        self.n += 1
        self.known = Coordinator(record.epoch, record.name, record.address, EntryNumber(self.n))
        assert self.leaders.setdefault(record.epoch, record.name) == record.name, "two led in one epoch"

    def resign(self) -> None:
        self.n += 1
        self.known = Coordinator(self.known.epoch, self.known.name, "", self.known.entry)


@dataclass
class Process:
    """A coordinator that may be paused, be cut off, or die, by the dice."""

    leadership: Leadership
    skew_ms: int  # its monotonic clock began at another time
    wakes_ms: int = 0
    cut_off: bool = False
    dead: bool = False
    pending: ClaimCoordination | None = None

    def step(self, chain: Chain, now_ms: int, dice: random.Random) -> None:
        if self.dead or now_ms < self.wakes_ms or self.cut_off:
            return
        mine_ms = now_ms + self.skew_ms
        if self.pending is not None:  # it was sent before; it lands now, if it is still legal
            claim, self.pending = self.pending, None
            author = Author("coordinator", claim.name, claim.epoch)
            try:
                if not is_fenced(chain.known, author):
                    chain.claim(claim)
            except StaleControllerEpoch:
                pass
        self.leadership.observe(chain.known, mine_ms)
        self.pending = self.leadership.claim_due(mine_ms)
        if self.pending is None:
            self.wakes_ms = now_ms + self.leadership.next_look_ms(mine_ms)
        else:
            self.wakes_ms = now_ms + dice.choice((0, 0, 60, 900))


def run(seed: int, *, ends_ms: int = 200_000) -> tuple[Chain, list[Process], int]:
    """Faults for most of the time, then none; returns for how long the chain had no leader after the faults."""
    dice = random.Random(seed)
    chain = Chain()
    processes = [Process(process(f"p{index}"), dice.randrange(10**6)) for index in range(dice.choice((2, 3, 5)))]
    quiet_ms, led_ms = ends_ms // 2, -1
    for now_ms in range(0, ends_ms, 50):
        if now_ms < quiet_ms and dice.random() < 0.02:
            victim = dice.choice(processes)
            match dice.randrange(5):
                case 0:
                    victim.wakes_ms = now_ms + dice.randrange(30_000)
                case 1:
                    victim.cut_off = not victim.cut_off
                case 2 if sum(not each.dead for each in processes) > 1:
                    victim.dead = True
                case 3 if chain.known.in_force:
                    chain.resign()
                case _:
                    pass
        if now_ms >= quiet_ms:
            for each in processes:
                each.cut_off, each.wakes_ms = False, min(each.wakes_ms, now_ms + THIRD_MS)
        for each in dice.sample(processes, len(processes)):
            each.step(chain, now_ms, dice)
        leading = [each for each in processes if each.leadership.leads and not each.dead]
        if led_ms < 0 and now_ms >= quiet_ms and any(chain.known.name == each.leadership.name for each in leading):
            led_ms = now_ms
    return chain, processes, led_ms - quiet_ms


@pytest.mark.parametrize("seed", range(60))
def test_no_two_lead_in_one_epoch_and_one_leads_soon_after_the_faults(seed: int) -> None:
    chain, processes, without_ms = run(seed)
    assert 0 <= without_ms <= 2 * SESSION_MS
    believing = [each for each in processes if each.leadership.leads and not each.dead]
    assert [each.leadership.name for each in believing] == [chain.known.name]
    alive = {each.leadership.name for each in processes if not each.dead}
    assert chain.known.name in alive


def test_a_leader_that_is_in_time_is_never_replaced() -> None:
    dice = random.Random(1)
    chain = Chain()
    processes = [Process(process(f"p{index}"), dice.randrange(10**6)) for index in range(5)]
    for now_ms in range(0, 500_000, 50):
        for each in dice.sample(processes, len(processes)):
            each.step(chain, now_ms, dice)
    assert chain.known.epoch == 1
