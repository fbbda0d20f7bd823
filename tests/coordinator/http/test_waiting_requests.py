"""Requests that wait at a coordinator: what wakes them, that nothing is left of them, and that there are not too many.

The chain is in memory. No test waits for the time-outs of a request: they are far away, or nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
import pytest
from starlette.applications import Starlette

from sparklog.chain.commit.committer import new_command_id
from sparklog.coordinator.http import waiting_requests as waiting_module
from sparklog.coordinator.http.app import app_of
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.run import listening
from sparklog.core.commands import ClaimCoordination, DeleteTopic, Submission
from sparklog.core.purgatory import Records, ReplicaNews, WaitCondition
from sparklog.core.reading.positions import Position
from sparklog.core.types import EntryNumber, LeaderEpoch, Offset, PartitionIndex, StoreId
from sparklog.wire.error_messages import ErrorReply
from sparklog.wire.messages import WAIT, SubmitRequest, SubmittedCommand, WaitReply, WaitRequest
from tests.chain.chain_kit import TIMEOUT_MS, TOPIC, Member, append, member, new_chain
from tests.coordinator.asgi import Answer, request
from tests.kit.faulty_store import Fault

T = TypeVar("T")
LONG_MS = 60_000


@pytest.fixture
def chain() -> Member:
    return new_chain()


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator looks for the entries of others at once."""
    monkeypatch.setattr(waiting_module, "SLOT_LOOK_MS", 1)


@pytest.fixture
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator never looks for the entries of others."""
    monkeypatch.setattr(waiting_module, "SLOT_LOOK_MS", 10 * LONG_MS)


class Served:
    """A coordinator in the present event loop, once it leads; and its clients."""

    def __init__(self, chain: Member, process: Member, service: Service) -> None:
        self.chain, self.process, self.service = chain, process, service
        self.app: Starlette = app_of(service)

    async def waits(
        self, wanted: WaitCondition, *, longest_ms: int = LONG_MS, seen: int | None = None
    ) -> asyncio.Task[Answer]:
        """A client who waits by now."""
        before = len(self.service.waits)
        task = asyncio.create_task(self.ask(wanted, longest_ms=longest_ms, seen=seen))
        while len(self.service.waits) == before and not task.done():
            await asyncio.sleep(0)
        return task

    async def ask(
        self,
        wanted: WaitCondition,
        *,
        longest_ms: int = LONG_MS,
        seen: int | None = None,
        chain_id: str | None = None,
        leaves: asyncio.Event | None = None,
    ) -> Answer:
        state = self.process.follower.state
        n = EntryNumber(state.n if seen is None else seen)
        body = msgspec.msgpack.encode(WaitRequest(chain_id or state.chain_id, n, wanted, longest_ms))
        return await asyncio.wait_for(request(self.app, "POST", WAIT, [body], leaves=leaves), 30)

    async def commit(self, partition: int = 0) -> None:
        """Another client commits at this coordinator."""
        n = EntryNumber(self.process.follower.head.n)
        submission = Submission(new_command_id(), n, append(partition=partition, n0=n))
        await self.service.submit(
            SubmitRequest(self.process.follower.state.chain_id, n, (SubmittedCommand(submission, TIMEOUT_MS),))
        )

    def records(self, partition: int = 0) -> Records:
        """What comes behind the end of a partition."""
        state = self.process.follower.state
        value = state.partitions_of(state.topics[TOPIC])[partition].replication
        at = Position(state.chain_id, TOPIC, PartitionIndex(partition), value.high_watermark, LeaderEpoch(0))
        return Records((at,))


def served(chain: Member, work: Callable[[Served], Awaitable[T]], *, leads: bool = True) -> T:
    async def run() -> T:
        process = member(chain.store.inner)
        leading = asyncio.Event()

        def say(event: str, text: str) -> None:
            if event == "leads":
                leading.set()

        service = Service(
            process.follower, process.store.url, "http://me:7400", session_ms=600_000, queued_max=10, say=say
        )
        running = asyncio.create_task(service.run()) if leads else None
        if running is not None:
            await asyncio.wait_for(leading.wait(), 60)
        try:
            return await work(Served(chain, process, service))
        finally:
            service.stop()
            if running is None:
                service.waits.close()
            else:
                await running
            assert len(service.waits) == 0

    return asyncio.run(run())


async def reply(answer: Awaitable[Answer]) -> WaitReply:
    answered = await answer
    assert answered.status == 200, answered.body
    return msgspec.msgpack.decode(answered.body, type=WaitReply)


def error_in(answer: Answer) -> ErrorReply:
    return msgspec.msgpack.decode(answer.body, type=ErrorReply)


# ---- what wakes ------------------------------------------------------------------------------------


# M: P-10
@pytest.mark.usefixtures("seldom")
def test_a_commit_of_another_client_wakes_who_waits_for_it_and_nobody_else(chain: Member) -> None:
    async def work(at: Served) -> None:
        one, other = await at.waits(at.records(0)), await at.waits(at.records(1))
        await at.commit(partition=1)
        assert await reply(other) == WaitReply(EntryNumber(at.process.follower.head.n), done=True)
        assert not one.done()
        await at.commit(partition=0)
        assert (await reply(one)).done

    served(chain, work)


# M: P-10
@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("leads", [True, False])
def test_an_entry_of_an_embedded_writer_beside_it_wakes_too(chain: Member, leads: bool) -> None:
    async def work(at: Served) -> None:
        waiting = await at.waits(at.records())
        chain.follower.catch_up()
        chain.append()
        woken = await reply(waiting)
        assert (woken.done, woken.position) == (True, chain.follower.head.n)

    served(chain, work, leads=leads)


# M: P-10
@pytest.mark.usefixtures("often")
def test_the_end_of_the_topic_wakes(chain: Member) -> None:
    async def work(at: Served) -> None:
        waiting = await at.waits(at.records())
        chain.committer.submit(chain.committer.begin(DeleteTopic(TOPIC)), TIMEOUT_MS)
        assert (await reply(waiting)).done

    served(chain, work)


@pytest.mark.usefixtures("often")
def test_an_unreadable_chain_changes_nothing_for_who_waits(chain: Member) -> None:
    async def work(at: Served) -> None:
        at.process.store.plan(Fault.UNAVAILABLE, "get", "meta/log/", times=3)
        waiting = await at.waits(at.records())
        chain.follower.catch_up()
        chain.append()
        assert (await reply(waiting)).done

    served(chain, work)


def test_what_is_there_is_answered_at_once(chain: Member) -> None:
    async def work(at: Served) -> None:
        wanted = at.records()
        await at.commit()
        assert (await reply(at.ask(wanted))).done
        assert (await reply(at.ask(ReplicaNews(StoreId("a")), seen=0))).done

    served(chain, work)


# M: P-10
@pytest.mark.usefixtures("seldom")
def test_after_fetch_max_wait_ms_the_answer_is_that_there_is_nothing(chain: Member) -> None:
    async def work(at: Served) -> None:
        for longest_ms in (-1, 0, 1):
            answered = await reply(at.ask(at.records(), longest_ms=longest_ms))
            assert answered == WaitReply(EntryNumber(at.process.follower.head.n), done=False)

    served(chain, work)


def test_nobody_waits_longer_than_the_limit(chain: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_module, "MAX_WAIT_MS", 1)

    async def work(at: Served) -> None:
        assert not (await reply(at.ask(at.records(), longest_ms=10**12))).done

    served(chain, work)


@pytest.mark.usefixtures("seldom")
def test_a_client_that_has_seen_more_makes_it_read_first(chain: Member) -> None:
    async def work(at: Served) -> None:
        wanted = at.records()
        chain.follower.catch_up()
        chain.append()
        assert (await reply(at.ask(wanted, seen=chain.follower.head.n))).done

    served(chain, work, leads=False)


# ---- stops, and leads no more ----------------------------------------------------------------------


@pytest.mark.usefixtures("seldom")
def test_a_stop_answers_everybody_after_the_resignation_and_takes_no_more(chain: Member) -> None:
    async def work(at: Served) -> None:
        waiting = [await at.waits(at.records()) for _ in range(3)]
        at.service.stop()
        for answered in await asyncio.gather(*map(reply, waiting)):
            assert not answered.done
            resigned = chain.follower.catch_up()
            assert (answered.position, resigned.state.coordinator.in_force) == (resigned.n, False)
        refused = await at.ask(at.records())
        assert (refused.status, error_in(refused).code) == (503, "COORDINATOR_NOT_AVAILABLE")

    served(chain, work)


@pytest.mark.usefixtures("seldom")
def test_one_that_leads_no_more_answers_everybody(chain: Member) -> None:
    async def work(at: Served) -> None:
        waiting = await at.waits(at.records())
        chain.follower.catch_up()
        claim = ClaimCoordination(2, "other", "http://other")
        chain.committer.submit(chain.committer.begin(claim), TIMEOUT_MS)
        await at.commit()
        answered = await reply(waiting)
        assert (answered.done, answered.position) == (False, chain.follower.head.n)

    served(chain, work)


# ---- bounds ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("seldom")
def test_a_client_that_leaves_is_forgotten_at_once(chain: Member) -> None:
    async def work(at: Served) -> None:
        leaves = asyncio.Event()
        task = asyncio.create_task(at.ask(at.records(), leaves=leaves))
        while not len(at.service.waits):
            await asyncio.sleep(0)
        leaves.set()
        await task
        assert (len(at.service.waits), at.service.waits.watched) == (0, 0)

    served(chain, work)


@pytest.mark.usefixtures("seldom")
def test_who_watches_too_much_is_sent_away(chain: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_module, "MAX_WATCHED", 5)

    async def work(at: Served) -> None:
        waiting = [await at.waits(at.records()) for _ in range(2)]
        refused = await at.ask(at.records(), longest_ms=1)
        assert (refused.status, error_in(refused).code) == (503, "COORDINATOR_NOT_AVAILABLE")
        assert "2 waiting requests watch too much" in error_in(refused).message
        await at.commit()
        assert all([(await reply(each)).done for each in waiting])
        await (await at.waits(at.records(), longest_ms=1))

    served(chain, work)


@pytest.mark.usefixtures("often")
def test_nobody_looks_at_the_chain_while_nobody_waits(chain: Member) -> None:
    async def work(at: Served) -> None:
        waiting = await at.waits(at.records(), longest_ms=1)
        assert at.service.waits.is_looking
        await waiting
        while at.service.waits.is_looking:
            await asyncio.sleep(0.001)

    served(chain, work)


def test_more_than_a_turn_of_them_are_all_answered(chain: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_module, "AT_ONCE", 3)

    async def work(at: Served) -> None:
        waiting = [await at.waits(at.records()) for _ in range(10)]
        await at.commit()
        assert all([(await reply(each)).done for each in waiting])

    served(chain, work)


@pytest.mark.parametrize("body", [b"", b"\xc1", msgspec.msgpack.encode({"chain_id": 5})])
def test_a_malformed_request_is_refused(chain: Member, body: bytes) -> None:
    async def work(at: Served) -> Answer:
        return await request(at.app, "POST", WAIT, [body])

    answer = served(chain, work, leads=False)
    assert (answer.status, error_in(answer).code) == (400, "INVALID_REQUEST")


def test_a_client_of_another_cluster_is_refused(chain: Member) -> None:
    async def work(at: Served) -> Answer:
        return await at.ask(ReplicaNews(StoreId("a")), chain_id="e" * 32)

    answer = served(chain, work, leads=False)
    assert (answer.status, error_in(answer).code) == (409, "INCONSISTENT_CLUSTER_ID")


def test_a_client_may_speak_json(chain: Member) -> None:
    async def work(at: Served) -> Answer:
        wanted = WaitRequest(at.process.follower.state.chain_id, EntryNumber(0), at.records(), 1)
        json = {"content-type": "application/json", "accept": "application/json"}
        return await request(at.app, "POST", WAIT, [msgspec.json.encode(wanted)], json)

    answer = served(chain, work, leads=False)
    assert msgspec.json.decode(answer.body, type=WaitReply).done is False


def test_a_position_far_beyond_everything_is_answered(chain: Member) -> None:
    async def work(at: Served) -> WaitReply:
        (position,) = at.records().positions
        beyond = msgspec.structs.replace(position, offset=Offset(1 << 62))
        return await reply(at.ask(Records((beyond,)), seen=1 << 62))

    assert served(chain, work, leads=False).done


def test_replies_are_sent_without_a_delay(chain: Member) -> None:
    """Header and body are two writes: with Nagle's algorithm the second one waits for an ACK that is delayed 40 ms."""

    async def without_delay() -> int:
        accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with listening("127.0.0.1", 0) as listener:
            async with await asyncio.start_server(note, sock=listener):
                _, writer = await asyncio.open_connection(*listener.getsockname())
                found = await accepted
                writer.close()
                await writer.wait_closed()
                return found

    assert asyncio.run(without_delay())
