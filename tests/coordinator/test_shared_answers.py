"""Readers of one live page share its answer while it is fresh; nobody is given what he may not see, or an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response

from sparklog.coordinator.page.records import record_routes, shared_answers
from sparklog.coordinator.page.records.shared_answers import FRESH_MS, SharedAnswers
from tests.coordinator.acting import acting
from tests.coordinator.shown_records import Records
from tests.coordinator.test_gate import TOKEN, access, basic
from tests.faults.faulty_store import VirtualClock

Make = Callable[[], Coroutine[Any, Any, Response]]


def counted(made: list[str], text: str = "page", status: int = 200) -> Make:
    async def make() -> Response:
        made.append(text)
        await asyncio.sleep(0)
        return Response(text, status)

    return make


def test_readers_share_what_is_being_made_and_what_is_fresh() -> None:
    async def run() -> list[str]:
        clock, made = VirtualClock(), list[str]()
        shared = SharedAnswers(clock)
        answers = await asyncio.gather(*(shared.of("a", counted(made)) for _ in range(50)))
        assert len({id(each) for each in answers}) == 1
        clock.pause(FRESH_MS - 1)
        await shared.of("a", counted(made))
        await shared.of("b", counted(made, "other"))
        clock.pause(1)
        await shared.of("a", counted(made))
        return made

    assert asyncio.run(run()) == ["page", "other", "page"]


def test_errors_are_not_kept_and_a_reader_who_leaves_takes_nothing_away() -> None:
    async def run() -> list[str]:
        made = list[str]()
        shared = SharedAnswers(VirtualClock())
        assert (await shared.of("a", counted(made, "busy", 503))).status_code == 503

        async def fails() -> Response:
            made.append("fails")
            raise OSError("it failed")

        with pytest.raises(OSError, match="it failed"):
            await shared.of("a", fails)
        leaves = asyncio.create_task(shared.of("a", counted(made)))
        await asyncio.sleep(0)
        stays = asyncio.create_task(shared.of("a", counted(made)))
        leaves.cancel()
        assert (await stays).status_code == 200
        return made

    assert asyncio.run(run()) == ["busy", "fails", "page"]


def test_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_answers, "MOST", 1)

    async def run() -> list[str]:
        made = list[str]()
        shared = SharedAnswers(VirtualClock())
        for key in ("a", "b", "a", "b"):
            await shared.of(key, counted(made, key))
        return made

    assert asyncio.run(run()) == ["a", "b", "b"]


def test_a_live_tail_is_read_once_for_all_who_may_see_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Any] = []
    find = record_routes.find_records  # type: ignore[attr-defined]

    def noted(*given: Any) -> Any:
        reads.append(given[1])
        return find(*given)

    monkeypatch.setattr(record_routes, "find_records", noted)
    rights = ["describe:*", "read:orders"]
    with acting(tmp_path, access=lambda: access(*rights)) as asked:
        monkeypatch.setattr(shared_answers, "FRESH_MS", 600_000)
        pages: list[Records] = []
        for find_text in ("", "", "0-1"):
            given = {"live": "1", "find": find_text}
            pages.append(asked.get("/topics/orders/messages", given, basic(f"anna:{TOKEN}")))
        rights.pop()
        refused = asked.get("/topics/orders/messages", {"live": "1"}, basic(f"anna:{TOKEN}"))
    assert (len(reads), [len(page.places) for page in pages]) == (2, [8, 8, 1])
    assert (refused.status, refused.places) == (403, [])
