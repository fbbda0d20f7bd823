"""Checks times in Parquet files that Spark would read with fewer digits."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from sparklog.core.errors import InvalidInput

_MOST_US: Final = 9_200_000_000_000_000  # microseconds whose nanoseconds have 64 bits


def check_int96_times(files: Iterable[Path]) -> None:
    """Raise InvalidInput for a Parquet file whose INT96 times have nanoseconds, which Spark would cut.

    Spark refuses INT64 times in nanoseconds by itself, but an INT96 column doesn't say how fine its times are: so all
    INT96 columns are read.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    for file in files:
        try:
            parquet = pq.ParquetFile(file)
        except (OSError, ValueError):
            continue  # Spark says what is wrong with it
        with parquet, pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as rounded:
            schema = parquet.schema
            old = [column.path for column in map(schema.column, range(len(schema))) if column.physical_type == "INT96"]
            flat = [name for name in old if name in parquet.schema_arrow.names]
            batches = zip(*(opened.iter_batches(columns=flat) for opened in (parquet, rounded)), strict=True)
            for exact, cut in batches if flat else ():
                for name in flat:
                    # Arrow's nanoseconds wrap around outside of 1678 to 2262, so there they say nothing.
                    in_range = pc.less(pc.abs(cut.column(name).cast(pa.int64())), _MOST_US)
                    if pc.any(pc.and_(in_range, pc.not_equal(pc.nanosecond(exact.column(name)), 0))).as_py():
                        raise InvalidInput(
                            f"{file}: Spark has no times in nanoseconds, found some in column {name} (INT96): write "
                            "the file with microseconds (pyarrow: coerce_timestamps='us')"
                        )
