"""A request to the coordinator whose reply the caller may stop waiting for: its own thread waits for the reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sparklog.core.purgatory import Wanted
from sparklog.host.bell import Bell
from sparklog.host.daemon import in_daemon
from sparklog.wire.messages import WaitReply

SLACK_MS: Final = 50  # two waits for the same moment read the clock one after the other


class AskedCoordinator:
    """One such request. Its thread is a daemon, so a coordinator that hangs does not keep the process from ending."""

    def __init__(
        self, wanted: Wanted, ask: Callable[[], WaitReply | None], bell: Bell, begun_ms: int, until_ms: int
    ) -> None:
        """Send the request. `bell` is the caller's, and rings when the reply comes, at `until_ms` or soon after."""
        self._wanted = wanted
        self.begun_ms = begun_ms
        self._until_ms = until_ms
        self._bell = bell
        self._asked = in_daemon(ask, "sparklog-wait")
        self._asked.add_done_callback(lambda asked: bell.ring())

    def serves(self, wanted: Wanted, deadline_ms: int) -> bool:
        """True if the reply under way answers this, in time for a caller that waits until `deadline_ms`."""
        return not self._asked.done() and self._wanted == wanted and self._until_ms <= deadline_ms + SLACK_MS

    def wait(self, stop: Callable[[], bool]) -> bool:
        """Wait for the reply, or until `stop` is true whenever the bell rings. Returns True if the reply has come."""
        while not self._asked.done():
            if stop():
                return False
            self._bell.wait()
        return True

    def reply(self) -> WaitReply | None:
        """The reply, once it has come. Raises the error of the request."""
        return self._asked.result()
