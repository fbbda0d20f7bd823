"""The keys of headers: UTF-8, and never null, as in Kafka. Checked when records are written.

Kafka's clients refuse to write null keys, and to read records that have them. Arrow and Spark accept any bytes as a
string (`cast(X'FF' AS STRING)`), and fail later, where the string is shown. So writers refuse both. If an object
contains bytes that are not UTF-8 all the same, readers see U+FFFD in their place, as in other broken text.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from sparklog.core.errors import InvalidRecord
from sparklog.log.number_arrays import array_of, buffer_offsets
from sparklog.log.stored_schema import HEADERS

_SHOWN_KEY_CHARS: Final = 50


def check_header_keys(rows: pa.RecordBatch, topic: str) -> None:
    """Raise InvalidRecord for the first row with a null header, or a header whose key is null or not UTF-8."""
    headers = rows.column("headers")
    if headers.null_count == len(headers):
        return
    pairs = headers.flatten()  # only those of these rows
    if not pairs.null_count and not pairs.field("key").null_count and _are_utf8(pairs.field("key")):
        return
    for row in range(len(headers)):
        of_row = headers.slice(row, 1).flatten()
        for number in range(len(of_row)):
            key = of_row.slice(number, 1).field("key").view(pa.binary())[0].as_py()
            if of_row.slice(number, 1).null_count or key is None:
                raise _refusal(rows, row, topic, "no key")
            if not _is_utf8(key):
                raise _refusal(rows, row, topic, f"the key {key!r}")


def _refusal(rows: pa.RecordBatch, row: int, topic: str, found: str) -> InvalidRecord:
    key = repr(rows.column("key")[row].as_py())
    shown = key if len(key) <= _SHOWN_KEY_CHARS else key[:_SHOWN_KEY_CHARS] + "…"
    return InvalidRecord(f"topic {topic}, key {shown}: wanted headers whose keys are UTF-8, found one with {found}")


def readable_headers(headers: pa.Array) -> pa.Array:
    """Return decoded headers with U+FFFD in place of bytes in their keys that are not UTF-8. No key may be null.

    If `headers` is a slice of a larger array, the result has only the keys of its own rows: others may not be UTF-8.
    """
    ends = buffer_offsets(headers)
    pairs = headers.values.slice(int(ends[0]), int(ends[-1] - ends[0]))
    keys = pairs.field("key")
    if not _are_utf8(keys):
        texts = [key.decode(errors="replace").encode() for key in keys.view(pa.binary()).to_pylist()]
        text_ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
        parts = [None, pa.py_buffer(text_ends), pa.py_buffer(b"".join(texts))]
        keys = pa.Array.from_buffers(pa.string(), len(texts), parts)
    elif len(keys) == len(headers.values):
        return headers
    own = pa.StructArray.from_arrays([keys, pairs.field("value")], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(array_of(ends - ends[0]), own, type=HEADERS, mask=headers.is_null())


def _are_utf8(keys: pa.Array) -> bool:
    """True if the keys, none of which is null, are UTF-8."""
    ends, data = buffer_offsets(keys), keys.buffers()[2]
    start, length = int(ends[0]), int(ends[-1] - ends[0])
    if data is None or bytes(data.slice(start, length)).isascii():  # at once, without a look at each key
        return True
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _is_utf8(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True
