"""JSON objects as they stand in a file: checked, and passed on unchanged.

No Spark in here: lines of bytes come in, JSON texts or BadRows come out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from sparklog.spark.produce_bad_rows import BadRow

_OBJECT = msgspec.json.Decoder(dict[str, Any])
_OBJECTS = msgspec.json.Decoder(list[msgspec.Raw])


def json_rows(
    lines: Iterable[bytes], *, encoding: str, multiline: bool, folders: Mapping[str, object]
) -> Iterator[list[str] | BadRow]:
    """One object from each line, or with `multiline` from one document: an object, or an array of objects.

    The value of each of the `folders` is put into an object that has no such field. Blank lines are skipped.
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
        elements = [bytes(each) for each in _OBJECTS.decode(text.decode(encoding))]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        yield BadRow(1, _reason(error), text)
        return
    for number, each in enumerate(elements, 1):
        yield _row(number, each, "utf-8", folders, "")


def _row(number: int, text: bytes, encoding: str, folders: Mapping[str, object], hint: str) -> list[str] | BadRow:
    try:
        decoded = text.decode(encoding)
        fields = _OBJECT.decode(decoded)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return BadRow(number, _reason(error) + hint, text)
    more = {name: value for name, value in folders.items() if name not in fields}
    if not more:
        return [decoded]
    added = msgspec.json.encode(more).decode()
    return [f"{decoded[:-1]},{added[1:]}" if fields else added]


def _reason(error: msgspec.DecodeError | UnicodeDecodeError) -> str:
    if isinstance(error, msgspec.ValidationError):
        return f"wanted a JSON object, found another value ({error})"
    return f"wanted a JSON object: {error}"
