"""The length limit for the names of a write.

These are its label (`writeId`), the id of its application (`txnAppId`), the id of the run, and the digest of the input
(`txnDigest`). They are kept in entries and in the state, so they need a limit. It is that of Kafka's client and
transactional ids.
"""

from __future__ import annotations

from typing import Final

from sparklog.core.errors import InvalidInput

MOST_BYTES: Final = 32_767  # a STRING of Kafka's protocol has an int16 for its length
_SHOWN: Final = 40


def check_write_name(option: str, name: str, kind: type[InvalidInput] = InvalidInput) -> None:
    """Raise an error of class `kind` if `name`, the value of `option`, has more than MOST_BYTES bytes in UTF-8."""
    size_bytes = len(name.encode("utf-8", "surrogatepass"))
    if size_bytes > MOST_BYTES:
        raise kind(
            f"{option}: wanted at most {MOST_BYTES:,} bytes of UTF-8, found {size_bytes:,}, beginning {name[:_SHOWN]!r}"
        )
