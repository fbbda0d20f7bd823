"""Processes that write under load (`ledger_writer`), and what they heard, as a test waits for it."""

from __future__ import annotations

import queue
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.faults.ledger_writer import TOPIC
from tests.faults.listened import listened
from tests.faults.store_folders import StoreFolders

_PATIENCE_S = 60  # so that a writer that hears nothing fails the test instead of hanging it


@dataclass
class LedgerWriters:
    """Order of calls: `running`, then any; after its block, everything that was acknowledged is noted in `folders`."""

    folders: StoreFolders
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    _heard: list[queue.SimpleQueue[dict[str, Any]]] = field(default_factory=list)

    @contextmanager
    def running(self, writers: int) -> Iterator[LedgerWriters]:
        """They write from here to the end of the block, and have ended after it."""
        with ExitStack() as started:
            for number in range(writers):
                heard: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
                command = [sys.executable, "-m", "tests.faults.ledger_writer", self.folders.url, f"{number}"]
                self.processes.append(started.enter_context(listened(command, heard.put)))
                self._heard.append(heard)
            yield self
        for heard in self._heard:
            while not heard.empty():
                self._note(heard.get())

    def hear(self, appends: int) -> None:
        """Return once every writer has heard of this many appends that it began after this call."""
        for heard in self._heard:
            while not heard.empty():
                self._note(heard.get())
        for heard in self._heard:
            for _ in range(appends + 1):  # the first one may have begun before
                self._note(heard.get(timeout=_PATIENCE_S))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nobody writes inside this block."""
        self._order("pause")
        for heard in self._heard:
            while "paused" not in (said := heard.get(timeout=_PATIENCE_S)):
                self._note(said)
        yield
        self._order("go")

    def let(self, store: str, do: str) -> None:
        """The store hangs, is full, or serves, for the writers."""
        self._order(f"{do} {store}")

    def _order(self, line: str) -> None:
        for process in self.processes:
            assert process.stdin is not None
            print(line, file=process.stdin, flush=True)

    def _note(self, said: dict[str, Any]) -> None:
        if "error" in said:
            self.errors.append(said["error"])
        for partition, start, values in said.get("ranges", ()):
            self.folders.note(TOPIC, partition, start, values)


def in_order(values: Sequence[str]) -> bool:
    """Whether the records of each writer are in the order in which it wrote them, each once."""
    turns: dict[str, list[tuple[int, int]]] = {}
    for value in values:
        writer, turn, _, row = value.split("-")
        turns.setdefault(writer, []).append((int(turn), int(row)))
    return all(of_writer == sorted(set(of_writer)) for of_writer in turns.values())
