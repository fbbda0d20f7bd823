"""Waits until an entry is on enough mirrors."""

from __future__ import annotations

from sparklog.chain.chain_requests import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, ChainMachine, MirrorEntry, Pause
from sparklog.chain.head import Head
from sparklog.core.errors import InconsistentClusterId, Landed, NotEnoughReplicasAfterAppend, SparklogError
from sparklog.core.pauses import longer


class TooFewStores(NotEnoughReplicasAfterAppend):
    """More mirrors are wanted than there are stores, other than the chain's own and fenced ones. A retry can't help."""


def mirrored(head: Head, body: bytes | None, deadline_ms: int) -> ChainMachine[None]:
    """Put the newest entry of `head`, whose bytes are `body`, on mirrors. `body` is None if it is already deleted.

    Tries again until `deadline_ms` (monotonic) while too few mirrors have the entry, then raises the last error. Raises
    InconsistentClusterId and TooFewStores at once. After an error the entry stays in its slot, and a later call can put
    it on mirrors. Until then, it is lost if the chain's own store is lost.
    """
    pause_ms = FIRST_PAUSE_MS
    while True:
        reply, now = yield MirrorEntry(head, body)
        match reply:
            case None:
                return
            case SparklogError() as error:
                if isinstance(error, InconsistentClusterId | TooFewStores) or now.monotonic_ms >= deadline_ms:
                    error.landed = Landed.UNKNOWN
                    raise error
                yield Pause(pause_ms)
                pause_ms = longer(pause_ms, LONGEST_PAUSE_MS)
            case _:
                raise TypeError(f"wanted None or an error as the reply to a MirrorEntry, found {reply!r}")
