"""The requests of a state machine that have no reply yet, and what is to be done with each reply."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from sparklog.chain.requests import Now, Reply, Request

Handler = Callable[[Reply, Now], None]


class PendingRequests:
    """Requests wait in `to_perform` until a shell takes them, in any order; each waits for its reply until `taken`."""

    def __init__(self) -> None:
        self.to_perform: deque[Request] = deque()
        self._handlers: dict[Request, Handler] = {}

    def __bool__(self) -> bool:
        """Whether a reply is still to come."""
        return bool(self._handlers)

    def ask(self, request: Request, handler: Handler) -> None:
        """Have a request performed; `handler` gets its reply."""
        self._handlers[request] = handler
        self.to_perform.append(request)

    def run(self, first: Request, step: Callable[[Reply, Now], object], ended: Callable[[Any, Now], None]) -> None:
        """Run another machine: `step` turns each reply into the next request, or into the outcome for `ended`."""

        def handle(reply: Reply, now: Now) -> None:
            next_step = step(reply, now)
            if isinstance(next_step, Request):
                self.ask(next_step, handle)
            else:
                ended(next_step, now)

        self.ask(first, handle)

    def taken(self, request: Request) -> Handler | None:
        """What is to be done with the reply to this request; None if nobody waits for it any more."""
        return self._handlers.pop(request, None)

    def forget(self) -> None:
        """Stop waiting for the replies that are still to come, and drop the requests that no shell has taken."""
        self._handlers.clear()
        self.to_perform.clear()
