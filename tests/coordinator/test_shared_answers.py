"""Readers of one page share its answer while it is fresh; none is given what its rights do not show, or an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response

import sparklog
from sparklog.coordinator.page import shared_answers
from sparklog.coordinator.page.shared_answers import FRESH_MS, SharedAnswers
from tests.coordinator.access.test_gate import TOKEN, access, basic
from tests.coordinator.acting import acting
from tests.coordinator.shown_records import Records, rows
from tests.kit.hand_clock import HandClock

Make = Callable[[], Coroutine[Any, Any, Response]]


def counted(made: list[str], text: str = "page", status: int = 200) -> Make:
    async def make() -> Response:
        made.append(text)
        await asyncio.sleep(0)
        return Response(text, status)

    return make


def test_readers_share_what_is_being_made_and_what_is_fresh() -> None:
    async def run() -> list[str]:
        clock, made = HandClock(), list[str]()
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


def test_a_slow_answer_is_made_once_and_fresh_once_it_is_there() -> None:
    async def run() -> list[str]:
        clock, made, go_on = HandClock(), list[str](), asyncio.Event()
        shared = SharedAnswers(clock)

        async def slow() -> Response:
            made.append("slow")
            await go_on.wait()
            return Response("slow")

        first = asyncio.create_task(shared.of("a", slow))
        await asyncio.sleep(0)
        clock.pause(5 * FRESH_MS)
        second = asyncio.create_task(shared.of("a", counted(made)))
        await asyncio.sleep(0)
        go_on.set()
        assert await first is await second is await shared.of("a", counted(made))
        return made

    assert asyncio.run(run()) == ["slow"]


def test_errors_are_not_kept_and_a_reader_who_leaves_takes_nothing_away() -> None:
    async def run() -> list[str]:
        made = list[str]()
        shared = SharedAnswers(HandClock())
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
        shared = SharedAnswers(HandClock())
        for key in ("a", "b", "a", "b"):
            await shared.of(key, counted(made, key))
        return made

    assert asyncio.run(run()) == ["a", "b", "b"]


def test_an_error_is_its_readers_own() -> None:
    async def run() -> list[str]:
        made = list[str]()
        shared = SharedAnswers(HandClock())
        names = ("anna", "ben")
        answers = await asyncio.gather(*(shared.of("a", counted(made, name, 403)) for name in names))
        return [bytes(each.body).decode() for each in answers]

    assert asyncio.run(run()) == ["anna", "ben"]


def test_a_page_that_its_script_reads_again_is_made_once_for_readers_with_the_same_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_answers, "FRESH_MS", 600_000)
    rights = ["describe:*", "read:orders"]
    anna = basic(f"anna:{TOKEN}")
    with acting(tmp_path, access=lambda: access(*rights)) as asked:

        def reads(query: Mapping[str, str], **headers: str) -> Records:
            return asked.get("/topics/orders/messages", query, {**anna, **headers})

        again = {"sparklog-refresh": "1"}
        shown = [reads({"live": "1"}, **again)]
        with sparklog.connect(asked.coordinator.address) as cluster:
            cluster.append("orders", rows(["new"]))
        shown += [reads({"live": "1"}, **again), reads({"live": "1"}), reads({"live": "1", "count": "9"}, **again)]
        assert [len(page.places) for page in shown] == [8, 8, 9, 9]
        rights.pop()
        refused = reads({"live": "1"}, **again)
    assert (refused.status, refused.places) == (403, [])
