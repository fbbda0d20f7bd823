"""Runs the agent's machine: hands out its requests, and resumes it once all replies are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sparklog.agent.agent_requests import AgentMachine, AllOf, Reply, Request, Wait
from sparklog.core.errors import SparklogError
from sparklog.core.machine import Ended, resume

_NONE_YET: Final = object()


class Conversation:
    """One run of `machine`. `error`: the error with which it ended; None while it runs, or if it ended without one."""

    def __init__(self, machine: AgentMachine[None]) -> None:
        self.wait: Wait | None = None  # the wait under way; None while replies are missing
        self.ended = False
        self.error: SparklogError | None = None
        self._machine = machine
        self._wanted: Request | AllOf | Wait | None = None  # the last item that the machine yielded
        self._asked: dict[Request, Reply] = {}

    @property
    def is_answered(self) -> bool:
        """True if every request has its reply."""
        return all(reply is not _NONE_YET for reply in self._asked.values())

    def answer(self, request: Request, reply: Reply) -> None:
        """Store the reply to a request until the machine is resumed."""
        self._asked[request] = reply

    def resume(self) -> Sequence[Request]:
        """Resume the machine with the replies, or after its wait. Returns its requests; [] if it waits or has ended."""
        replies = list(self._asked.values())
        reply = replies if isinstance(self._wanted, AllOf) else next(iter(replies), None)
        self._asked, self.wait = {}, None
        try:
            wanted = resume(self._machine, reply)
        except SparklogError as error:
            self.ended, self.error = True, error
            return []
        if isinstance(wanted, Ended):
            self.ended = True
            return []
        self._wanted = wanted
        if isinstance(wanted, Wait):
            self.wait = wanted
            return []
        requests = wanted.requests if isinstance(wanted, AllOf) else (wanted,)
        self._asked = dict.fromkeys(requests, _NONE_YET)
        return requests
