"""Several processes at one chain, with faults at any call: for every seed, the answers given match the chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from sparklog.chain import old_entries
from sparklog.chain.chain_requests import ChainMachine, Get, GetMany, Reply, Request
from sparklog.chain.commit import command_group
from sparklog.chain.commit.claim import Claim
from sparklog.chain.commit.command_group import Ticket
from sparklog.chain.follow import catch_up
from sparklog.chain.head import Draft, Head
from sparklog.chain.old_entries import OldBlocks, OldEntries, PutMark
from sparklog.chain.snapshot import old_snapshots, snapshot
from sparklog.chain.snapshot.old_snapshots import Found, oldest_kept
from sparklog.core.commands import CreateTopic, Submission
from sparklog.core.decide import command as decide_module
from sparklog.core.decide import uploads
from sparklog.core.decide.command import Decision, decide
from sparklog.core.errors import KeyExists, KeyNotFound, OutcomeUnknown, SparklogError, StoreUnavailable
from sparklog.core.machine import Ended, resume
from sparklog.core.records import At
from sparklog.core.state import ClusterState
from sparklog.core.tables.result_table import ResultTable
from sparklog.core.types import EntryNumber
from sparklog.storage import keys
from sparklog.storage.keys import parse_snapshot_key
from sparklog.storage.object_store import ObjectStore
from tests.chain.simulated_keeper import BLOCK
from tests.chain.simulated_promises import check
from tests.chain.simulation import World, new_chain
from tests.faults.inline_pool import Inline
from tests.kit.budget import Seeds, random_runs
from tests.kit.kernel import reported

PART, PARTS = 600, 8  # seeds of a part of a campaign
EVENTS = 120
Patch = pytest.MonkeyPatch
Start = tuple[dict[str, bytes], Head]
Lies = Callable[[Request, object], object]


@pytest.fixture
def start(monkeypatch: Patch) -> Start:
    """A chain of small blocks, with one snapshot kept and no threads."""
    monkeypatch.setattr(keys, "ENTRIES_PER_BLOCK", BLOCK)
    monkeypatch.setattr(catch_up, "ROUND_ENTRIES", 3)
    monkeypatch.setattr(catch_up, "READ_WIDTH", 2)
    monkeypatch.setattr(old_snapshots, "KEPT", 1)
    monkeypatch.setattr(snapshot, "ThreadPoolExecutor", Inline)
    return new_chain()


class Checked(World):
    def run(self) -> None:
        super().run()
        check(self)


def simulated(seed: int, start: Start, **how: Any) -> World:
    world = Checked(seed, start, events=EVENTS, **how)
    world.run()
    return world


# ---- every seed ---------------------------------------------------------------------------------


# M: S-03 I-01 I-02 (loses)
@random_runs(range(100), campaign=[range(part * PART, (part + 1) * PART) for part in range(PARTS)])
def test_any_interleaving_of_any_faults_tells_the_truth(start: Start, seeds: Seeds) -> None:
    """A quarter of the worlds are wiped on the way, and another chain is created in the same place."""
    others = new_chain(40, "d" * 32)
    told: Counter[str] = Counter()
    deleted = snapshots = old = 0
    for seed in seeds:
        world = Checked(seed, start, events=EVENTS, other=others if seed % 4 == 0 else None)
        with reported(world):
            world.run()
        told.update(type(each.told).__name__ for each in world.attempts)
        deleted += len(world.deleted_blocks)
        snapshots += world.keeper.snapshot_n >= 0
        old += world.old_deleted
    assert set(told) >= {"CommandResult", "WriteExpired", "RequestTimedOut", "StoreUnavailable"}
    assert deleted > seeds.least // 8
    assert snapshots > seeds.least // 2
    assert old > 0


def test_a_seed_always_gives_the_same_run(start: Start) -> None:
    first, again = (simulated(77, start) for _ in range(2))
    assert first.trace == again.trace
    assert first.store.bodies == again.store.bodies
    assert first.trace != simulated(78, start).trace


# ---- each guard is needed: without it a stored seed breaks a promise ---------------------------------


def no_mark_for_a_claim(request: Request, reply: object) -> object:
    return KeyNotFound("not looked for") if isinstance(request, Get) and "/void/" in request.key else reply


def no_mark_for_a_reader(request: Request, reply: object) -> object:
    asked = isinstance(request, GetMany) and "/void/" in request.keys[0] and isinstance(reply, list)
    return [None] * len(reply) if asked else reply  # type: ignore[arg-type]


def take_the_reply_to_a_put_for_another(patch: Patch, other: Callable[[Reply], Reply]) -> None:
    real = Claim._put

    def careless(claim: Claim) -> ChainMachine[Any]:
        steps = real(claim)
        reply, now = yield next(steps)
        answer = other(reply), now
        while True:
            request = resume(steps, answer)
            if isinstance(request, Ended):
                return request.outcome
            answer = yield request

    patch.setattr(Claim, "_put", careless)


def take_every_existing_key_for_ones_own(patch: Patch) -> None:
    take_the_reply_to_a_put_for_another(patch, lambda reply: None if isinstance(reply, KeyExists) else reply)


def take_an_unknown_put_for_a_failed_one(patch: Patch) -> None:
    failed = StoreUnavailable("failed")
    take_the_reply_to_a_put_for_another(patch, lambda reply: failed if isinstance(reply, OutcomeUnknown) else reply)


def forget_what_was_sent_when_a_caller_is_interrupted(patch: Patch) -> None:
    def forget(ticket: Ticket) -> None:
        ticket.sent = False

    patch.setattr(Ticket, "doubt", forget)


def forget_known_ids(patch: Patch) -> None:
    """And uploads that are named: one of the two is enough here."""

    def forgetful(state: ClusterState, submission: Submission, at: At) -> Decision:
        fork = state.fork()
        fork.results = ResultTable()
        return decide(fork, submission, at)

    patch.setattr(command_group, "decide", forgetful)
    patch.setattr(uploads, "_check_new", lambda state, objects: None)


def no_look_at_when_objects_were_uploaded(patch: Patch) -> None:
    real = decide_module._check_floor

    def only_the_command(floor: EntryNumber, submission: Submission) -> None:
        command = CreateTopic("as if")  # a command that names no objects
        real(floor, msgspec.structs.replace(submission, command=command))

    patch.setattr(decide_module, "_check_floor", only_the_command)


def no_floor(patch: Patch) -> None:
    patch.setattr(decide_module, "_check_floor", lambda floor, submission: None)


def no_hash_link(patch: Patch) -> None:
    patch.setattr(Draft, "follows", lambda draft, entry: True)


def marks_after_the_entries(patch: Patch) -> None:
    real = old_entries.deletion

    def careless(store: ObjectStore, old: OldBlocks) -> Iterator[PutMark | OldEntries]:
        marks: list[PutMark] = []
        for change in real(store, old):
            if isinstance(change, PutMark):
                marks.append(change)
            else:
                yield change
        yield from marks

    patch.setattr(old_entries, "deletion", careless)


def blocks_above_floor(patch: Patch) -> None:
    real = old_entries.decide_blocks

    def without_floor(found: Found) -> OldBlocks:
        risen = [msgspec.structs.replace(each, floor=parse_snapshot_key(each.stored.key)) for each in found.snapshots]
        return real(msgspec.structs.replace(found, snapshots=tuple(risen)))

    patch.setattr(old_entries, "decide_blocks", without_floor)


def blocks_that_only_the_newest_floor_has_passed(patch: Patch) -> None:
    """FLOOR of the newest entry instead of that of the oldest snapshot kept: no snapshot may cover the block."""

    def by_newest_floor(found: Found) -> OldBlocks:
        oldest = oldest_kept(found)
        ends = [keys.entry_block(each.floor or 0) + 1 for each in found.snapshots]
        return OldBlocks() if oldest is None else OldBlocks(max(ends), oldest.stored.key)

    patch.setattr(old_entries, "decide_blocks", by_newest_floor)


# Guard -> a seed that needs it. If the simulation changes, look for others with `breaks`.
SEEDS_OF_GUARDS: dict[str, tuple[Callable[[Patch], None] | Lies, int]] = {
    "the mark after a win": (no_mark_for_a_claim, 144),
    "the mark in front of a reader": (no_mark_for_a_reader, 207),
    "the mark before the entries go": (marks_after_the_entries, 1433),
    "FLOOR before a block goes": (blocks_above_floor, 443),
    "a snapshot over a block that goes": (blocks_that_only_the_newest_floor_has_passed, 443),
    "the read-back": (take_every_existing_key_for_ones_own, 0),
    "doubt of a put without an answer": (take_an_unknown_put_for_a_failed_one, 878),
    "doubt of what an interrupted caller sent": (forget_what_was_sent_when_a_caller_is_interrupted, 24),
    "the look for a known id": (forget_known_ids, 4),
    "FLOOR": (no_floor, 2),
    "n0 in the names of objects": (no_look_at_when_objects_were_uploaded, 2),
    "the hash link": (no_hash_link, 0),
}


def breaks(guard: str, seed: int, start: Start, monkeypatch: Patch) -> bool:
    """Whether a promise is broken in this world without the guard."""
    without, _ = SEEDS_OF_GUARDS[guard]
    how: dict[str, Any] = {"other": new_chain(40, "d" * 32)} if without is no_hash_link else {}
    with monkeypatch.context() as patch:
        if without in (no_mark_for_a_claim, no_mark_for_a_reader):
            how["lies"] = without
        else:
            without(patch)  # type: ignore[call-arg, arg-type]
        try:
            simulated(seed, start, **how)
        except (AssertionError, SparklogError):
            return True
    return False


@pytest.mark.parametrize("guard", SEEDS_OF_GUARDS)
def test_a_stored_seed_finds_that_a_guard_is_missing(guard: str, start: Start, monkeypatch: Patch) -> None:
    seed = SEEDS_OF_GUARDS[guard][1]
    assert breaks(guard, seed, start, monkeypatch), f"seed {seed} does not need {guard}"
    how = {"other": new_chain(40, "d" * 32)} if guard == "the hash link" else {}
    simulated(seed, start, **how)  # and with the guard the same world keeps its promises
