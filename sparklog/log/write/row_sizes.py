"""The size of records before they are encoded, in bytes, and the limit for each: max.message.bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparklog.core.describe.readable import exact_amount
from sparklog.core.errors import RecordTooLarge
from sparklog.log.number_arrays import buffer_offsets
from sparklog.log.stored_schema import StoredSchema

Sizes = npt.NDArray[np.int64]
_SHOWN_KEY_CHARS = 50


def check_sizes(rows: pa.RecordBatch, schema: StoredSchema, topic: str, max_message_bytes: int) -> None:
    """Raise RecordTooLarge if the content of a record has more than `max_message_bytes`."""
    sums = cumulative_bytes(rows, schema)
    if len(sums) > 1 and int(np.diff(sums).max()) > max_message_bytes:
        _refuse_too_large(rows, schema, sums, topic, max_message_bytes)


def cumulative_bytes(
    rows: pa.RecordBatch, schema: StoredSchema, at: npt.NDArray[np.int64] | None = None, element_bytes: int = 0
) -> Sizes:
    """Return the bytes of all texts and lists in the rows before each row number in `at`, as int64[len(at)].

    A row number is from 0 to the number of rows, which means the end. By default, `at` has all of them. Each element of
    a list counts `element_bytes` more. The first element can differ from 0, so only differences matter. If a null still
    has bytes in its buffer, they are counted too. `rows` may lack columns of lists.
    """
    places: Any = slice(None) if at is None else at
    first, *others = schema.byte_columns
    sums: Sizes = buffer_offsets(rows.column(first))[places].astype(np.int64)
    for name in others:
        sums += buffer_offsets(rows.column(name))[places]
    for name in schema.list_columns:
        lists = rows.column(name) if name in rows.schema.names else None
        if lists is None or lists.null_count == len(lists):
            continue
        elements = lists.values
        firsts = buffer_offsets(lists)[places]
        for number in range(elements.type.num_fields):
            sums += buffer_offsets(elements.field(number))[firsts]
        sums += element_bytes * firsts
    return sums


def raw_sums(rows: pa.RecordBatch, schema: StoredSchema) -> Sizes:
    """Return cumulative raw bytes, int64[rows + 1]: element j minus element i is the raw size of rows [i, j).

    The first element can differ from 0.
    """
    sums = cumulative_bytes(rows, schema, element_bytes=schema.element_bytes)
    sums += schema.row_bytes * np.arange(len(sums))
    return sums


def _refuse_too_large(
    rows: pa.RecordBatch, schema: StoredSchema, sums: Sizes, topic: str, max_message_bytes: int
) -> None:
    """Raise RecordTooLarge for the first record that is too large.

    `sums` also count bytes that a null still has in its buffer. Here those bytes don't count.
    """
    names = (*schema.byte_columns, *schema.list_columns)
    for row in np.flatnonzero(np.diff(sums) > max_message_bytes).tolist():
        size = sum(_content_bytes(rows.column(name)[row].as_py()) for name in names)
        if size > max_message_bytes:
            shown = repr(rows.column(schema.key)[row].as_py())
            raise RecordTooLarge(
                f"topic {topic}, key {shown if len(shown) <= _SHOWN_KEY_CHARS else shown[:_SHOWN_KEY_CHARS] + '…'}: "
                f"wanted at most {exact_amount(max_message_bytes)} of {schema.content} (max.message.bytes), "
                f"found {exact_amount(size)}"
            )


def _content_bytes(value: Any) -> int:
    match value:
        case bytes():
            return len(value)
        case str():
            return len(value.encode())
        case dict():
            return sum(map(_content_bytes, value.values()))
        case list():
            return sum(map(_content_bytes, value))
    return 0
