"""Work on records: few pieces at once, few callers that wait, and a store that never answers holds up nobody else."""

from __future__ import annotations

import asyncio
import threading

import pytest

from sparklog.coordinator.leading import record_work
from sparklog.coordinator.leading.record_work import RecordWork
from sparklog.core.errors import StoreUnavailable, TryAgain

AT_ONCE = 4


def new_work(waiting_max: int = 0) -> RecordWork:
    return RecordWork(AT_ONCE, waiting_max, busy="4 pages of records are being read already")


def test_a_further_caller_is_told_that_it_is_busy() -> None:
    async def run() -> None:
        work, hold = new_work(), threading.Event()
        waiting = [asyncio.create_task(work.run(lambda: hold.wait(60))) for _ in range(AT_ONCE)]
        await asyncio.sleep(0)
        with pytest.raises(TryAgain, match="4 pages of records are being read already"):
            await work.run(lambda: True)
        hold.set()
        assert await asyncio.gather(*waiting) == [True] * AT_ONCE
        assert await work.run(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await work.run(lambda: 1 // 0)

    asyncio.run(run())


def test_callers_take_turns_and_so_many_may_wait() -> None:
    async def run() -> None:
        work, hold = new_work(waiting_max=2), threading.Event()
        running: list[int] = []

        def piece(number: int) -> int:
            running.append(number)
            hold.wait(60)
            return number

        waiting = [asyncio.create_task(work.run(lambda number=number: piece(number))) for number in range(AT_ONCE + 2)]  # type: ignore[misc]
        while len(running) < AT_ONCE:
            await asyncio.sleep(0.001)
        with pytest.raises(TryAgain, match="which is the limit"):
            await work.run(lambda: True)
        assert sorted(running) == list(range(AT_ONCE))
        hold.set()
        assert await asyncio.gather(*waiting) == list(range(AT_ONCE + 2))

    asyncio.run(run())


def test_a_caller_does_not_wait_for_its_turn_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        work, hold = new_work(waiting_max=1), threading.Event()
        running = [asyncio.create_task(work.run(lambda: hold.wait(5))) for _ in range(AT_ONCE)]
        await asyncio.sleep(0.05)
        monkeypatch.setattr(record_work, "PATIENCE_MS", 20)
        with pytest.raises(TryAgain, match="which is the limit"):
            await work.run(lambda: True)
        hold.set()
        assert await asyncio.gather(*running) == [True] * AT_ONCE
        assert await work.run(lambda: 7) == 7

    asyncio.run(run())


def test_a_store_that_never_answers_keeps_nobody_else_waiting_and_its_threads_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        work, hold = new_work(), threading.Event()
        for _ in range(AT_ONCE + 2):
            with pytest.raises(StoreUnavailable, match="gave no answer in 20 ms"):
                await work.run(lambda: hold.wait(60))
        with pytest.raises(TryAgain, match="6 threads for records hang"):
            await work.run(lambda: True)
        hold.set()
        while not all(piece.done() for piece in work._abandoned):
            await asyncio.sleep(0.001)
        assert work._under_way == 0
        monkeypatch.setattr(record_work, "PATIENCE_MS", 60_000)
        assert await work.run(lambda: 7) == 7

    monkeypatch.setattr(record_work, "ABANDONED", AT_ONCE + 2)
    monkeypatch.setattr(record_work, "PATIENCE_MS", 20)
    asyncio.run(run())
