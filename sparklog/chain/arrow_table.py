"""Read and validate the chain's Arrow tables: a checksum proves that bytes are as written, not that they make sense.

Unlike in `message_decoder.py`, Arrow itself reads the stored metadata: only Python reads these tables, whole and at
once. Arrow refuses a buffer that is not inside the file, or that does not unpack to the length it claims, and a full
validation finds wrong offsets, texts and numbers of rows. Java has no such checks, nor has Arrow for single columns.
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

    Raises NoArrowTable in place of every error of Arrow, except a lack of memory, which is not the fault of the bytes.
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
