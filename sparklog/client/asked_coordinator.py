"""A request to the coordinator in a thread of its own, so that the caller may stop waiting for the reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sparklog.core.purgatory import WaitCondition
from sparklog.host.bell import Bell
from sparklog.host.daemon import in_daemon
from sparklog.wire.messages import WaitReply

SLACK_MS: Final = 50  # each wait reads the clock itself, so two deadlines for the same moment differ a little


class AskedCoordinator:
    """A request to the coordinator, sent by a daemon thread: a coordinator that hangs can't keep the process alive."""

    def __init__(
        self, wanted: WaitCondition, ask: Callable[[], WaitReply | None], bell: Bell, begun_ms: int, until_ms: int
    ) -> None:
        """Call `ask`, which sends the request for `wanted`, in a new thread.

        When `ask` returns, `bell` is rung, which wakes `wait`. `begun_ms`: the time at which the request begins.
        `until_ms`: the time by which the coordinator is asked to reply. Both are times of the monotonic clock.
        """
        self._wanted = wanted
        self.begun_ms = begun_ms
        self._until_ms = until_ms
        self._bell = bell
        self._asked = in_daemon(ask, "sparklog-wait")
        self._asked.add_done_callback(lambda asked: bell.ring())

    def serves(self, wanted: WaitCondition, deadline_ms: int) -> bool:
        """True if the request is for `wanted`, is not answered yet, and asks for a reply by `deadline_ms`.

        A reply up to SLACK_MS later is accepted, too.
        """
        return not self._asked.done() and self._wanted == wanted and self._until_ms <= deadline_ms + SLACK_MS

    def wait(self, stop: Callable[[], bool]) -> bool:
        """Return True once the reply has come, or False once `stop()` is true.

        `stop` is called at the start, and again whenever the `bell` of this object is rung before the reply has come.
        """
        while not self._asked.done():
            if stop():
                return False
            self._bell.wait()
        return True

    def reply(self) -> WaitReply | None:
        """Wait until `ask` has ended, and return its reply.

        The reply is None if no coordinator could be asked, or if the request failed with a SparklogError. Any other
        error of `ask` is raised.
        """
        return self._asked.result()
