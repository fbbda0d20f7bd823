"""Waiting until an entry has its copies on other stores."""

from __future__ import annotations

from sparklog.chain.chain_requests import FIRST_PAUSE_MS, Copy, Pause, longer
from sparklog.chain.head import Head
from sparklog.chain.machine import Steps
from sparklog.core.errors import InconsistentClusterId, Landed, NotEnoughReplicasAfterAppend, SparklogError


class TooFewStores(NotEnoughReplicasAfterAppend):
    """Fewer stores are registered and not fenced than must have copies: for this entry that never changes."""


def copied(head: Head, body: bytes | None, deadline_ms: int) -> Steps[None]:
    """Get copies of the newest entry of `head`, whose bytes are `body`; None if it was deleted as old.

    Too few copies are tried for again until `deadline_ms`. Raises what the last try did; then the entry may be lost
    with the place of the chain. It stays in its slot: whoever asks again gets its copies.
    """
    pause_ms = FIRST_PAUSE_MS
    while True:
        reply, now = yield Copy(head, body)
        match reply:
            case None:
                return
            case SparklogError() as error:
                if isinstance(error, InconsistentClusterId | TooFewStores) or now.monotonic_ms >= deadline_ms:
                    error.landed = Landed.UNKNOWN
                    raise error
                yield Pause(pause_ms)
                pause_ms = longer(pause_ms)
            case _:
                raise TypeError(f"copies are replied to with None or an error, found {reply!r}")
