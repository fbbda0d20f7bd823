"""A coordinator at a chain to which a newer sparklog has written: it stands aside, and claims nothing over it."""

from __future__ import annotations

import asyncio

import pytest

from sparklog.chain import framing
from sparklog.chain.entry import NO_PREVIOUS, Entry, encode_entry
from sparklog.coordinator.http.app import app_of
from sparklog.coordinator.leading.service import Service
from sparklog.core.coordination import Author
from sparklog.core.errors import KeyExists
from sparklog.core.records import AppliedCommand, CoordinationClaimed
from sparklog.core.state import FORMAT
from sparklog.core.types import CommandId, EntryNumber
from sparklog.storage.keys import LOG, entry_key
from sparklog.wire.messages import SUBMIT
from tests.chain.chain_kit import Member, append, member, new_chain
from tests.coordinator.asgi import request
from tests.coordinator.http.test_app import error_in, submit_request


@pytest.fixture
def chain() -> Member:
    return new_chain()


def newer_claim(chain: Member, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put entry n: a CLAIM in the format that comes next."""
    claimed = AppliedCommand(
        CommandId("a" * 32), EntryNumber(n - 1), (CoordinationClaimed(9, "newer", "http://newer"),)
    )
    entry = Entry(
        chain.follower.state.chain_id,
        EntryNumber(n),
        Author("coordinator", "newer", 9),
        "n",
        NO_PREVIOUS,
        1,
        (claimed,),
    )
    with monkeypatch.context() as patch:
        patch.setattr(framing, "FORMAT", FORMAT + 1)
        chain.store.inner.put_if_absent(entry_key(n), encode_entry(entry))


def entries(chain: Member) -> int:
    return len(list(chain.store.inner.list_keys(LOG)))


class Heard:
    """What a coordinator says, and a wait for it."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        self._new = asyncio.Event()

    def __call__(self, event: str, text: str) -> None:
        self.said.append((event, text))
        self._new.set()

    async def until(self, text: str, times: int = 1) -> None:
        async with asyncio.timeout(60):
            while sum(text in each for _, each in self.said) < times:
                self._new.clear()
                await self._new.wait()


# M: N-05
@pytest.mark.parametrize("leads", [True, False])
def test_it_stands_aside_and_claims_nothing_over_what_it_can_not_read(
    chain: Member, monkeypatch: pytest.MonkeyPatch, leads: bool
) -> None:
    process = member(chain.store.inner)

    async def run() -> list[tuple[str, str]]:
        heard = Heard()
        service = Service(process.follower, process.store.url, "http://me", session_ms=60, queued_max=10, say=heard)
        if not leads:
            newer_claim(chain, 2, monkeypatch)
        running = asyncio.create_task(service.run())
        if leads:
            await heard.until("this process coordinates the cluster")
            put_after_the_leader(chain, monkeypatch)
        await heard.until("claims nothing")
        before = entries(chain)
        assert not service.leads
        answer = await request(app_of(service), "POST", SUBMIT, [submit_request(chain, append())])
        assert (answer.status, error_in(answer).landed) == (421, "no")
        await heard.until("claims nothing", times=5)  # it goes on looking
        service.stop()
        await running
        assert entries(chain) == before
        return heard.said

    said = asyncio.run(run())
    assert {event for event, text in said if "claims nothing" in text} == {"stands-by"}
    assert any(f"found format {FORMAT + 1}: use a newer sparklog" in text for _, text in said)


def put_after_the_leader(chain: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the newer claim in the next slot, which the leader takes for its own entries now and then."""
    while True:
        try:
            newer_claim(chain, member(chain.store.inner).follower.head.n + 1, monkeypatch)
        except KeyExists:
            continue
        return
