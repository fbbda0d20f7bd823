"""Writers that race for the same keys, as threads or as processes, and what each of them was told.

Imports no pytest: every spawned process loads this file.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from sparklog.core.errors import KeyExists
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import open_store

WRITERS = 8
_WAIT_S = 120  # a writer that died fails the test instead of hanging it


@dataclass(frozen=True, slots=True)
class Round:
    """One key that all writers want, each with a body of its own of `size_bytes`."""

    key: str
    size_bytes: int


class _Barrier(Protocol):
    def wait(self, timeout: float | None = None) -> int: ...


def body_of(writer: int, size_bytes: int) -> bytes:
    """What `writer` wants to put: no two writers' bodies are equal, but for empty ones."""
    return bytes([writer + 1]) * size_bytes


def race_threads(store: ObjectStore, rounds: Sequence[Round]) -> list[list[int]]:
    """Winners (by their own account) of each round, all writers being threads that share one store."""
    barrier = threading.Barrier(WRITERS)
    with ThreadPoolExecutor(WRITERS) as pool:
        futures = [pool.submit(_won, store, writer, rounds, barrier) for writer in range(WRITERS)]
        return _winners([future.result() for future in futures])


def race_processes(url: str, rounds: Sequence[Round]) -> list[list[int]]:
    """Winners (by their own account) of each round, each writer being a process with its own store."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as shared:
        barrier = shared.Barrier(WRITERS)
        with context.Pool(WRITERS) as pool:
            arguments = [(url, writer, rounds, barrier) for writer in range(WRITERS)]
            return _winners(pool.starmap_async(_won_in_process, arguments, chunksize=1).get(_WAIT_S + len(rounds)))


def _won_in_process(url: str, writer: int, rounds: Sequence[Round], barrier: _Barrier) -> list[bool]:
    return _won(open_store(url), writer, rounds, barrier)


def _won(store: ObjectStore, writer: int, rounds: Sequence[Round], barrier: _Barrier) -> list[bool]:
    won = []
    for number, each in enumerate(rounds):
        body = body_of(writer, each.size_bytes)
        barrier.wait(_WAIT_S)
        try:
            if (writer + number) % 2:
                store.put_if_absent(each.key, body)
            else:
                with store.upload(each.key) as upload:
                    upload.write(body[: each.size_bytes // 2])
                    upload.write(body[each.size_bytes // 2 :])
                    upload.publish()
            won.append(True)
        except KeyExists:
            won.append(False)
    return won


def _winners(won_by_writer: Sequence[Sequence[bool]]) -> list[list[int]]:
    return [[writer for writer, won in enumerate(of_round) if won] for of_round in zip(*won_by_writer, strict=True)]
