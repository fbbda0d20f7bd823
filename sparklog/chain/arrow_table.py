"""Reads Arrow tables of the chain: the bodies of commands and the chunks of snapshots.

A checksum shows only that the bytes are those that were written. Here Arrow may read them: it refuses false lengths and
buffers outside the file, and `validate(full=True)` refuses lengths and offsets that don't fit their buffers, before any
value is read. Stored batches have a decoder of their own, because Java must refuse the same ones
(`log/message_decoder.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class NoArrowTable(ValueError):
    """The bytes are not the table that they should be. The text says what was found."""


def read_table(body: bytes | memoryview, columns: Mapping[str, str]) -> pa.RecordBatch:
    """Read an Arrow IPC file of one batch that has `columns`, given with their Arrow types.

    Raises NoArrowTable, which every error of Arrow becomes here. Only a lack of memory is no fault of the bytes.
    """
    import pyarrow as pa

    try:
        file = pa.ipc.open_file(pa.py_buffer(body))
        if file.num_record_batches != 1:
            raise NoArrowTable(f"wanted one batch, found {file.num_record_batches}")
        batch = file.get_batch(0)
        batch.validate(full=True)
        actual = {name: str(batch.schema.field(name).type) for name in columns}
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, KeyError) as error:  # OSError: Arrow finds no whole file in these bytes
        raise NoArrowTable(f"it can't be read as a table of {', '.join(columns)}: {error}") from error
    if actual != dict(columns):
        raise NoArrowTable(f"wanted columns {dict(columns)}, found {actual}")
    return batch
