"""Counts the records that produce would write, over all rows, for --dry-run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from sparklog.core.describe.readable import counted, point_in_time_us

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_SHOWN: Final = 5
CHARACTERS_SHOWN: Final = 160
_ROWS_OF_A_TASK: Final = 1 << 33  # monotonically_increasing_id starts the numbers of each task at a multiple of this


class Preview(msgspec.Struct, frozen=True):
    """Counts over the rows that would be written, and the first few rows as text.

    `size_bytes` counts keys and values, uncompressed. Times are None if there is no timestamp column or no row.
    """

    records: int
    without_key: int
    without_value: int
    size_bytes: int
    oldest_us: int | None
    newest_us: int | None
    partitions: tuple[int | None, ...]
    first: tuple[str, ...]

    def remarks(self) -> Iterator[str]:
        """Yield lines for the user about rows without a key, rows without a value, timestamps and partitions."""
        if self.without_key:
            yield f"{counted(self.without_key, 'row')} without a key"
        if self.without_value:
            yield f"{counted(self.without_value, 'row')} without a value: tombstones"
        if self.oldest_us is not None and self.newest_us is not None:
            yield f"timestamps from {point_in_time_us(self.oldest_us)} to {point_in_time_us(self.newest_us)}"
        if self.partitions:
            yield f"partitions {', '.join(map(str, self.partitions))}"


def preview(rows: DataFrame) -> Preview:
    """Count `rows`, which have the columns that `written_columns` returns. Raises Spark's errors."""
    from pyspark.sql import functions as sql

    absent = sql.lit(None)
    key, timestamp, partition = (
        rows[name] if name in rows.columns else absent for name in ("key", "timestamp", "partition")
    )
    # Times as numbers: Python would show a timestamp in the machine's time zone.
    time_us = sql.unix_micros(timestamp.cast("timestamp"))
    sizes = [sql.coalesce(sql.octet_length(part.cast("binary")), sql.lit(0)) for part in (key, rows["value"])]
    # Collect the first rows of each task in the same pass: Python workers complain if a reader stops after a few rows.
    number = sql.monotonically_increasing_id()
    texts = sql.struct(number.alias("number"), *(rows[name].cast("string") for name in rows.columns))
    numbered = rows.withColumn("first", sql.when(number % _ROWS_OF_A_TASK < ROWS_SHOWN, texts))
    total = numbered.agg(
        sql.count(sql.lit(1)).alias("records"),
        sql.count(key).alias("keys"),
        sql.count("value").alias("values"),
        sql.coalesce(sql.sum(sizes[0] + sizes[1]), sql.lit(0)).alias("size_bytes"),
        sql.min(time_us).alias("oldest_us"),
        sql.max(time_us).alias("newest_us"),
        sql.array_sort(sql.collect_set(partition.cast("int"))).alias("partitions"),
        sql.slice(sql.sort_array(sql.collect_list("first")), 1, ROWS_SHOWN).alias("first"),
    ).collect()[0]
    return Preview(
        total["records"],
        total["records"] - total["keys"],
        total["records"] - total["values"],
        total["size_bytes"],
        total["oldest_us"],
        total["newest_us"],
        tuple(total["partitions"]),
        tuple(
            "  ".join(f"{name}={_cut(text)}" for name, text in zip(rows.columns, row[1:], strict=True))
            for row in total["first"]
        ),
    )


def _cut(text: str | None) -> str:
    if text is None:
        return "null"
    return text if len(text) <= CHARACTERS_SHOWN else text[: CHARACTERS_SHOWN - 1] + "…"
