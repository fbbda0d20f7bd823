"""The UTF-8 of a text that a user gave. Texts in Python may have half of a surrogate pair, which UTF-8 can't encode.

Such texts come from JSON (`"\\ud83d"`), from texts cut in the middle of an emoji, and from file names and arguments
whose bytes are not UTF-8.
"""

from __future__ import annotations

from sparklog.core.errors import InvalidInput, InvalidRecord


def utf8_of(text: str, what: str, kind: type[InvalidInput] = InvalidRecord) -> bytes:
    """Encode `text` as UTF-8. Raises `kind` if it has half of a surrogate pair. `what`: its name in the error."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise kind(surrogate_message(error, what)) from None


def surrogate_message(error: UnicodeEncodeError, what: str) -> str:
    """The message for a text that UTF-8 can't encode."""
    half, place = ord(error.object[error.start]), f"character {error.start + 1:,} of {len(error.object):,}"
    return f"{what}: wanted text, found half of a surrogate pair, U+{half:X}, at {place}: UTF-8 can't encode it"


def is_encodable(text: str) -> bool:
    """True if `text` can be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
