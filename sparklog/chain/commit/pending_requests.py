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
    """The requests without a reply. A shell takes them from `to_perform`, in any order, and returns the replies."""

    def __init__(self) -> None:
        self.to_perform: deque[Request] = deque()
        self._handlers: dict[Request, Handler] = {}

    def __bool__(self) -> bool:
        """True if any request has no reply yet."""
        return bool(self._handlers)

    def ask(self, request: Request, handler: Handler) -> None:
        """Add a request to perform. `handler` gets its reply."""
        self._handlers[request] = handler
        self.to_perform.append(request)

    def run(self, steps: ChainMachine[T], ended: Callable[[T | SparklogError, Now], None]) -> None:
        """Run the machine `steps`. `ended` is called with its return value, or with the SparklogError it raised."""

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
        """Expect no reply to this request any more, and return its handler; None if no reply was expected."""
        return self._handlers.pop(request, None)

    def forget(self) -> None:
        """Expect no more replies, and drop the requests that no shell has taken."""
        self._handlers.clear()
        self.to_perform.clear()
