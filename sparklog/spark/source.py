"""The data source `sparklog`: what Spark calls first. The readers and writers load with the call that needs them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from sparklog.core.options import ReadOptions

_CLUSTER_VARIABLE = "SPARKLOG_CLUSTER"  # in the environment of the driver


class SparklogDataSource(DataSource):
    """Batch reads and writes of a cluster. Spark makes it, with the user's options, in a process of the driver."""

    @classmethod
    def name(cls) -> str:
        """The name in `format(...)`."""
        return "sparklog"

    def schema(self) -> StructType:
        """Of the records, pruned by `columns`, or of the `metadata` table. Raises InvalidOption."""
        options = self._read_options()
        if options.metadata is not None:
            from sparklog.spark.metadata_tables import metadata_schema

            return metadata_schema(options.metadata)
        from sparklog.spark.schema import records_schema

        return records_schema(options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reader of `schema`, which is the source's own or one that the user gave to prune it."""
        options = self._read_options()
        self.options.clear()  # Spark sends this object to the tasks with the reader: no secret goes along
        if options.metadata is not None:
            from sparklog.spark.metadata_reader import MetadataReader

            return MetadataReader(options, schema)
        from sparklog.spark.batch_reader import BatchReader

        return BatchReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Writer of rows of `schema`. Raises InvalidInput for `overwrite`, a wrong column, a wrong option."""
        from sparklog.core.errors import InvalidInput
        from sparklog.core.options import parse_write_options
        from sparklog.spark.batch_writer import begin_write

        if overwrite:
            raise InvalidInput('a log is appended to; use mode("append")')
        options = parse_write_options(self.options, os.environ.get(_CLUSTER_VARIABLE))
        return begin_write(options, schema)

    def _read_options(self) -> ReadOptions:
        from sparklog.core.options import parse_read_options

        return parse_read_options(self.options, os.environ.get(_CLUSTER_VARIABLE))
