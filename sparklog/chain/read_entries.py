"""Reading chosen entries again, as a state machine, to learn the results of commands that they applied.

An entry counts only if the void mark of its block is absent after the read: in a block that is being deleted, a stalled
writer may have put another entry into the slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sparklog.chain.entry import Entry, decode_entry
from sparklog.chain.requests import GetMany, Reply, Request
from sparklog.core.apply import result_of
from sparklog.core.errors import SparklogError
from sparklog.core.records import AppliedCommand, CommandResult
from sparklog.core.types import EntryNumber
from sparklog.storage.keys import entry_block, entry_key, void_key


class ReadEntries:
    """Reads the entries `numbers`, at least one. Ends with those that are there, ascending, or with an error."""

    def __init__(self, numbers: Iterable[EntryNumber], url: str) -> None:
        self._numbers = sorted(set(numbers))
        self._url = url
        self._bodies: list[bytes | None] | None = None

    def start(self) -> Request:
        """The first request."""
        return GetMany([entry_key(n) for n in self._numbers])

    def reply(self, reply: Reply) -> Request | list[Entry] | SparklogError:
        """The next request, or the outcome."""
        if isinstance(reply, SparklogError):
            return reply
        blocks = sorted({entry_block(n) for n in self._numbers})
        if self._bodies is None:
            self._bodies = reply  # type: ignore[assignment]
            return GetMany([void_key(block) for block in blocks])
        marks: list[bytes | None] = reply  # type: ignore[assignment]
        void = {block for block, mark in zip(blocks, marks, strict=True) if mark is not None}
        try:
            return [
                decode_entry(n, body, self._url)
                for n, body in zip(self._numbers, self._bodies, strict=True)
                if body is not None and entry_block(n) not in void
            ]
        except SparklogError as error:
            return error


def results_in(entries: Iterable[Entry]) -> Iterator[tuple[AppliedCommand, CommandResult]]:
    """The commands of the entries, each with its result."""
    for entry in entries:
        for command in entry.commands:
            yield command, result_of(command, entry.at)
