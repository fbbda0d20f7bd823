"""The frame of metadata bodies: a line with the kind, format, checksum and length, then JSON.

    sparklog-entry 2 8a9136aa 512
    {...512 bytes of JSON...}

Any text tool can show it. Flipped bits and truncation are detected before the JSON is parsed.
"""

from __future__ import annotations

import google_crc32c

from sparklog.chain.damage import damage
from sparklog.core.errors import UnsupportedVersion
from sparklog.core.readable import exact_amount
from sparklog.core.state import FORMAT

_READABLE = frozenset(b"%d" % each for each in range(1, FORMAT + 1))


def frame(kind: str, payload: bytes) -> bytes:
    """The body of a metadata object of `kind` ("entry", "snapshot")."""
    return b"sparklog-%s %d %08x %d\n" % (kind.encode(), FORMAT, google_crc32c.value(payload), len(payload)) + payload


def unframe(kind: str, body: bytes | memoryview, key: str, store_url: str = "") -> bytes:
    """The payload of the body read from `key`. Raises ChainDamaged (key, wanted, found), UnsupportedVersion."""
    whole = bytes(body)
    head, newline, payload = whole.partition(b"\n")
    words = head.split(b" ")
    if not newline or len(words) != 4 or words[0] != f"sparklog-{kind}".encode():
        wanted = f"wanted a line 'sparklog-{kind} format checksum length' first"
        raise damage(key, f"{wanted}, found {_text(head)!r} in {exact_amount(len(whole))}", store_url)
    if words[1] not in _READABLE:
        if words[1].isdigit() and int(words[1]) > FORMAT and words[2:] == _check_words(payload):
            raise UnsupportedVersion(
                f"{key}: this version of sparklog reads formats up to {FORMAT}, found format {int(words[1])}: "
                "use a newer sparklog"
            )
        raise damage(key, f"wanted a format from 1 to {FORMAT}, found {_text(words[1])!r}", store_url)
    if words[2:] != _check_words(payload):
        wanted = f"after its first line wanted {_text(words[3])} bytes with CRC32C {_text(words[2])}"
        found = f"found {len(payload)} bytes with {google_crc32c.value(payload):08x}"
        raise damage(key, f"{wanted}, {found}", store_url)
    return payload


def _text(head: bytes) -> str:
    return head[:60].decode(errors="replace")


def _check_words(payload: bytes) -> list[bytes]:
    return [b"%08x" % google_crc32c.value(payload), b"%d" % len(payload)]
