"""Convert numbers and offsets between numpy and Arrow, without a copy and without pandas.

`pa.array`, `to_numpy` and `pa.scalar` import pandas wherever it is installed, which takes as long as importing Spark
and Arrow. Spark starts a Python process for each step of a query, so a step that reads or plans avoids pandas.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def numpy_of(numbers: pa.Array) -> npt.NDArray[Any]:
    """Return the numbers, none of which is null, as a read-only view."""
    view: npt.NDArray[Any] = np.from_dlpack(numbers)
    return view


def array_of(numbers: npt.NDArray[Any], kind: pa.DataType | None = None) -> pa.Array:
    """Return the numbers as an Arrow array: of their own type, or of type `kind`, which must have the same width."""
    body = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(kind or pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, body])


def buffer_offsets(column: pa.Array) -> npt.NDArray[np.int32]:
    """Return the offsets buffer of a binary, string or list column of n rows, as int32[n + 1]."""
    buffer = column.buffers()[1]
    if buffer is None or buffer.size == 0:  # legal for an array without rows
        return np.zeros(1, dtype=np.int32)
    return np.frombuffer(buffer, dtype=np.int32, count=len(column) + 1, offset=4 * column.offset)
