"""Which entries of a piece of the chain count, without a replay of all that was before it (rule C1)."""

from __future__ import annotations

import random

import pytest

from sparklog.chain.entry import Entry
from sparklog.chain.follow.ignored_entries import LOOK_BACK, ignored_entries
from sparklog.core.coordination import NO_COORDINATOR, Author, Coordinator, is_fenced
from sparklog.core.records import AppliedCommand, CoordinationClaimed, CoordinationResigned, FloorRaised, Record
from sparklog.core.types import CommandId, EntryNumber

CLIENT = Author("client", "somebody")


def entry(n: int, author: Author, *records: Record) -> Entry:
    commands = (AppliedCommand(CommandId(f"{n:032x}"), EntryNumber(0), records),)
    return Entry("c" * 32, EntryNumber(n), author, "f" * 32, "0" * 64, n, commands)


def history(seed: int, length: int) -> tuple[list[Entry], list[Coordinator], set[int]]:
    """A chain with claims, resignations and fenced coordinators; the coordinator after each entry; what is ignored."""
    dice = random.Random(seed)
    known, entries, after, ignored = NO_COORDINATOR, [], [], set()
    nothing = FloorRaised(EntryNumber(0))
    for n in range(length):
        leader = Author("coordinator", known.name, known.epoch)
        kind = dice.choice(["client", "leader", "leader", "alive", "next", "resigned", "forced", "fenced", "fenced"])
        fenced = dice.randint(1, known.epoch if not known.in_force else known.epoch - 1) if known.epoch > 1 else None
        if kind == "next" or (not known.in_force and kind in ("leader", "alive", "resigned", "forced")):
            known = Coordinator(known.epoch + 1, f"c{known.epoch + 1}", "http://c")
            author = Author("coordinator", known.name, known.epoch)
            entries.append(entry(n, author, CoordinationClaimed(known.epoch, known.name, known.address)))
        elif kind == "alive":
            entries.append(entry(n, leader, CoordinationClaimed(known.epoch, known.name, known.address)))
        elif kind in ("resigned", "forced"):
            author = leader if kind == "resigned" else CLIENT
            entries.append(entry(n, author, CoordinationResigned(known.epoch)))
            known = Coordinator(known.epoch, known.name)
        elif kind == "fenced" and fenced is not None:
            entries.append(entry(n, Author("coordinator", f"c{fenced}", fenced), nothing))
            ignored.add(n)
        else:
            entries.append(entry(n, leader if kind == "leader" else CLIENT, nothing))
        after.append(known)
    return entries, after, ignored


@pytest.mark.parametrize("seed", range(40))
def test_the_same_entries_count_as_in_a_replay(seed: int) -> None:
    entries, after, ignored = history(seed, 40)
    assert ignored or seed
    for end in range(1, len(entries) + 1):
        for start in range(0, end, 3):
            found = ignored_entries(entries[start:end], after[end - 1], lambda n: entries[n])
            assert found == {n for n in ignored if start <= n < end}, (start, end)


def test_nothing_earlier_is_read_while_nobody_is_fenced() -> None:
    leader = Coordinator(3, "c3", "http://c3")
    entries = [entry(n, Author("coordinator", "c3", 3)) for n in range(90, 100)]
    assert ignored_entries(entries, leader, lambda n: pytest.fail("nobody is fenced")) == frozenset()


def test_no_more_than_a_bound_is_read_and_what_is_known_then_is_enough_to_fence_an_older_epoch() -> None:
    read = []
    old, new = Author("coordinator", "c1", 1), Author("coordinator", "c2", 2)

    def before(n: int) -> Entry:
        read.append(n)
        return entry(n, new)

    assert is_fenced(Coordinator(2, "c2", "http://c2"), old)
    found = ignored_entries([entry(10_000, old)], Coordinator(2, "c2", "http://c2"), before)
    assert (found, len(read)) == ({10_000}, LOOK_BACK)


def test_entries_that_are_gone_end_the_look_back() -> None:
    old = entry(10_000, Author("coordinator", "c1", 1))
    assert ignored_entries([old], Coordinator(2, "c2", "http://c2"), lambda n: None) == frozenset()
