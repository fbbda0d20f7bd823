"""Threads that submit at once share requests: none is lost, sent twice, or waits for others for long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import msgspec
import pytest

from sparklog.client.commits import shared_requests
from sparklog.client.commits.shared_requests import CommandOutcome, SharedRequests, WaitingCaller, commands_of_a_request
from sparklog.core.commands import CreateTopic, Submission
from sparklog.core.coordination import Coordinator
from sparklog.core.errors import Landed, TopicAlreadyExists, TryAgain
from sparklog.core.records import CommandResult
from sparklog.core.types import CommandId, EntryNumber
from sparklog.storage.http.calls import NoCoordinatorAnswers
from sparklog.wire.messages import SubmittedCommand

HERE = Coordinator(1, "here", "http://here", EntryNumber(1))
OTHER = Coordinator(2, "other", "http://other", EntryNumber(2))
TIMEOUT_MS = 50_000
PATIENCE_MS = 60_000


def submission(name: str) -> Submission:
    return Submission(CommandId(name), EntryNumber(0), CreateTopic(name))


def applied(name: str) -> CommandResult:
    """A result that says whose it is."""
    return CommandResult(EntryNumber(len(name)), EntryNumber(int(name)), 0)


@dataclass
class Requests:
    """Takes requests; a test answers them, in any order."""

    under_way: list[tuple[list[str], Coordinator, Future[Sequence[CommandOutcome]]]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def post(self, known: Coordinator, bodies: Sequence[msgspec.Raw], patience_ms: int) -> Sequence[CommandOutcome]:
        names = [str(msgspec.msgpack.decode(body, type=SubmittedCommand).submission.command_id) for body in bodies]
        answer: Future[Sequence[CommandOutcome]] = Future()
        with self.changed:
            self.under_way.append((names, known, answer))
            self.changed.notify_all()
        return answer.result(60)

    def wait_for(self, happened: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(happened, 60)

    def sizes(self) -> list[int]:
        return [len(names) for names, _, _ in self.under_way]

    def answer(self, number: int) -> None:
        """Answer this request: all of its commands are applied."""
        names, _, answer = self.under_way[number]
        answer.set_result([applied(name) for name in names])


@dataclass
class Threads:
    """Callers, each in a thread of its own, who come one after the other."""

    requests: Requests
    shared: SharedRequests
    pool: ThreadPoolExecutor
    callers: list[Future[CommandResult]] = field(default_factory=list)

    def come(self, count: int, known: Coordinator = HERE, patience_ms: int = PATIENCE_MS) -> None:
        for _ in range(count):
            name = str(len(self.callers))
            before = self._seen()
            self.callers.append(self.pool.submit(self.shared.submit, known, submission(name), TIMEOUT_MS, patience_ms))
            while self._seen() == before:
                threading.Event().wait(0.001)

    def _seen(self) -> int:
        """How many commands wait, or were sent."""
        with self.shared._turn:
            carried = sum(self.shared._under_way.values())
            return len(self.shared._queue) + carried

    def results(self) -> list[int]:
        return [caller.result(60).n0 for caller in self.callers]


@pytest.fixture
def threads() -> Iterator[Threads]:
    requests = Requests()
    with ThreadPoolExecutor(64) as pool:
        yield Threads(requests, SharedRequests(requests.post), pool)


def test_a_request_says_how_long_the_coordinator_may_try_and_waits_no_longer_than_its_caller() -> None:
    posted: list[tuple[int, int]] = []

    def post(known: Coordinator, bodies: Sequence[msgspec.Raw], patience_ms: int) -> Sequence[CommandOutcome]:
        posted.append((msgspec.msgpack.decode(bodies[0], type=SubmittedCommand).timeout_ms, patience_ms))
        return [applied("0")]

    SharedRequests(post).submit(HERE, submission("0"), TIMEOUT_MS, PATIENCE_MS)
    assert posted == [(TIMEOUT_MS, PATIENCE_MS)]


def test_a_caller_alone_is_sent_at_once(threads: Threads) -> None:
    threads.come(1)
    threads.requests.wait_for(lambda: threads.requests.sizes() == [1])
    threads.requests.answer(0)
    assert threads.results() == [0]


def test_callers_share_requests_and_none_of_many_waits_for_a_reply(threads: Threads) -> None:
    threads.come(64)
    threads.requests.wait_for(lambda: len(threads.requests.under_way) == 7)
    assert sorted(threads.requests.sizes()) == [1, 1, 2, 4, 8, 16, 32]
    for number in range(7):
        threads.requests.answer(number)
    assert threads.results() == list(range(64))


def test_those_who_wait_go_with_the_next_reply(threads: Threads) -> None:
    threads.come(7)
    threads.requests.wait_for(lambda: len(threads.requests.under_way) == 3)  # 1, 1, 2; and three wait
    threads.requests.answer(0)
    threads.requests.wait_for(lambda: len(threads.requests.under_way) == 4)
    assert threads.requests.sizes()[3] == 3
    for number in (3, 2, 1):
        threads.requests.answer(number)
    assert threads.results() == list(range(7))


def test_each_gets_its_own_outcome(threads: Threads) -> None:
    threads.come(4)
    threads.requests.wait_for(lambda: len(threads.requests.under_way) == 3)
    for names, _, answer in threads.requests.under_way:
        answer.set_result([applied(name) if int(name) % 2 else TopicAlreadyExists(name) for name in names])
    assert [caller.exception(60) is None for caller in threads.callers] == [False, True, False, True]
    error = threads.callers[2].exception()
    assert isinstance(error, TopicAlreadyExists)
    assert error.message == "2"


def test_a_request_that_fails_fails_all_of_its_commands_and_only_them(threads: Threads) -> None:
    threads.come(4)
    threads.requests.wait_for(lambda: len(threads.requests.under_way) == 3)
    last = next(answer for names, _, answer in threads.requests.under_way if len(names) == 2)
    last.set_exception(NoCoordinatorAnswers("gone", landed=Landed.UNKNOWN))
    for number, (names, _, _) in enumerate(threads.requests.under_way):
        if len(names) == 1:
            threads.requests.answer(number)
    errors = [caller.exception(60) for caller in threads.callers]
    assert [error is None for error in errors] == [True, True, False, False]
    assert errors[2] is not errors[3]  # two threads raise them
    assert all(isinstance(error, NoCoordinatorAnswers) and error.landed is Landed.UNKNOWN for error in errors[2:])


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_of_the_caller_that_carries_leaves_the_others_in_doubt_and_stops_nobody(
    threads: Threads, error: type[BaseException]
) -> None:
    threads.come(4)
    threads.requests.wait_for(lambda: len(threads.requests.under_way) == 3)
    names, _, answer = next(each for each in threads.requests.under_way if len(each[0]) == 2)
    answer.set_exception(error())
    carrier, other = (threads.callers[int(name)] for name in names)
    assert isinstance(carrier.exception(60), error)
    doubtful = other.exception(60)
    assert isinstance(doubtful, NoCoordinatorAnswers)
    assert doubtful.landed is Landed.UNKNOWN
    threads.come(1)
    for number, (names, _, _) in enumerate(threads.requests.under_way):
        if len(names) == 1:
            threads.requests.answer(number)
    threads.requests.wait_for(lambda: len(threads.requests.under_way) == 4)
    if not threads.requests.under_way[3][2].done():
        threads.requests.answer(3)
    assert threads.callers[-1].result(60).n0 == 4


def test_an_interrupt_after_the_reply_leaves_the_others_in_doubt() -> None:
    """The request was sent, so nothing may be called unsent: not even if the outcomes can't be handed out."""

    class Turn:
        """A lock. Once the reply is there, it interrupts the next one who takes it."""

        def __init__(self) -> None:
            self._lock, self.replied = threading.Lock(), False

        def __enter__(self) -> None:
            if self.replied:
                self.replied = False
                raise KeyboardInterrupt
            self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            self._lock.release()

    turn = Turn()

    def post(known: Coordinator, bodies: Sequence[msgspec.Raw], patience_ms: int) -> Sequence[CommandOutcome]:
        turn.replied = True
        return [applied("0") for _ in bodies]

    shared = SharedRequests(post)
    shared._turn = turn  # type: ignore[assignment]
    carrier, other = waiting(), waiting()
    carrier.request = [carrier, other]
    shared._under_way[carrier] = 2
    try:
        with pytest.raises(KeyboardInterrupt):
            shared._carry(carrier, carrier.request)
    finally:
        shared._leave(carrier)
    assert isinstance(other.outcome, NoCoordinatorAnswers)
    assert other.outcome.landed is Landed.UNKNOWN
    assert other.woken.is_set()
    assert not shared._under_way


def test_one_that_waits_for_longer_than_it_may_leaves(threads: Threads) -> None:
    threads.come(6)
    threads.requests.wait_for(lambda: len(threads.requests.under_way) == 3)
    hurried = threads.pool.submit(threads.shared.submit, HERE, submission("6"), TIMEOUT_MS, 1)
    with pytest.raises(TryAgain, match="could be sent in time") as raised:
        hurried.result(60)
    assert raised.value.landed is Landed.NO
    for number in range(3):
        threads.requests.answer(number)
    threads.requests.wait_for(lambda: len(threads.requests.under_way) == 4)
    assert threads.requests.under_way[3][0] == ["4", "5"]
    threads.requests.answer(3)
    assert threads.results() == list(range(6))


def test_one_whose_request_gets_no_reply_in_its_time_is_in_doubt(threads: Threads) -> None:
    threads.come(3)
    threads.come(1, patience_ms=1)
    with pytest.raises(NoCoordinatorAnswers, match="did not answer within 1 ms") as raised:
        threads.callers[3].result(60)
    assert raised.value.landed is Landed.UNKNOWN
    threads.requests.wait_for(lambda: len(threads.requests.under_way) == 3)
    for number in range(3):
        threads.requests.answer(number)
    assert [caller.result(60).n0 for caller in threads.callers[:3]] == [0, 1, 2]


def waiting(known: Coordinator = HERE, size: int = 10) -> WaitingCaller:
    return WaitingCaller(known, b"x" * size, PATIENCE_MS)


def test_a_request_is_bounded_and_a_large_command_has_one_of_its_own() -> None:
    large, half = waiting(size=shared_requests.MAX_BYTES + 1), waiting(size=shared_requests.MAX_BYTES // 2)
    few = [waiting() for _ in range(3)]
    assert commands_of_a_request([large, *few]) == [large]
    assert commands_of_a_request([*few, large]) == few
    assert commands_of_a_request([half, half, few[0]]) == [half, half]
    assert len(commands_of_a_request([waiting(size=1)] * 2_000)) == shared_requests.MAX_COMMANDS


def test_commands_for_another_coordinator_go_by_themselves() -> None:
    first, second = waiting(HERE), waiting(OTHER)
    assert commands_of_a_request([first, second, first]) == [first]


def test_no_command_is_lost_or_doubled_while_requests_fail(threads: Threads) -> None:
    """Many threads, each with commands one after the other; every third request fails."""
    sent: list[str] = []
    count = iter(range(10**9))

    def post(known: Coordinator, bodies: Sequence[msgspec.Raw], patience_ms: int) -> Sequence[CommandOutcome]:
        if next(count) % 3 == 0:
            raise NoCoordinatorAnswers("busy")
        names = [str(msgspec.msgpack.decode(body, type=SubmittedCommand).submission.command_id) for body in bodies]
        sent.extend(names)
        return [applied(name) for name in names]

    shared = SharedRequests(post)

    def work(number: int) -> list[int]:
        results = []
        for name in range(100 * number, 100 * number + 50):
            while True:
                try:
                    results.append(shared.submit(HERE, submission(str(name)), TIMEOUT_MS, PATIENCE_MS).n0)
                    break
                except NoCoordinatorAnswers:
                    continue
        return [int(result) for result in results]

    found = list(threads.pool.map(work, range(16)))
    assert found == [list(range(100 * number, 100 * number + 50)) for number in range(16)]
    assert len(sent) == len(set(sent)) == 800
