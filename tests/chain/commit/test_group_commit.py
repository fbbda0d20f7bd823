"""Group commit: waiting commands go into one entry, and none of them counts before that entry has its slot."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sparklog.chain.chain_requests import Get, GetMany, Now, Pause, Put, Request
from sparklog.chain.commit import committer as committer_module
from sparklog.chain.commit import group_commit
from sparklog.chain.commit.command_group import Ticket
from sparklog.chain.commit.group_commit import GroupCommit
from sparklog.chain.entry import decode_entry
from sparklog.core.apply import apply_command
from sparklog.core.commands import AllocateProducer, Application, CreateTopic, MoveLogStart, Submission
from sparklog.core.errors import InvalidInput, OutcomeUnknown, SparklogError, StoreFull, TopicAlreadyExists
from sparklog.core.records import AppliedCommand, At, CommandResult
from sparklog.core.state import ClusterState
from sparklog.core.types import Offset, PartitionIndex
from tests.chain.chain_kit import AUTHOR, TIMEOUT_MS, TOPIC, Member, append, member, new_chain, upload_of
from tests.kit.faulty_store import Fault

LOG = "meta/log/"


@pytest.fixture
def chain() -> Member:
    return new_chain()


def together(
    chain: Member,
    submissions: Sequence[Submission],
    timeouts_ms: Sequence[int] | None = None,
    *,
    interrupted: bool = False,
) -> list[Any]:
    """Submit each command in its own thread, in this order, so that all of them wait before the first entry is built.

    Returns results and errors. The last caller performs what the machine asks for, and may be `interrupted`.
    """

    def attempt(submission: Submission, timeout_ms: int) -> Any:
        try:
            return chain.committer.submit(submission, timeout_ms)
        except (SparklogError, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt) and not interrupted:
                raise
            return error

    handed_in = threading.Semaphore(0)
    machine = chain.committer._machine

    def submit(ticket: Ticket, now: Now) -> None:
        """All but the last one wait, and no entry is built."""
        machine._queue.append(ticket)
        handed_in.release()
        if len(machine._queue) == len(submissions):
            machine._advance(now)

    found: dict[int, Any] = {}

    def call(at: int, submission: Submission, timeout_ms: int) -> None:
        found[at] = attempt(submission, timeout_ms)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "submit", submit)
        callers = []
        for at, (each, timeout_ms) in enumerate(
            zip(submissions, timeouts_ms or [TIMEOUT_MS] * len(submissions), strict=True)
        ):
            callers.append(threading.Thread(target=call, args=(at, each, timeout_ms), daemon=True))
            callers[-1].start()
            handed_in.acquire()
        for caller in callers:
            caller.join(timeout=60)
        assert not any(caller.is_alive() for caller in callers), "callers were left asleep"
    return [found[at] for at in range(len(submissions))]


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
    assert chain.committer.counts.group_sizes == {1: 2, 4: 1}  # the chain began with two
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


def test_one_that_nobody_can_decide_does_not_stop_the_others_of_its_group(chain: Member) -> None:
    commands: list[Any] = [append(), object(), append()]
    first, refused, last = together(chain, [Submission(f"{at:032x}", 0, each) for at, each in enumerate(commands)])  # type: ignore[arg-type]
    assert isinstance(refused, InvalidInput)
    assert [each.n for each in results([first, last])] == [2, 2]


@pytest.mark.parametrize("error", [TypeError, KeyError])
def test_one_whose_application_stops_half_way_leaves_nothing_of_it_to_the_others_of_its_group(
    chain: Member, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    submissions = [chain.begin(append(records=size)) for size in (1, 2, 3)]

    def stopping(state: ClusterState, command: AppliedCommand, at: At) -> None:
        apply_command(state, command, at)
        if command.command_id == submissions[1].command_id:
            raise error("half way")

    monkeypatch.setattr("sparklog.chain.head.apply_command", stopping)
    first, refused, last = together(chain, submissions)
    assert isinstance(refused, InvalidInput)
    assert [(each.n, each.ranges[0].start) for each in results([first, last])] == [(2, 0), (2, 1)]
    assert chain.uploads() == member(chain.store.inner).uploads() == [upload_of(submissions[at]) for at in (0, 2)]


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
    chain.store.plan(Fault.UNAVAILABLE, "put_if_absent", LOG, times=6)  # a few hundred milliseconds of pauses
    submissions = [chain.begin(append()) for _ in range(2)]
    hurried, patient = together(chain, submissions, (1, TIMEOUT_MS))
    assert isinstance(patient, CommandResult)
    assert isinstance(hurried, CommandResult)
    assert member(chain.store.inner).uploads() == [upload_of(each) for each in submissions]


# ---- which commands share an entry ----------------------------------------------------------------


class Driven:
    """The machine alone, under the test's control: its requests are performed when the test says so."""

    def __init__(self, chain: Member) -> None:
        self.chain = chain
        self.machine = GroupCommit(AUTHOR, "memory://driven", chain.follower.head, 0)
        self.at_ms = 0
        self.drawn = 0

    def now(self) -> Now:
        self.drawn += 1
        return Now(1_800_000_000_000 + self.at_ms, self.at_ms, f"{self.drawn:032x}")

    def submit(self, *submissions: Submission) -> list[Ticket]:
        """Hand in commands, all of them before the machine acts on the first."""
        tickets = [Ticket(each, 10**9, TIMEOUT_MS) for each in submissions or (self.chain.begin(append()),)]
        self.machine._queue.extend(tickets[:-1])
        self.machine.submit(tickets[-1], self.now())
        return tickets

    def appends(self, count: int) -> list[Ticket]:
        return self.submit(*(self.chain.begin(append()) for _ in range(count)))

    def perform(self, kind: type[Request], took_ms: int = 0) -> None:
        """Perform the only request, which must be of this kind."""
        assert self.asked() == [kind]
        request = self.machine.requests.popleft()
        self.at_ms += took_ms
        self.machine.reply(request, self.chain.follower.perform(request), self.now())

    def asked(self) -> list[type[Request]]:
        return [type(each) for each in self.machine.requests]

    def sent(self) -> int:
        """How many commands the next entry to be put holds."""
        (request,) = self.machine.requests
        assert isinstance(request, Put)
        return len(decode_entry(int(request.key[-20:]), request.body).commands)


@pytest.fixture
def driven(chain: Member) -> Driven:
    return Driven(chain)


# M: F-02
def test_after_a_slow_entry_the_next_one_waits_for_callers_who_come_back(driven: Driven) -> None:
    driven.appends(3)
    driven.perform(Put, took_ms=64)
    driven.perform(Get)
    driven.appends(1)
    assert driven.asked() == [Pause]
    driven.machine.requests.clear()  # it lasts
    driven.appends(1)
    assert driven.asked() == []
    driven.appends(1)
    assert driven.sent() == 3


def test_the_wait_for_callers_ends_when_none_come_back(driven: Driven) -> None:
    driven.appends(3)
    driven.perform(Put, took_ms=64)
    driven.perform(Get)
    driven.appends(1)
    driven.perform(Pause)
    assert driven.sent() == 1


def test_an_entry_that_others_wait_behind_is_not_put_off(driven: Driven) -> None:
    """Callers who just got a result and those who wait are two groups, which would take turns forever."""
    driven.appends(2)
    driven.appends(2)
    driven.perform(Put, took_ms=64)
    driven.perform(Get)
    assert driven.asked() == [Pause]
    driven.machine.requests.clear()
    driven.appends(2)
    assert driven.sent() == 4


def test_a_slot_is_claimed_behind_a_mark_look_up_for_more_commands_than_the_entry_before_it_has(driven: Driven) -> None:
    first = driven.appends(2)
    others = driven.appends(2)
    driven.perform(Put)
    assert driven.asked() == [Get]
    others += driven.appends(1)
    assert driven.asked() == [Get, Put]
    look, put = driven.machine.requests
    driven.machine.requests.clear()
    driven.machine.reply(put, driven.chain.follower.perform(put), driven.now())
    assert not any(each.done for each in first + others)
    driven.machine.reply(look, driven.chain.follower.perform(look), driven.now())
    assert all(each.done for each in first)
    assert not any(each.done for each in others)  # until their own block is looked at
    driven.perform(Get)
    assert {each.result.n for each in others if each.result is not None} == {3}


def test_what_leads_to_nothing_behind_an_entry_is_decided_once_and_again_when_that_has_landed(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided: list[int] = []
    real = group_commit.decide_group

    def counted(head: Any, tickets: Sequence[Ticket], *more: Any, **options: Any) -> Any:
        decided.append(len(tickets))
        return real(head, tickets, *more, **options)

    monkeypatch.setattr(group_commit, "decide_group", counted)
    submission = driven.chain.begin(append())
    first = driven.submit(submission)
    driven.perform(Put)
    repeats = [*driven.submit(submission, submission), *driven.submit(submission), *driven.submit(submission)]
    assert decided == [1, 2]
    driven.perform(Get)
    assert decided == [1, 2, 4]
    driven.perform(GetMany)  # the entry that has their result,
    driven.perform(GetMany)  # and the mark of its block
    assert [each.result for each in repeats] == [first[0].result] * 4


# ---- callers ---------------------------------------------------------------------------------------


def test_only_those_are_woken_who_have_something_to_do(chain: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Ticket] = []
    real = chain.committer._next_request

    def counted(ticket: Ticket) -> Request | None:
        looked.append(ticket)
        return real(ticket)

    monkeypatch.setattr(chain.committer, "_next_request", counted)
    results(together(chain, [chain.begin(append()) for _ in range(20)]))
    assert len(looked) == 20 + 2  # once per ticket handed in, and after the put and the mark look-up
    assert chain.committer._waiting == chain.committer._idle == {}


def test_callers_who_are_told_wake_a_few_at_a_time_and_each_wakes_one_more(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    committer = chain.committer
    tickets = [Ticket(chain.begin(append()), 0, 0) for _ in range(10)]
    gates = [threading.Lock() for _ in tickets]
    for ticket, gate in zip(tickets, gates, strict=True):
        gate.acquire()
        committer._waiting[ticket] = committer._idle[ticket] = gate
    committer._machine.ended.extend(tickets)
    committer._wake()
    assert [each.locked() for each in gates] == [False] * committer_module.AWAKE + [True] * (10 - 4)
    opened: list[None] = []
    real = committer._open_next

    def counted() -> None:
        opened.append(None)
        real()

    committer._to_wake.clear()
    monkeypatch.setattr(committer, "_open_next", counted)
    results(together(chain, [chain.begin(append()) for _ in range(4)]))
    assert len(opened) == committer_module.AWAKE + 3  # the fourth performed the requests and was not asleep


def test_who_took_a_request_performs_it_though_a_result_comes_first(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = chain.committer._next_request
    result = chain.append()

    def done_at_once(ticket: Ticket) -> Request | None:
        request = real(ticket)
        ticket.result = result
        return request

    monkeypatch.setattr(chain.committer, "_next_request", done_at_once)
    puts = chain.store.count("put_if_absent", LOG)
    chain.append()
    assert chain.store.count("put_if_absent", LOG) == puts + 1


def test_when_the_caller_who_performs_is_interrupted_another_goes_on(chain: Member) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    chain.store.plan(interrupted, "get", "meta/void/")
    submissions = [chain.begin(append()) for _ in range(3)]
    found = together(chain, submissions, interrupted=True)
    assert [type(each) for each in found] == [CommandResult, CommandResult, KeyboardInterrupt]
    assert member(chain.store.inner).uploads() == [upload_of(each) for each in submissions]


@pytest.mark.parametrize(("second", "told"), [(KeyboardInterrupt, CommandResult), (MemoryError, OutcomeUnknown)])
def test_callers_are_told_though_the_one_who_performs_is_stopped_again_while_it_leaves(
    chain: Member, monkeypatch: pytest.MonkeyPatch, second: type[BaseException], told: type
) -> None:
    def interrupted() -> None:
        monkeypatch.setattr(chain.committer._machine, "_advance", failing)
        raise KeyboardInterrupt

    def failing(now: Now) -> None:
        monkeypatch.undo()
        raise second

    chain.store.plan(interrupted, "get", "meta/void/")
    found = together(chain, [chain.begin(append()) for _ in range(3)], interrupted=True)
    assert [type(each) for each in found] == [told, told, KeyboardInterrupt]
    assert chain.append().ranges[0].start == 3


def test_callers_go_on_though_the_one_who_performs_is_interrupted_again_while_it_waits_for_its_turn(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Turn:
        def __enter__(self) -> None:
            monkeypatch.undo()
            raise KeyboardInterrupt

        def __exit__(self, *_: object) -> None:
            raise AssertionError("it was never entered")

    def interrupted() -> None:
        monkeypatch.setattr(chain.committer, "_turn", Turn())
        raise KeyboardInterrupt

    chain.store.plan(interrupted, "get", "meta/void/")
    submissions = [chain.begin(append()) for _ in range(3)]
    found = together(chain, submissions, interrupted=True)
    assert [type(each) for each in found] == [CommandResult, CommandResult, KeyboardInterrupt]
    assert chain.committer._waiting == chain.committer._idle == {}


def test_a_caller_is_told_though_the_one_who_performs_is_stopped_just_before(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped() -> None:
        chain.committer._machine.ended.clear()
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(chain.committer, "_wake", stopped)
    found = together(chain, [chain.begin(append()) for _ in range(3)], interrupted=True)
    assert [type(each) for each in found] == [CommandResult, CommandResult, KeyboardInterrupt]
    assert chain.committer._waiting == chain.committer._idle == {}
