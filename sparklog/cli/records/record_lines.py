"""Records as lines of text or JSON, as `sparklog consume` and `sparklog segment` print them."""

from __future__ import annotations

import binascii
import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from sparklog.cli.output import print_warning
from sparklog.core.errors import InvalidOption

if TYPE_CHECKING:
    import pyarrow as pa

_TOKEN: Final = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{2}|.?)", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


class Lines(Protocol):
    """Turns record batches into printable bytes. All records of a batch are of one topic."""

    @property
    def columns(self) -> Sequence[str] | None:
        """The columns that a batch must have, or None for all columns."""
        ...

    def of(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        ...


class PlainLines:
    """Prints the value of each record as one line. With a `separator`, the line is key, separator, value.

    A null key or value is printed as the word null.
    """

    def __init__(self, separator: bytes | None) -> None:
        self._separator = separator
        self.columns: Sequence[str] = ("value",) if separator is None else ("key", "value")

    def of(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        values = [b"null" if value is None else value for value in batch.column("value").to_pylist()]
        if self._separator is not None:
            keys = [b"null" if key is None else key for key in batch.column("key").to_pylist()]
            values = [key + self._separator + value for key, value in zip(keys, values, strict=True)]
        return b"".join(part for value in values for part in (value, b"\n"))


class JsonLines:
    """Prints each record as one line with a JSON object. The batches need all columns."""

    columns = None

    def __init__(self, *, base64: bool) -> None:
        import msgspec

        self._base64 = base64
        self._warned = False
        self._encoder = msgspec.json.Encoder()

    def of(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        from sparklog.client.describe.record_rows import record_rows

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


class TemplateLines:
    """Prints each record by a template with placeholders for its fields, in the syntax of `kcat -f`.

    No line end is added: put it into the template. Raises InvalidOption for an unknown placeholder or escape.
    """

    def __init__(self, template: str) -> None:
        self._pieces: list[bytes | tuple[str, Callable[[Any], bytes]]] = []
        at = 0
        for token in _TOKEN.finditer(template):
            self._pieces += [os.fsencode(template[at : token.start()]), self._piece(token)]
            at = token.end()
        self._pieces.append(os.fsencode(template[at:]))
        named = dict.fromkeys(piece[0] for piece in self._pieces if isinstance(piece, tuple))
        self.columns: Sequence[str] = tuple(named) or ("offset",)

    def of(self, batch: pa.RecordBatch) -> bytes:
        """The records of a batch, each printed by the template."""
        columns = {name: self._cells(batch, name) for name in self.columns}
        texts = [
            [piece] * batch.num_rows if isinstance(piece, bytes) else list(map(piece[1], columns[piece[0]]))
            for piece in self._pieces
            if piece
        ]
        return b"".join(part for record in zip(*texts, strict=True) for part in record)

    @staticmethod
    def _piece(token: re.Match[str]) -> bytes | tuple[str, Callable[[Any], bytes]]:
        """Return the bytes to print for an escape or %%; for any other placeholder a column and how to print its cells.

        Raises InvalidOption for an unknown placeholder or escape.
        """
        place, escape = token[1], token[2]
        if place == "%":
            return b"%"
        if place in _PLACES:
            return _PLACES[place]
        if escape and escape.startswith("x") and len(escape) == 3:
            return bytes.fromhex(escape[1:])
        if escape in _ESCAPES:
            return _ESCAPES[escape]
        wanted = ", ".join(f"%{name}" for name in _PLACES)
        raise InvalidOption(f"--template: wanted {wanted}, %%, \\n, \\r, \\t, \\0, \\xHH or \\\\, found {token[0]!r}")

    @staticmethod
    def _cells(batch: pa.RecordBatch, name: str) -> list[Any]:
        import pyarrow as pa

        column = batch.column(name)
        cells: list[Any] = (column.cast(pa.int64()) if name == "timestamp" else column).to_pylist()
        return cells


def _bytes_of(cell: bytes | None) -> bytes:
    return cell or b""


def _length_of(cell: bytes | None) -> bytes:
    return b"%d" % (-1 if cell is None else len(cell))


def _headers_of(cell: list[dict[str, Any]] | None) -> bytes:
    """Headers as kcat shows them: name=value, separated by commas; a null value is the word NULL."""
    pairs = ((header["key"].encode(), header["value"]) for header in cell or ())
    return b",".join(name + b"=" + (b"NULL" if value is None else value) for name, value in pairs)


_PLACES: Final[dict[str, tuple[str, Callable[[Any], bytes]]]] = {
    "t": ("topic", str.encode),
    "p": ("partition", b"%d".__mod__),
    "o": ("offset", b"%d".__mod__),
    "k": ("key", _bytes_of),
    "s": ("value", _bytes_of),
    "K": ("key", _length_of),
    "S": ("value", _length_of),
    "T": ("timestamp", lambda cell: b"%d" % (cell // 1000)),
    "h": ("headers", _headers_of),
}
