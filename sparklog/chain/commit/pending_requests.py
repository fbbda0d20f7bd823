"""The requests of a state machine that have no reply yet, and the handler of each reply."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from sparklog.chain.chain_requests import ChainMachine, Now, Reply, Request
from sparklog.core.errors import SparklogError
from sparklog.core.machine import Ended, resume

T = TypeVar("T")
Handler = Callable[[Reply, Now], None]


class PendingRequests:
    """Requests without a reply. They wait in `to_perform` for a shell, in any order, then for their reply."""

    def __init__(self) -> None:
        self.to_perform: deque[Request] = deque()
        self._handlers: dict[Request, Handler] = {}

    def __bool__(self) -> bool:
        """True if a reply is still to come."""
        return bool(self._handlers)

    def ask(self, request: Request, handler: Handler) -> None:
        """Add a request to perform. `handler` gets its reply."""
        self._handlers[request] = handler
        self.to_perform.append(request)

    def run(self, steps: ChainMachine[T], ended: Callable[[T | SparklogError, Now], None]) -> None:
        """Run another machine. `ended` gets its outcome, or the error that it raised."""

        def handle(reply: Reply, now: Now) -> None:
            try:
                request = resume(steps, (reply, now))
            except SparklogError as error:
                ended(error, now)
            else:
                if isinstance(request, Ended):
                    ended(request.outcome, now)
                else:
                    self.ask(request, handle)

        self.ask(next(steps), handle)

    def taken(self, request: Request) -> Handler | None:
        """Remove a request that has a reply, and return its handler; None if the reply is not expected any more."""
        return self._handlers.pop(request, None)

    def forget(self) -> None:
        """Stop waiting for the replies that are still to come, and drop the requests that no shell has taken."""
        self._handlers.clear()
        self.to_perform.clear()
