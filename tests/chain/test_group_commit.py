"""Group commit: what waits goes into one entry, and none of it counts before that entry has its slot."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparklog.chain.group import Ticket
from sparklog.chain.requests import Now
from sparklog.core.commands import AllocateProducer, Application, CreateTopic, MoveLogStart, Submission
from sparklog.core.errors import OutcomeUnknown, SparklogError, StoreFull, TopicAlreadyExists
from sparklog.core.records import CommandResult
from sparklog.core.types import Offset, PartitionIndex
from tests.chain.chain_kit import TIMEOUT_MS, TOPIC, Member, append, member, new_chain, upload_of
from tests.faults.faulty_store import Fault

LOG = "meta/log/"


@pytest.fixture
def chain() -> Member:
    return new_chain()


def together(
    chain: Member, submissions: Sequence[Submission], timeouts_ms: Sequence[int] | None = None
) -> list[CommandResult | SparklogError]:
    """Submit each in a thread of its own, in this order, so that all of them wait before the first entry is made."""

    def attempt(submission: Submission, timeout_ms: int) -> CommandResult | SparklogError:
        try:
            return chain.committer.submit(submission, timeout_ms)
        except SparklogError as error:
            return error

    handed_in = threading.Semaphore(0)
    machine = chain.committer._machine

    def submit(ticket: Ticket, now: Now) -> None:
        """All but the last one wait without an entry being made."""
        machine._queue.append(ticket)
        handed_in.release()
        if len(machine._queue) == len(submissions):
            machine._advance(now)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(len(submissions)) as pool:
        patch.setattr(machine, "submit", submit)
        running = []
        for each, timeout_ms in zip(submissions, timeouts_ms or [TIMEOUT_MS] * len(submissions), strict=True):
            running.append(pool.submit(attempt, each, timeout_ms))
            handed_in.acquire()
        return [each.result() for each in running]


def results(found: Sequence[CommandResult | SparklogError]) -> list[CommandResult]:
    assert all(isinstance(each, CommandResult) for each in found), found
    return [each for each in found if isinstance(each, CommandResult)]


def lose_next_slot(chain: Member, other: Member, what: Callable[[], object] | None = None) -> None:
    """Somebody else takes the slot just before this member's put."""
    act = what or other.append
    chain.store.plan(lambda: act(), "put_if_absent", LOG)


# M: F-02 I-06
def test_appends_of_several_threads_share_one_entry_in_their_order(chain: Member) -> None:
    submissions = [chain.begin(append(records=size)) for size in (1, 2, 3, 4)]
    found = results(together(chain, submissions))
    assert {each.n for each in found} == {2}
    assert [(each.ranges[0].start, each.ranges[0].end) for each in found] == [(0, 1), (1, 3), (3, 6), (6, 10)]
    assert chain.committer.counts.group_sizes == {1: 2, 4: 1}  # two made the chain
    assert chain.store.count("put_if_absent", LOG) == 1
    assert member(chain.store.inner).uploads() == [upload_of(each) for each in submissions] == chain.uploads()


# M: F-02
def test_a_group_that_lost_its_slot_is_decided_anew_as_a_whole(chain: Member) -> None:
    other = member(chain.store.inner)
    lose_next_slot(chain, other)
    submissions = [chain.begin(append(records=size)) for size in (1, 2)]
    found = results(together(chain, submissions))
    assert [(each.n, each.ranges[0].start, each.ranges[0].end) for each in found] == [(3, 1, 2), (3, 2, 4)]


# M: F-02
def test_one_that_is_refused_does_not_stop_the_others_of_its_group(chain: Member) -> None:
    commands = [append(), CreateTopic("orders"), append()]
    first, refused, last = together(chain, [Submission(f"{at:032x}", 0, each) for at, each in enumerate(commands)])  # type: ignore[arg-type]
    assert isinstance(refused, TopicAlreadyExists)
    assert [each.n for each in results([first, last])] == [2, 2]


@pytest.mark.parametrize("lost", [False, True])
def test_a_submission_twice_in_one_group_is_written_once_with_one_result(chain: Member, lost: bool) -> None:
    submission = chain.begin(append(records=2))
    if lost:
        lose_next_slot(chain, member(chain.store.inner))
    first, second = results(together(chain, [submission, submission]))
    assert first == second
    assert first.ranges[0].start == (1 if lost else 0)
    assert member(chain.store.inner).uploads().count(upload_of(submission)) == 1


@pytest.mark.parametrize("by", ["application", "producer"])
def test_a_repeat_in_one_group_is_told_the_offsets_that_became_true(chain: Member, by: str) -> None:
    chain.committer.submit(chain.committer.begin(AllocateProducer()), TIMEOUT_MS)
    commands = [
        append(2, application=Application("app", 1)) if by == "application" else append(2, producer=(0, 0, 0))
        for _ in range(2)
    ]
    lose_next_slot(chain, member(chain.store.inner))
    first, second = results(together(chain, [chain.begin(each) for each in commands]))
    assert (
        [(each.start, each.end) for each in second.ranges] == [(1, 3)] == [(first.ranges[0].start, first.ranges[0].end)]
    )
    assert len(member(chain.store.inner).uploads()) == 2


def test_a_repeat_is_no_success_while_what_it_repeats_has_not_landed(chain: Member) -> None:
    def full() -> None:
        raise StoreFull("no space left")

    submission = chain.begin(append())
    chain.store.plan(full, "put_if_absent", LOG, times=2)
    found = together(chain, [submission, submission])
    assert [type(each) for each in found] == [StoreFull, StoreFull]
    assert member(chain.store.inner).uploads() == []


def test_a_command_with_nothing_to_do_waits_for_what_makes_it_so(chain: Member) -> None:
    chain.append(records=10)
    moves = [MoveLogStart(TOPIC, PartitionIndex(0), Offset(to)) for to in (8, 5)]

    def full() -> None:
        raise StoreFull("no space left")

    chain.store.plan(full, "put_if_absent", LOG)
    failed, done = together(chain, [Submission(f"{at:032x}", 0, each) for at, each in enumerate(moves)])  # type: ignore[arg-type]
    assert isinstance(failed, StoreFull)
    assert isinstance(done, CommandResult)
    assert member(chain.store.inner).follower.state.partition(TOPIC, 0).log_start == 5  # type: ignore[union-attr]


def test_a_refusal_rests_on_what_has_landed_only(chain: Member) -> None:
    def full() -> None:
        raise StoreFull("no space left")

    chain.store.plan(full, "put_if_absent", LOG)
    twins = [Submission(f"{at:032x}", 0, CreateTopic("new")) for at in range(2)]  # type: ignore[arg-type]
    failed, created = together(chain, twins)
    assert isinstance(failed, StoreFull)
    assert isinstance(created, CommandResult)
    assert "new" in member(chain.store.inner).follower.state.topic_ids


def test_an_unknown_outcome_is_told_to_all_of_the_entry(chain: Member) -> None:
    chain.store.plan(Fault.UNAVAILABLE, "get", "meta/void/", times=1_000)
    found = together(chain, [chain.begin(append()) for _ in range(3)])
    assert [type(each) for each in found] == [OutcomeUnknown] * 3
    assert len(member(chain.store.inner).uploads()) == 3


# M: F-02
def test_an_entry_takes_about_a_thousand_slices_and_the_rest_waits_for_the_next(chain: Member) -> None:
    submissions = [chain.begin(append(slices=[0] * 400)) for _ in range(5)]
    found = results(together(chain, submissions))
    assert [each.n for each in found] == [2, 2, 3, 3, 4]
    assert [each.ranges[0].start for each in found] == [0, 400, 800, 1200, 1600]


def test_a_caller_in_a_hurry_does_not_end_the_appends_of_others(chain: Member) -> None:
    chain.store.plan(Fault.UNAVAILABLE, "put_if_absent", LOG, times=6)  # some hundred milliseconds of pauses
    submissions = [chain.begin(append()) for _ in range(2)]
    hurried, patient = together(chain, submissions, (1, TIMEOUT_MS))
    assert isinstance(patient, CommandResult)
    assert isinstance(hurried, CommandResult)
    assert member(chain.store.inner).uploads() == [upload_of(each) for each in submissions]
