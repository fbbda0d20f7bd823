"""Reads JSON objects from a file: checks them, and passes them on unchanged, whole or field by field.

No Spark is used here: lines of bytes go in, JSON texts or BadRows come out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from sparklog.core.errors import InvalidRecord
from sparklog.core.texts.json_text import elements_of, fields_of, json_fault
from sparklog.core.texts.user_text import is_encodable
from sparklog.spark.produce.formats.bad_rows import BadRow, not_decoded, shown

MAX_DEPTH: Final = 100  # levels of nested objects and arrays: Spark fails at 600, and its process dies at 1,000
_TOO_DEEP: Final = f"wanted at most {MAX_DEPTH} levels of nested objects and arrays, found more"
_STRING_PATTERN: Final = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_STRING_TEXT: Final = re.compile(_STRING_PATTERN)
_STRING_OR_BRACKET: Final = re.compile(rf"{_STRING_PATTERN}|[\[\]{{}}]")
_STRING_OR_SPACE: Final = re.compile(rf"({_STRING_PATTERN})|[ \t\n\r]+")
MAX_DIGITS: Final = 1_000  # Spark reads no longer number
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STRING = msgspec.json.Decoder(str)
_OBJECTS = msgspec.json.Decoder(list[msgspec.Raw])
_AS_DIGITS: Final = bytes.maketrans(b"123456789.eE+-", b"0" * 14)
_LONG_NUMBER: Final = b"0" * (MAX_DIGITS + 1)
JsonRow = list[str | None]  # the columns RAW, READABLE and UNREADABLE


def json_rows(
    lines: Iterable[bytes], *, encoding: str, multiline: bool, folders: Mapping[str, object]
) -> Iterator[JsonRow | BadRow]:
    """Yield the object of each line, or with `multiline` each object of one document.

    A document is an object or an array of objects. Anything else is yielded as a BadRow. An object is yielded as a list
    of three texts. The first is its text. The other two are None, unless Spark would change or refuse the value of a
    field (half of a surrogate pair, a number that is too large). Then they are the object with null for such fields,
    and the names of these fields, as JSON. Each of `folders` becomes a field of the object, unless the object already
    has a field of that name. Blank lines are skipped.
    """
    if multiline:
        yield from _of_document(b"\n".join(lines), encoding, folders)
        return
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text:
            yield _row(number, text, encoding, folders, " (for one document in a file give --option multiLine=true)")


def _of_document(document: bytes, encoding: str, folders: Mapping[str, object]) -> Iterator[JsonRow | BadRow]:
    text = document.strip()
    if not text.startswith(b"["):
        if text:
            yield _row(1, text, encoding, folders, "")
        return
    try:
        decoded = text.decode(encoding)
        elements = _elements(decoded)
    except UnicodeDecodeError as error:
        yield BadRow(1, not_decoded(error, encoding), text)
        return
    except RecursionError:
        yield BadRow(1, _TOO_DEEP, text)
        return
    if elements is None:
        yield BadRow(1, json_fault(decoded, "an array of JSON objects") or "", text)
        return
    for number, element in enumerate(elements, 1):
        yield _row(number, element, "utf-8", folders, "")


def _elements(document: str) -> list[bytes] | None:
    """The elements of a JSON array, as they are in `document`; None if it is not JSON."""
    try:
        return [bytes(element) for element in _OBJECTS.decode(document)]
    except msgspec.DecodeError:
        if json_fault(document, "") is not None:
            return None
        return [element.encode() for element in elements_of(document)]


def _row(number: int, text: bytes, encoding: str, folders: Mapping[str, object], hint: str) -> JsonRow | BadRow:
    try:
        decoded = text.decode(encoding)
    except UnicodeDecodeError as error:
        return BadRow(number, not_decoded(error, encoding), text)
    if _is_too_deep(decoded):
        return BadRow(number, _TOO_DEEP, text)
    fields: Mapping[str, Any]
    try:
        fields = _OBJECT.decode(decoded)
        needs_care = _has_long_number(decoded)
    except msgspec.DecodeError:
        reason = json_fault(decoded, "a JSON object", dict)
        if reason is not None:
            return BadRow(number, reason + hint, text)
        fields, needs_care = fields_of(decoded), True
    more = {name: value for name, value in folders.items() if name not in fields}
    if more:
        added = msgspec.json.encode(more).decode()
        decoded = f"{decoded[:-1]},{added[1:]}" if fields else added
    return [decoded, *_for_spark(decoded)] if needs_care else [decoded, None, None]


def _for_spark(document: str) -> tuple[str, str]:
    """Return the object with null for the fields that Spark can't read as they are, and their names, both as JSON.

    With null, Spark still knows that there is such a field.
    """
    fields = {name: value for name, value in fields_of(document).items() if is_encodable(name)}
    unreadable = {name: "null" for name, value in fields.items() if not _spark_can_read(value)}
    pairs = (f"{msgspec.json.encode(name).decode()}:{value}" for name, value in (fields | unreadable).items())
    return f"{{{','.join(pairs)}}}", msgspec.json.encode(list(unreadable)).decode()


def _spark_can_read(value: str) -> bool:
    try:
        msgspec.json.decode(value)
    except msgspec.DecodeError:
        return False
    return not _has_long_number(value)


def _has_long_number(text: str) -> bool:
    """True if `text`, which is JSON, has a number of more than MAX_DIGITS digits. Digits in strings don't count."""
    return _is_long(text) and _is_long(_STRING_TEXT.sub('""', text))


def _is_long(text: str) -> bool:
    return len(text) > MAX_DIGITS and _LONG_NUMBER in text.encode().translate(_AS_DIGITS)


def field_text(document: str, name: str) -> str | None:
    """Return a field of a JSON object as text: a string unquoted, other values as JSON, None if null or missing.

    Numbers keep their digits: 1.10 is "1.10". White space between the parts of objects and arrays is removed. Raises
    InvalidRecord for a string with half of a surrogate pair.
    """
    text = _fields(document).get(name, "null")
    if text == "null":
        return None
    if not text.startswith('"'):
        return _compact(text)
    try:
        return _STRING.decode(text)
    except msgspec.DecodeError:
        raise InvalidRecord(
            f"wanted a text in field {name!r}, found half of a surrogate pair, which is no character: "
            f"{shown(document.encode())}. Nothing was written: use another field, or the whole object"
        ) from None


def fields_object(document: str, names: Sequence[str]) -> str:
    """Return a JSON object with the fields `names` of the object `document`, in this order. A missing field is null."""
    fields = _fields(document)
    pairs = (f"{msgspec.json.encode(name).decode()}:{_compact(fields.get(name, 'null'))}" for name in names)
    return f"{{{','.join(pairs)}}}"


def _fields(document: str) -> dict[str, str]:
    """The fields of a valid JSON object, as they are in `document`."""
    try:
        return {name: bytes(value).decode() for name, value in _FIELDS.decode(document).items()}
    except msgspec.DecodeError:
        return fields_of(document)


def _compact(text: str) -> str:
    """Return a JSON value without white space between its parts.

    A value that is a string is also put in its shortest form, so that equal strings give equal texts. Strings inside an
    object or array keep their escapes, and so does half of a surrogate pair.
    """
    try:
        if text.startswith('"'):
            return msgspec.json.encode(_STRING.decode(text)).decode()
        return msgspec.json.format(text, indent=-1)
    except msgspec.DecodeError:
        return _STRING_OR_SPACE.sub(r"\1", text)


def _is_too_deep(text: str) -> bool:
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return False
    depth = 0
    for token in _STRING_OR_BRACKET.findall(text):
        depth += (token in "{[") - (token in "}]")
        if depth > MAX_DEPTH:
            return True
    return False
