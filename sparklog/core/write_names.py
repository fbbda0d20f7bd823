"""How long the names may be that a write gives itself: its label (`writeId`) and its application's id (`txnAppId`).

They stand in entries and in the state, so a length is needed; it is that of Kafka's client and transactional ids.
"""

from __future__ import annotations

from typing import Final

from sparklog.core.errors import InvalidInput

MOST_BYTES: Final = 32_767  # a STRING of Kafka's protocol has an int16 for its length
_SHOWN: Final = 40


def check_write_name(option: str, name: str, kind: type[InvalidInput] = InvalidInput) -> None:
    """Raise `kind` if `name`, which was given as `option`, is too long."""
    found = len(name.encode("utf-8", "surrogatepass"))
    if found > MOST_BYTES:
        raise kind(
            f"{option}: wanted at most {MOST_BYTES:,} bytes of UTF-8, found {found:,}, beginning {name[:_SHOWN]!r}"
        )
