"""Reads JSON objects from a file: checks them, and passes them on unchanged, whole or field by field.

No Spark is used here: lines of bytes go in, JSON texts or BadRows come out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from sparklog.spark.produce.formats.bad_rows import BadRow

MAX_DEPTH: Final = 100  # levels of nested objects and arrays: Spark fails at 600, and its process dies at 1,000
_TOO_DEEP: Final = f"wanted at most {MAX_DEPTH} levels of nested objects and arrays, found more"
_STRING_OR_BRACKET: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STRING = msgspec.json.Decoder(str)
_OBJECTS = msgspec.json.Decoder(list[msgspec.Raw])


def json_rows(
    lines: Iterable[bytes], *, encoding: str, multiline: bool, folders: Mapping[str, object]
) -> Iterator[list[str] | BadRow]:
    """Yield the object of each line, or with `multiline` each object of one document.

    A document is an object or an array of objects. An object is yielded as a list with its text as the only element;
    anything else as a BadRow. Each of `folders` becomes a field of the object, unless the object already has a field of
    that name. Blank lines are skipped.
    """
    if multiline:
        yield from _of_document(b"\n".join(lines), encoding, folders)
        return
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text:
            yield _row(number, text, encoding, folders, " (for one document in a file give --option multiLine=true)")


def _of_document(document: bytes, encoding: str, folders: Mapping[str, object]) -> Iterator[list[str] | BadRow]:
    text = document.strip()
    if not text.startswith(b"["):
        if text:
            yield _row(1, text, encoding, folders, "")
        return
    try:
        elements = [bytes(element) for element in _OBJECTS.decode(text.decode(encoding))]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        yield BadRow(1, _reason(error), text)
        return
    except RecursionError:
        yield BadRow(1, _TOO_DEEP, text)
        return
    for number, element in enumerate(elements, 1):
        yield _row(number, element, "utf-8", folders, "")


def _row(number: int, text: bytes, encoding: str, folders: Mapping[str, object], hint: str) -> list[str] | BadRow:
    try:
        decoded = text.decode(encoding)
        if _is_too_deep(decoded):
            return BadRow(number, _TOO_DEEP, text)
        fields = _OBJECT.decode(decoded)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return BadRow(number, _reason(error) + hint, text)
    more = {name: value for name, value in folders.items() if name not in fields}
    if not more:
        return [decoded]
    added = msgspec.json.encode(more).decode()
    return [f"{decoded[:-1]},{added[1:]}" if fields else added]


def field_text(document: str, name: str) -> str | None:
    """Return a field of a JSON object as text: a string unquoted, other values as JSON, None if null or missing.

    Numbers keep their digits: 1.10 is "1.10". White space between the parts of objects and arrays is removed.
    """
    raw = _FIELDS.decode(document).get(name)
    text = b"null" if raw is None else bytes(raw)
    if text == b"null":
        return None
    return _STRING.decode(text) if text.startswith(b'"') else _compact(text).decode()


def fields_object(document: str, names: Sequence[str]) -> str:
    """Return a JSON object with the fields `names` of the object `document`, in this order. A missing field is null."""
    fields = _FIELDS.decode(document)
    pairs = (msgspec.json.encode(name) + b":" + _compact(bytes(fields.get(name) or b"null")) for name in names)
    return (b"{" + b",".join(pairs) + b"}").decode()


def _compact(text: bytes) -> bytes:
    """Return a JSON value without white space between its parts.

    A value that is a string is also put in its shortest form, so that equal strings give equal texts. Strings inside an
    object or array keep their escapes.
    """
    return msgspec.json.encode(_STRING.decode(text)) if text.startswith(b'"') else msgspec.json.format(text, indent=-1)


def _is_too_deep(text: str) -> bool:
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return False
    depth = 0
    for token in _STRING_OR_BRACKET.findall(text):
        depth += (token in "{[") - (token in "}]")
        if depth > MAX_DEPTH:
            return True
    return False


def _reason(error: msgspec.DecodeError | UnicodeDecodeError) -> str:
    if isinstance(error, msgspec.ValidationError):
        return f"wanted a JSON object, found another value ({error})"
    return f"wanted a JSON object: {error}"
