"""The frame of metadata bodies: a line with the kind, format, checksum and length, then JSON.

    sparklog-entry 6 8a9136aa 512
    {...512 bytes of JSON...}

Any text tool can show such a body. Flipped bits and truncation are detected before the JSON is parsed: the checksum, a
CRC32C, covers the format, a space and the JSON.
"""

from __future__ import annotations

import google_crc32c

from sparklog.chain.damaged_chain import damage
from sparklog.core.describe.readable import exact_amount
from sparklog.core.errors import UnsupportedVersion
from sparklog.core.state import FORMAT


def frame(kind: str, payload: bytes) -> bytes:
    """The bytes of a metadata object: a line with `kind` (such as "entry") and the checksum, then `payload`."""
    words = (b"sparklog-%s" % kind.encode(), b"%d" % FORMAT, *_check_words(b"%d" % FORMAT, payload))
    return b" ".join(words) + b"\n" + payload


def unframe(kind: str, body: bytes | memoryview, key: str, store_url: str = "") -> bytes:
    """Return the payload of `body`, which was read from `key` and must be of this `kind` (such as "entry").

    Raises ChainDamaged if the body is truncated, changed, or of another kind, and UnsupportedVersion if it is intact,
    but of another format.
    """
    whole = bytes(body)
    head, newline, payload = whole.partition(b"\n")
    words = head.split(b" ")
    if not newline or len(words) != 4 or words[0] != f"sparklog-{kind}".encode():
        wanted = f"wanted a line 'sparklog-{kind} format checksum length' first"
        raise damage(key, f"{wanted}, found {_text(head)!r} in {exact_amount(len(whole))}", store_url)
    if words[1] != b"%d" % FORMAT:
        if words[1].isdigit() and len(words[1]) < 10 and words[2:] == _check_words(words[1], payload):
            use = "use a newer sparklog" if int(words[1]) > FORMAT else "it was written before the first release"
            raise UnsupportedVersion(
                f"{key}: this version of sparklog reads format {FORMAT}, found format {int(words[1])}: {use}"
            )
        raise damage(key, f"wanted format {FORMAT}, found {_text(words[1])!r}", store_url)
    if words[2:] != _check_words(words[1], payload):
        wanted = f"after its first line wanted {_text(words[3])} bytes with checksum {_text(words[2])}"
        actual = f"found {len(payload)} bytes with {_checksum(words[1], payload):08x}"
        raise damage(key, f"{wanted}, {actual}", store_url)
    return payload


def _text(head: bytes) -> str:
    return head[:60].decode(errors="replace")


def _check_words(format_: bytes, payload: bytes) -> list[bytes]:
    return [b"%08x" % _checksum(format_, payload), b"%d" % len(payload)]


def _checksum(format_: bytes, payload: bytes) -> int:
    checksum: int = google_crc32c.extend(google_crc32c.value(format_ + b" "), payload)
    return checksum
