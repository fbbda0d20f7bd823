"""A conversation of a generator, which asks, with its driver, which answers: it waits for replies, or for a time."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final, TypeVar

from sparklog.agent.agent_requests import Reply, Request
from sparklog.core.errors import SparklogError

_NONE_YET: Final = object()


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait that ends at this time; if `for_copies`, also when a batch of copies has ended."""

    until_ms: float
    for_copies: bool


T = TypeVar("T")
# Yields requests that are answered together, or a wait.
Control = Generator[list[Request] | Wait, list[Reply], T]


class Conversation:
    """Runs `control`, which gets its replies once all of them are there. `error` is the error that ended it, if any."""

    def __init__(self, control: Control[None]) -> None:
        self.wait: Wait | None = None  # the wait under way; None while it waits for replies
        self.ended = False
        self.error: SparklogError | None = None
        self._control = control
        self._started = False
        self._asked: dict[Request, Reply] = {}

    @property
    def is_answered(self) -> bool:
        """True if no reply is missing."""
        return all(reply is not _NONE_YET for reply in self._asked.values())

    def answer(self, request: Request, reply: Reply) -> None:
        """Keep a reply until the others are there."""
        self._asked[request] = reply

    def resume(self) -> list[Request]:
        """Continue, with the replies or because the wait is over. Returns the next requests; none if it waits."""
        replies = list(self._asked.values())
        self._asked, self.wait = {}, None
        try:
            wanted = self._control.send(replies) if self._started else next(self._control)
        except StopIteration:
            self.ended = True
            return []
        except SparklogError as error:
            self.ended, self.error = True, error
            return []
        self._started = True
        if isinstance(wanted, Wait):
            self.wait = wanted
            return []
        self._asked = dict.fromkeys(wanted, _NONE_YET)
        return wanted
