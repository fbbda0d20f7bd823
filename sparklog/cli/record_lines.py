"""Records as lines of text or JSON, as `sparklog consume` and `sparklog segment` print them."""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING

from sparklog.cli.output import print_warning

if TYPE_CHECKING:
    import pyarrow as pa


def plain_lines(batch: pa.RecordBatch, separator: bytes | None) -> bytes:
    """The values, or keys and values, one line for each record."""
    values = [b"null" if value is None else value for value in batch.column("value").to_pylist()]
    if separator is not None:
        keys = [b"null" if key is None else key for key in batch.column("key").to_pylist()]
        values = [key + separator + value for key, value in zip(keys, values, strict=True)]
    return b"".join(part for value in values for part in (value, b"\n"))


class JsonLines:
    """Turns batches of one topic, with all columns, into lines of JSON, one object per record."""

    def __init__(self, *, base64: bool) -> None:
        import msgspec

        self._base64 = base64
        self._warned = False
        self._encoder = msgspec.json.Encoder()

    def of(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        from sparklog.client.record_rows import record_rows

        topic = batch.column("topic")[0].as_py() if batch.num_rows else ""
        rows = record_rows(batch, topic, self._text, self._text, self._text)
        return self._encoder.encode_lines(rows)

    def _text(self, value: bytes | None) -> str | None:
        if value is None:
            return None
        if self._base64:
            return binascii.b2a_base64(value, newline=False).decode()
        try:
            return value.decode()
        except UnicodeDecodeError:
            if not self._warned:
                self._warned = True
                print_warning("some keys or values are not UTF-8 and are shown with U+FFFD: --base64 shows their bytes")
            return value.decode(errors="replace")
