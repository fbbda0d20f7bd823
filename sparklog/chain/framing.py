"""How metadata bodies are framed: one line that says what it is, its format, checksum and length, then JSON.

    sparklog-entry 1 8a9136aa 512
    {...512 bytes of JSON...}

Any text tool shows one; any flipped bit or cut is found before the JSON is read.
"""

from __future__ import annotations

import google_crc32c

from sparklog.core.errors import ChainDamaged, UnsupportedVersion
from sparklog.core.state import FORMAT


def frame(kind: str, payload: bytes) -> bytes:
    """The body of a metadata object of `kind` ("entry", "snapshot")."""
    return b"sparklog-%s %d %08x %d\n" % (kind.encode(), FORMAT, google_crc32c.value(payload), len(payload)) + payload


def unframe(kind: str, body: bytes | memoryview, key: str) -> bytes:
    """The payload. Raises ChainDamaged (key, wanted, found), UnsupportedVersion."""
    whole = bytes(body)
    head, newline, payload = whole.partition(b"\n")
    words = head.split(b" ")
    if not newline or len(words) != 4 or words[0] != f"sparklog-{kind}".encode():
        raise ChainDamaged(f"{key}: wanted a line 'sparklog-{kind} format checksum length' first, found {head[:60]!r}")
    if words[1] != b"%d" % FORMAT:
        if words[1].isdigit() and int(words[1]) > FORMAT and words[2:] == _check_words(payload):
            raise UnsupportedVersion(
                f"{key}: this version of sparklog reads format {FORMAT}, found format {int(words[1])}: "
                "use a newer sparklog"
            )
        raise ChainDamaged(f"{key}: wanted format {FORMAT}, found {words[1]!r}")
    if words[2:] != _check_words(payload):
        raise ChainDamaged(
            f"{key}: at byte {len(head) + 1} wanted {words[3]!r} bytes with CRC32C {words[2]!r}, "
            f"found {len(payload)} bytes with {google_crc32c.value(payload):08x}"
        )
    return payload


def _check_words(payload: bytes) -> list[bytes]:
    return [b"%08x" % google_crc32c.value(payload), b"%d" % len(payload)]
