"""The data source `sparklog`, Spark's entry point. Readers and writers are imported only when needed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

    from sparklog.options.typed import ReadOptions

_CLUSTER_VARIABLE = "SPARKLOG_CLUSTER"  # in the environment of the driver


class SparklogDataSource(DataSource):
    """Makes readers and writers of batches and streams. Spark creates it, with the user's options, in the driver."""

    @classmethod
    def name(cls) -> str:
        """The name in `format(...)`."""
        return "sparklog"

    def schema(self) -> StructType:
        """The schema of the records, pruned by `columns`, or of the `metadata` table. Raises InvalidOption.

        Spark also calls this to create a table in its catalog: see `table_options`.
        """
        from sparklog.options.streams import read_options_of_any
        from sparklog.options.typed import parse_read_options
        from sparklog.spark.table_options import keep_options, options_of_new_table

        table = options_of_new_table(self.options)
        default_cluster = os.environ.get(_CLUSTER_VARIABLE)
        if table is None:
            return _schema_of(read_options_of_any(self.options, default_cluster))
        schema = _schema_of(parse_read_options(table, default_cluster))
        return keep_options(schema, table)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of `schema`: the source's own schema, or the user's, which prunes it."""
        from sparklog.options.typed import parse_read_options
        from sparklog.spark.jar import check_reader
        from sparklog.spark.table_options import read_options_of_table

        schema = _of_spark(schema)
        given = read_options_of_table(self.options, schema)
        options = parse_read_options(given, os.environ.get(_CLUSTER_VARIABLE))
        check_reader(options.reader)
        self.options.clear()  # Spark sends this object to the tasks with the reader, so keep secrets out
        if options.metadata is not None:
            from sparklog.spark.read.metadata_reader import MetadataReader

            return MetadataReader(options, schema)
        from sparklog.spark.read.batch_reader import BatchReader

        return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A reader of the micro-batches of a stream; `schema` as in `reader`. Raises InvalidOption."""
        from sparklog.options.streams import parse_stream_read_options
        from sparklog.spark.read.stream_reader import StreamReader
        from sparklog.spark.table_options import read_options_of_table

        given = read_options_of_table(self.options, schema)
        options = parse_stream_read_options(given, os.environ.get(_CLUSTER_VARIABLE))
        self.options.clear()  # as in `reader`
        return StreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer of rows of `schema`. Raises InvalidInput for `overwrite`, a wrong column or a wrong option."""
        from sparklog.core.errors import InvalidInput
        from sparklog.options.typed import parse_write_options
        from sparklog.spark.table_options import check_written_options
        from sparklog.spark.write.batch_writer import begin_write

        if overwrite:
            raise InvalidInput('a log can only be appended to: use mode("append")')
        schema = _of_spark(schema)
        check_written_options(self.options, schema)
        return begin_write(parse_write_options(self.options, os.environ.get(_CLUSTER_VARIABLE)), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """A writer of one micro-batch. The output modes append and complete append the rows alike.

        Spark refuses the third mode, update, for every source in Python. Raises as `writer` does.
        """
        from sparklog.options.streams import parse_stream_write_options
        from sparklog.spark.table_options import check_written_options
        from sparklog.spark.write.stream_writer import begin_stream_write

        check_written_options(self.options, schema)
        return begin_stream_write(parse_stream_write_options(self.options, os.environ.get(_CLUSTER_VARIABLE)), schema)


def _of_spark(schema: StructType | pa.Schema) -> StructType:
    """The schema as Spark gives it. Sail, a server of Spark Connect without a JVM, gives Arrow's."""
    if isinstance(schema, StructType):
        return schema
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _schema_of(options: ReadOptions) -> StructType:
    if options.metadata is not None:
        from sparklog.spark.read.metadata_tables import metadata_schema

        return metadata_schema(options.metadata)
    from sparklog.spark.schema import records_schema

    return records_schema(options.columns)
