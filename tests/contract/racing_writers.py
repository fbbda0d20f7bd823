"""Writers that race for the same keys, as threads or as processes, and what each of them was told.

Imports no pytest: it is loaded in processes of its own.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from sparklog.core.errors import KeyExists, KeyNotFound, SparklogError
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import open_store

WRITERS = 8
WON, LOST = "won", "lost"
_WAIT_S = 120  # a writer that died fails the test instead of hanging it


@dataclass(frozen=True, slots=True)
class Round:
    """One key that all writers want, each with a body of its own of `size_bytes`."""

    key: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What each writer of a round was told (WON, LOST, or the error), and whose body was there when all had ended."""

    told: list[str]
    owners: list[int]  # none if the object is nobody's or not there, all if their bodies are equal

    @property
    def right(self) -> bool:
        """Exactly one won, its body is there, and every other one knows that it lost."""
        return sorted(self.told) == [LOST] * (WRITERS - 1) + [WON] and self.told.index(WON) in self.owners


class _Barrier(Protocol):
    def wait(self, timeout: float | None = None) -> int: ...


@dataclass(frozen=True, slots=True)
class _Account:
    """Of one writer: what it was told in each round, and the owners that it found in the rounds it looked after."""

    writer: int
    told: list[str]
    owners: dict[int, list[int]]


def body_of(writer: int, size_bytes: int) -> bytes:
    """What `writer` wants to put: no two writers' bodies are equal, but for empty ones."""
    return bytes([writer + 1]) * size_bytes


def race_threads(store: ObjectStore, rounds: Sequence[Round]) -> list[Outcome]:
    """What came of each round, all writers being threads that share one store. The keys are gone afterwards."""
    barrier = threading.Barrier(WRITERS)
    with ThreadPoolExecutor(WRITERS) as pool:
        try:
            accounts = [pool.submit(_race, store, rounds, barrier, writer) for writer in range(WRITERS)]
            return _outcomes([each.result() for each in as_completed(accounts)])
        finally:
            barrier.abort()  # if one failed: let the others fail too, instead of waiting for it


def race_processes(url: str, rounds: Sequence[Round]) -> list[Outcome]:
    """The same, each writer being a process with its own store."""
    context = multiprocessing.get_context("forkserver")  # whose server imports once, and starts no thread
    context.set_forkserver_preload([__name__, "s3fs", "hdfs_native", "google.auth", "azure.storage.blob"])
    with context.Manager() as shared:
        barrier = shared.Barrier(WRITERS)
        with context.Pool(WRITERS) as pool:
            race = partial(_race_in_process, url, dict(os.environ), rounds, barrier)
            accounts = pool.imap_unordered(race, range(WRITERS))
            return _outcomes([accounts.next(_WAIT_S + len(rounds)) for _ in range(WRITERS)])


def _race_in_process(
    url: str, environment: dict[str, str], rounds: Sequence[Round], barrier: _Barrier, writer: int
) -> _Account:
    os.environ.update(environment)  # how the store is reached; the server has that of its own start
    return _race(open_store(url), rounds, barrier, writer)


def _race(store: ObjectStore, rounds: Sequence[Round], barrier: _Barrier, writer: int) -> _Account:
    account = _Account(writer, [], {})
    for number, each in enumerate(rounds):
        body = body_of(writer, each.size_bytes)
        barrier.wait(_WAIT_S)
        account.told.append(_write(store, each, body, streamed=(writer + number) % 2 == 0))
        barrier.wait(_WAIT_S)
        if number % WRITERS == writer:
            account.owners[number] = _owners(store, each)
            store.delete(each.key)
    return account


def _write(store: ObjectStore, wanted: Round, body: bytes, *, streamed: bool) -> str:
    try:
        if not streamed:
            store.put_if_absent(wanted.key, body)
        else:
            with store.upload(wanted.key) as upload:
                upload.write(body[: len(body) // 2])
                upload.write(body[len(body) // 2 :])
                upload.publish()
    except KeyExists:
        return LOST
    except SparklogError as error:  # one who doesn't know, or was not served
        return repr(error)
    return WON


def _owners(store: ObjectStore, wanted: Round) -> list[int]:
    try:
        body = bytes(store.get(wanted.key))
    except KeyNotFound:
        return []
    return [writer for writer in range(WRITERS) if body == body_of(writer, wanted.size_bytes)]


def _outcomes(accounts: Sequence[_Account]) -> list[Outcome]:
    ordered = sorted(accounts, key=lambda each: each.writer)
    owners = {number: found for each in ordered for number, found in each.owners.items()}
    return [
        Outcome(list(told), owners[number])
        for number, told in enumerate(zip(*(each.told for each in ordered), strict=True))
    ]
