"""Commits from an event loop: many at once, errors, callers who are cancelled, a process that fails inside."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparklog.chain.commit import group_commit
from sparklog.chain.commit.committer import new_command_id
from sparklog.chain.snapshot import snapshot_writer
from sparklog.coordinator.leading.commit_loop import CommitLoop
from sparklog.core.commands import ClaimCoordination, CreateTopic, Submission
from sparklog.core.coordination import Author
from sparklog.core.errors import Landed, NotController, OutcomeUnknown, RequestTimedOut, TopicAlreadyExists
from sparklog.core.records import CommandResult
from tests.chain.chain_kit import TIMEOUT_MS, Member, append, member, new_chain
from tests.kit.faulty_store import Fault


@pytest.fixture
def chain() -> Member:
    return new_chain()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def in_loop(
    chain: Member, threads: ThreadPoolExecutor, work: Callable[[CommitLoop], Awaitable[None]], epoch: int = 1
) -> CommitLoop:
    """Run `work` with the loop of a coordinator that leads."""
    process = member(chain.store.inner)
    loop = CommitLoop(process.follower, Author("coordinator", "me", epoch), threads, process.clock)

    async def run() -> None:
        await loop.submit(begun(process, ClaimCoordination(epoch, "me", "http://me")), TIMEOUT_MS)
        await asyncio.wait_for(_as_coroutine(work(loop)), 60)
        await loop.close()

    asyncio.run(run())
    return loop


async def _as_coroutine(awaitable: Awaitable[None]) -> None:
    await awaitable


def begun(process: Member, command: ClaimCoordination | CreateTopic) -> Submission:
    return Submission(new_command_id(), process.committer.follower.state.n0, command)


def an_append(loop: CommitLoop) -> Submission:
    n = loop.follower.head.n
    return Submission(new_command_id(), n, append(n0=n))


def test_commands_that_wait_together_share_an_entry(chain: Member, threads: ThreadPoolExecutor) -> None:
    results: list[CommandResult] = []

    async def work(loop: CommitLoop) -> None:
        results.extend(await asyncio.gather(*(loop.submit(an_append(loop), TIMEOUT_MS) for _ in range(50))))

    loop = in_loop(chain, threads, work)
    assert sorted(result.ranges[0].start for result in results) == list(range(50))
    assert loop.counts.entries <= 4
    state = chain.follower.catch_up().state
    assert state.coordinator.entry == state.n


def test_an_error_of_one_command_is_not_that_of_the_others(chain: Member, threads: ThreadPoolExecutor) -> None:
    async def work(loop: CommitLoop) -> None:
        taken = Submission(new_command_id(), loop.follower.head.n, CreateTopic("orders"))
        one, two = await asyncio.gather(
            loop.submit(taken, TIMEOUT_MS), loop.submit(an_append(loop), TIMEOUT_MS), return_exceptions=True
        )
        assert isinstance(one, TopicAlreadyExists)
        assert isinstance(two, CommandResult)

    in_loop(chain, threads, work)


def test_a_caller_who_is_cancelled_keeps_nobody_waiting(chain: Member, threads: ThreadPoolExecutor) -> None:
    async def work(loop: CommitLoop) -> None:
        first = asyncio.create_task(loop.submit(an_append(loop), TIMEOUT_MS))
        second = asyncio.create_task(loop.submit(an_append(loop), TIMEOUT_MS))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).records == 1
        with pytest.raises(asyncio.CancelledError):
            await first

    in_loop(chain, threads, work)
    assert len(member(chain.store.inner).uploads()) == 2  # what a cancelled caller handed in may land


def test_a_fenced_coordinator_says_who_leads_instead(chain: Member, threads: ThreadPoolExecutor) -> None:
    async def work(loop: CommitLoop) -> None:
        other = member(chain.store.inner)
        other.submit(begun(other, ClaimCoordination(2, "other", "http://other")))
        with pytest.raises(NotController, match="other at http://other has epoch 2"):
            await loop.submit(an_append(loop), TIMEOUT_MS)

    in_loop(chain, threads, work)


def test_an_error_inside_ends_all_who_wait_and_the_next_command_works(
    chain: Member, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError

    async def work(loop: CommitLoop) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(group_commit.GroupCommit, "_acknowledge", no_memory)
            waiting = [loop.submit(an_append(loop), TIMEOUT_MS) for _ in range(3)]
            ended = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(error) for error in ended] == [OutcomeUnknown] * 3
        assert (await loop.submit(an_append(loop), TIMEOUT_MS)).ranges[0].start == 3

    in_loop(chain, threads, work)


def test_a_command_that_ended_before_it_was_handed_in_never_lands(chain: Member, threads: ThreadPoolExecutor) -> None:
    """Its caller has heard that nothing was done."""

    async def work(loop: CommitLoop) -> None:
        waits = asyncio.ensure_future(loop.submit(an_append(loop), TIMEOUT_MS))
        await asyncio.sleep(0)  # it is in line, and handed in with the next round of the loop
        loop._end_all(MemoryError())
        with pytest.raises(RequestTimedOut) as raised:
            await waits
        assert raised.value.landed is Landed.NO
        await loop.submit(an_append(loop), TIMEOUT_MS)

    in_loop(chain, threads, work)
    partitions = chain.follower.catch_up().state.partitions.values()
    assert sum(partition.next_offset for partition in partitions) == 1


def test_a_lost_reply_is_read_back(chain: Member, threads: ThreadPoolExecutor) -> None:
    async def work(loop: CommitLoop) -> None:
        loop.follower.store.plan(Fault.REPLY_LOST, "put_if_absent", "meta/log/")  # type: ignore[attr-defined]
        assert (await loop.submit(an_append(loop), TIMEOUT_MS)).records == 1

    in_loop(chain, threads, work)
    assert len(member(chain.store.inner).uploads()) == 1


def test_snapshots_are_written_meanwhile(
    chain: Member, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_writer, "SNAPSHOT_EVERY", 3)

    async def work(loop: CommitLoop) -> None:
        for _ in range(5):
            await loop.submit(an_append(loop), TIMEOUT_MS)

    loop = in_loop(chain, threads, work)
    assert loop.follower.snapshot_n >= 2
