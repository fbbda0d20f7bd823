"""Waiting until an entry has its copies on other stores, as a state machine.

COPYING ── done ──► Copied
   │  ▲ └── the cluster was restored elsewhere, or has too few stores ──► that error
   │  └── PAUSED ◄── too few stores ──┘ after the deadline: that error. The entry stays: who asks again gets its copies
"""

from __future__ import annotations

import msgspec

from sparklog.chain.head import Head
from sparklog.chain.requests import FIRST_PAUSE_MS, Copy, Now, Pause, Reply, Request, longer
from sparklog.core.errors import InconsistentClusterId, Landed, NotEnoughReplicasAfterAppend, SparklogError


class TooFewStores(NotEnoughReplicasAfterAppend):
    """Fewer stores are registered and not fenced than must have copies: for this entry that never changes."""


class Copied(msgspec.Struct, frozen=True):
    """The entry and all before it have their copies."""


class Copying:
    """Gets copies of the newest entry of `head`, whose bytes are `body`; None if it was deleted as old."""

    def __init__(self, head: Head, body: bytes | None, deadline_ms: int) -> None:
        self._head, self._body = head, body
        self._deadline_ms = deadline_ms
        self._pause_ms = FIRST_PAUSE_MS
        self._paused = False

    def start(self) -> Request:
        """The first request."""
        self._paused = False
        return Copy(self._head, self._body)

    def reply(self, reply: Reply, now: Now) -> Request | Copied | SparklogError:
        """The next request, or the outcome. After an error the entry may be lost with the place of the chain."""
        match reply:
            case _ if self._paused:
                return self.start()
            case None:
                return Copied()
            case SparklogError() as error:
                if isinstance(error, InconsistentClusterId | TooFewStores) or now.monotonic_ms >= self._deadline_ms:
                    error.landed = Landed.UNKNOWN
                    return error
                self._paused = True
                pause = Pause(self._pause_ms)
                self._pause_ms = longer(self._pause_ms)
                return pause
            case _:
                raise TypeError(f"copies are replied to with None or an error, found {reply!r}")
