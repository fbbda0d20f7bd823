"""Compares the records of a range in Kafka with those here, batch by batch, without holding either in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from sparklog.core.row_offsets import Int64Array
from sparklog.core.types import Offset
from sparklog.log.kafka_columns import READ_SCHEMA

COLUMNS: Final = ("offset", "timestampType", "timestamp", "key", "value", "headers")  # in the order of comparing
_SCHEMA: Final = pa.schema(  # any time, also one beyond those of Python
    [pa.field(name, pa.int64() if name == "timestamp" else READ_SCHEMA.field(name).type) for name in COLUMNS]
)


class Compared(msgspec.Struct):
    """The numbers of records, and of those that differ. `first`: the first difference, as text.

    `first_changed`: the first of a record that both have.
    """

    kafka: int = 0
    here: int = 0
    only_kafka: int = 0
    only_here: int = 0
    changed: int = 0
    first: str | None = None
    first_changed: str | None = None


class Comparison:
    """Compares a range. `here`: its records here, as batches of COLUMNS in the order of offsets.

    Call `add` with Kafka's records, in order, then `end`.
    """

    def __init__(self, here: Iterator[pa.RecordBatch]) -> None:
        self._here = here
        self._rest = _SCHEMA.empty_table()  # records here that were read and not compared
        self._counts = Compared()

    def add(self, kafka: pa.RecordBatch, timestamp_type: int) -> None:
        """Compare a batch of Kafka's, with the columns of RAW_WITH_OFFSETS, with the records here up to its last."""
        types = pa.repeat(pa.scalar(timestamp_type, pa.int32()), kafka.num_rows)
        wanted = _comparable(kafka.append_column("timestampType", types))
        self._compare(wanted, self._up_to(int(_offsets(wanted)[-1])))

    def end(self, end: Offset) -> Compared:
        """Return the counts. All records here that were not compared are below `end`, and Kafka lacks them."""
        self._compare(_SCHEMA.empty_table(), self._up_to(end - 1))
        return self._counts

    def _up_to(self, last: int) -> pa.Table:
        """Take the records here up to this offset."""
        parts = [self._rest]
        while not (parts[-1].num_rows and _offsets(parts[-1])[-1] >= last):
            batch = next(self._here, None)
            if batch is None:
                break
            if batch.num_rows:
                parts.append(_comparable(batch))
        rows = pa.concat_tables(parts)
        cut = int(np.searchsorted(_offsets(rows), last, side="right"))
        self._rest = rows.slice(cut)
        return rows.slice(0, cut)

    def _compare(self, kafka: pa.Table, here: pa.Table) -> None:
        counts = self._counts
        counts.kafka += kafka.num_rows
        counts.here += here.num_rows
        if kafka.equals(here):
            return
        there, ours = _offsets(kafka), _offsets(here)
        common = np.intersect1d(there, ours)
        firsts = []
        for which, offsets in (("only in Kafka", np.setdiff1d(there, ours)), ("only here", np.setdiff1d(ours, there))):
            if len(offsets):
                firsts.append((int(offsets[0]), which))
        counts.only_kafka += len(there) - len(common)
        counts.only_here += len(ours) - len(common)
        changes = _changes(kafka.take(np.searchsorted(there, common)), here.take(np.searchsorted(ours, common)))
        counts.changed += len(changes)
        of_changes = [(int(common[at]), f"its {name} differs") for at, name in changes.items()]
        counts.first = counts.first or _earliest(firsts + of_changes)
        counts.first_changed = counts.first_changed or _earliest(of_changes)


def _earliest(differences: list[tuple[int, str]]) -> str | None:
    """The one at the lowest offset, as text; None without any."""
    if not differences:
        return None
    offset, what = min(differences)
    return f"offset {offset}: {what}"


def _comparable(rows: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([rows]).select(COLUMNS).cast(_SCHEMA)


def _offsets(rows: pa.Table) -> Int64Array:
    offsets: Int64Array = rows.column("offset").to_numpy()
    return offsets


def _changes(kafka: pa.Table, here: pa.Table) -> dict[int, str]:
    """For each row that differs, the first column that does."""
    changes: dict[int, str] = {}
    for name in COLUMNS:
        wanted, actual = kafka.column(name), here.column(name)
        if not wanted.equals(actual):
            for at, (there, ours) in enumerate(zip(wanted.to_pylist(), actual.to_pylist(), strict=True)):
                if there != ours:
                    changes.setdefault(at, name)
    return changes
