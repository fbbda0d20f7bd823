"""Keys, values and headers of records as a page shows them: as indented JSON, text, or bytes in hexadecimal."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from sparklog.coordinator.page.records.record_query import ValueFormat

PREVIEW_CHARACTERS: Final = 120
SHOWN_BYTES: Final = 16_384  # of one key or value; the rest is in the download
_INDENTED_BYTES: Final = 1_048_576  # values that would be longer when indented are shown as they are
_JSON_BYTES: Final = 262_144  # larger values are not parsed as JSON
_ROW: Final = 16  # bytes on a line of hexadecimal digits
_PLAIN: Final = frozenset("\t\n\r")


class ShownBytes(msgspec.Struct, frozen=True):
    """A key, value or header in the form that a page shows. `kind` is JSON, text, hex, null or empty.

    `preview` shows the beginning of the bytes on one line. `left_out_bytes`: the number of bytes that `text` leaves
    out.
    """

    kind: str
    text: str
    preview: str
    size_bytes: int
    left_out_bytes: int = 0

    @property
    def is_long(self) -> bool:
        """True if `text` differs from `preview`, because it is longer or has several lines."""
        return self.preview != self.text


def shown_bytes(value: bytes | None, value_format: ValueFormat) -> ShownBytes:
    """Format a key, value or header in `value_format`. Bytes that can't be shown as JSON become text or hexadecimal."""
    if not value:
        return ShownBytes("null" if value is None else "empty", "", "", 0)
    if value_format in (ValueFormat.AUTO, ValueFormat.JSON) and (indented := _indented(value)) is not None:
        return _shown("JSON", value, *_cut(indented, value))
    shown = value[:SHOWN_BYTES]
    if value_format is not ValueFormat.HEX:
        # A cut in the middle of a character does not make it binary.
        text = shown.decode(errors="strict" if len(shown) == len(value) else "ignore") if _is_utf8(value) else None
        if text is None and value_format is ValueFormat.TEXT:
            text = shown.decode(errors="replace")
        if text is not None and (value_format is ValueFormat.TEXT or _is_plain(text)):
            return _shown("text", value, text, len(value) - len(shown))
    shown = value[: SHOWN_BYTES // 4]
    rows = [_hex_row(shown[at : at + _ROW], at) for at in range(0, len(shown), _ROW)]
    preview = value[: PREVIEW_CHARACTERS // 3].hex(" ")
    return ShownBytes("hex", "\n".join(rows), preview, len(value), len(value) - len(shown))


def _shown(kind: str, value: bytes, text: str, left_out_bytes: int) -> ShownBytes:
    line = " ".join(text[: 4 * PREVIEW_CHARACTERS].split())
    is_cut = left_out_bytes > 0 or len(line) > PREVIEW_CHARACTERS or len(text) > 4 * PREVIEW_CHARACTERS
    whole = text if text.isprintable() else line
    preview = f"{line[:PREVIEW_CHARACTERS]}…" if is_cut else whole
    return ShownBytes(kind, text, preview, len(value), left_out_bytes)


def _indented(value: bytes) -> str | None:
    """The value as indented JSON; None if it is no JSON object or list, or would be too long."""
    if len(value) > _JSON_BYTES or value.lstrip()[:1] not in (b"{", b"[") or _most_indented(value) > _INDENTED_BYTES:
        return None
    try:
        msgspec.json.decode(value)  # `format` alone lets some mistakes pass
        return msgspec.json.format(value, indent=2).decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _most_indented(value: bytes) -> int:
    """An upper bound for the length of this JSON when it is indented, computed without indenting it.

    The indentation has up to depth times lines characters, so a short value that nests very deep may become very long.
    """
    text = np.frombuffer(value, np.uint8)
    opening, closing = ((text == brackets[0]) | (text == brackets[1]) for brackets in (b"{[", b"}]"))
    depth = int(np.cumsum(opening.astype(np.int32) - closing).max())
    lines = int(np.count_nonzero(opening | closing | (text == ord(",")))) + 1
    return len(value) + lines * (2 * depth + 1)


def _cut(indented: str, value: bytes) -> tuple[str, int]:
    """The beginning of an indented text, and the approximate number of bytes of the value that it leaves out."""
    if len(indented) <= SHOWN_BYTES:
        return indented, 0
    return indented[:SHOWN_BYTES], len(value) * (len(indented) - SHOWN_BYTES) // len(indented)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_plain(text: str) -> bool:
    return text.isprintable() or all(character.isprintable() or character in _PLAIN for character in text)


def _hex_row(row: bytes, at: int) -> str:
    letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
    return f"{at:08x}  {row.hex(' '):<{3 * _ROW}} {letters}"
