"""Reading entries again: blocks that are being deleted do not count, and repeats get their results."""

from __future__ import annotations

import pytest

from sparklog.chain.follow.read_entries import read_entries, results_in
from sparklog.core.commands import RaiseFloor
from sparklog.core.errors import ChainDamaged, Landed, OutcomeUnknown, StoreUnavailable, WriteExpired
from sparklog.core.types import EntryNumber
from sparklog.storage.keys import entry_key, void_key
from tests.chain.chain_kit import (
    SMALL_BLOCK,
    TIMEOUT_MS,
    Member,
    append,
    let_block_go,
    member,
    new_chain,
    small_blocks,
    upload_of,
)
from tests.chain.commit.test_group_commit import together
from tests.chain.driven import Driven
from tests.kit.faulty_store import Fault

LOG = "meta/log/"


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> Member:
    small_blocks(monkeypatch)
    return new_chain()


def numbers(chain: Member, *wanted: int) -> list[int]:
    return [each.n for each in chain.follower.entries(EntryNumber(n) for n in wanted)]


def test_the_entries_that_are_there_come_once_and_in_order(chain: Member) -> None:
    for _ in range(3):
        chain.append()
    assert numbers(chain, 4, 2, 99, 2) == [2, 4]
    assert numbers(chain) == []


def test_an_entry_of_a_block_that_is_going_does_not_count(chain: Member) -> None:
    """A stalled writer may have put another entry into its slot."""
    while chain.follower.state.n < SMALL_BLOCK:
        chain.append()
    assert numbers(chain, 2, SMALL_BLOCK) == [2, SMALL_BLOCK]
    chain.store.put_if_absent(void_key(0), b"")
    assert numbers(chain, 2, SMALL_BLOCK) == [SMALL_BLOCK]


def test_the_mark_is_looked_for_after_the_entry_was_read(chain: Member) -> None:
    chain.append()
    chain.store.calls.clear()
    assert numbers(chain, 2) == [2]
    assert chain.store.calls == [("get", entry_key(2)), ("get", void_key(0))]


def test_a_damaged_entry_is_an_error(chain: Member) -> None:
    chain.append()
    machine = Driven(read_entries([EntryNumber(2)], "memory://x"))
    machine.start()
    machine.reply([b"nonsense"])
    assert isinstance(machine.reply([None]), ChainDamaged)
    machine = Driven(read_entries([EntryNumber(2)], ""))
    machine.start()
    assert isinstance(machine.reply(StoreUnavailable("gone")), StoreUnavailable)


def test_what_each_command_of_an_entry_led_to_is_read_from_it(chain: Member) -> None:
    first = chain.append(records=3)
    ((command, result),) = results_in(chain.follower.entries([first.n]))
    assert result == first
    assert list(chain.follower.results(list(chain.follower.state.results)))[-1] == (command.command_id, first)


# ---- repeats ------------------------------------------------------------------------------------


def test_a_repeat_costs_its_entry_and_a_mark_and_no_other_request(chain: Member) -> None:
    submission = chain.begin(append(records=2))
    first = chain.submit(submission)
    chain.store.calls.clear()
    assert chain.submit(submission) == first
    assert chain.store.calls == [("get", entry_key(2)), ("get", void_key(0))]


def test_a_repeat_whose_result_can_not_be_read_now_says_that_it_landed(chain: Member) -> None:
    submission = chain.begin(append(records=2))
    first = chain.submit(submission)
    chain.store.plan(Fault.UNAVAILABLE, "get", LOG)
    with pytest.raises(StoreUnavailable) as caught:
        chain.submit(submission)
    assert caught.value.landed is Landed.YES
    assert chain.submit(submission) == first


def test_a_repeat_of_what_floor_has_passed_meanwhile_is_refused_and_its_entry_is_not_missed(chain: Member) -> None:
    """The process learns of FLOOR only when it finds the entry gone."""
    submission = chain.begin(append())
    chain.submit(submission)
    late, other = member(chain.store.inner), member(chain.store.inner)
    let_block_go(other, 0, delete=False)
    other.committer.submit(other.committer.begin(RaiseFloor(EntryNumber(SMALL_BLOCK))), TIMEOUT_MS)
    for n in range(SMALL_BLOCK):
        chain.store.inner.delete(entry_key(n))
    late.committer._machine._durable_n = late.follower.head.n  # as if the newest entry it knows were its own
    with pytest.raises(WriteExpired):
        late.submit(submission)
    assert late.uploads().count(upload_of(submission)) == 1


def test_several_repeats_are_answered_at_once_and_do_not_hold_up_what_is_new(chain: Member) -> None:
    repeats = [chain.begin(append(records=size)) for size in (1, 2)]
    wanted = [chain.submit(each) for each in repeats]
    new = chain.begin(append(records=3))
    chain.store.calls.clear()
    found = together(chain, [*repeats, repeats[0], new])
    assert found[:3] == [*wanted, wanted[0]]
    assert upload_of(new) in member(chain.store.inner).uploads()
    assert chain.store.count("put_if_absent", LOG) == 1


def test_a_command_in_doubt_is_looked_up_by_another_process(chain: Member) -> None:
    submission = chain.begin(append())
    chain.store.plan(Fault.REPLY_LOST, "put_if_absent", LOG)
    chain.store.plan(Fault.UNAVAILABLE, "get", "meta/", times=1_000)
    with pytest.raises(OutcomeUnknown):
        chain.submit(submission)
    chain.store.planned.clear()
    assert member(chain.store.inner).submit(submission).n == 2
