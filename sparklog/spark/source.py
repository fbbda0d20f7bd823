"""The data source `sparklog`, Spark's entry point. Readers and writers are imported only when needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from sparklog.spark.lazy_connection import default_cluster

if TYPE_CHECKING:
    import pyarrow as pa

    from sparklog.options.typed import ReadOptions


class SparklogDataSource(DataSource):
    """Makes readers and writers of batches and streams. Spark creates it, with the user's options, in the driver."""

    @classmethod
    def name(cls) -> str:
        """The name in `format(...)`."""
        return "sparklog"

    def schema(self) -> StructType:
        """The schema of the records, or of the metadata table that the option `metadata` names. Raises InvalidOption.

        With the option `columns`, the schema of the records has only those columns.

        Spark also calls this to create a table in its catalog: see `table_options`.
        """
        from sparklog.options.streams import read_options_of_any
        from sparklog.options.typed import parse_read_options
        from sparklog.spark.table_options import keep_options, options_of_new_table

        table = options_of_new_table(self.options)
        default = default_cluster()
        if table is None:
            return _schema_of(read_options_of_any(self.options, default))
        schema = _schema_of(parse_read_options(table, default))
        return keep_options(schema, table)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns in `schema`: the source's own schema, or a part of it that the user gave.

        Raises InvalidOption, and InvalidInput for a column that the source does not have.
        """
        from sparklog.options.typed import parse_read_options
        from sparklog.spark.jar import check_reader
        from sparklog.spark.table_options import read_options_of_table

        schema = _of_spark(schema)
        given = read_options_of_table(self.options, schema)
        options = parse_read_options(given, default_cluster())
        check_reader(options.reader)
        self.options.clear()  # Spark sends this object to the tasks with the reader, so keep secrets out
        if options.metadata is not None:
            from sparklog.spark.read.metadata_reader import MetadataReader

            return MetadataReader(options, schema)
        from sparklog.spark.read.batch_reader import BatchReader

        return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader of a stream's micro-batches. `schema` and errors are as in `reader`; also InvalidGroupId."""
        from sparklog.options.streams import parse_stream_read_options
        from sparklog.spark.read.stream_reader import StreamReader
        from sparklog.spark.table_options import read_options_of_table

        given = read_options_of_table(self.options, schema)
        options = parse_stream_read_options(given, default_cluster())
        self.options.clear()  # as in `reader`
        return StreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of rows of `schema`.

        Raises InvalidInput if `overwrite` is true, or if a column or an option is wrong.
        """
        from sparklog.core.errors import InvalidInput
        from sparklog.options.typed import ONLY_APPENDS, parse_write_options
        from sparklog.spark.table_options import check_written_options
        from sparklog.spark.write.batch_writer import begin_write

        if overwrite:
            raise InvalidInput(ONLY_APPENDS)
        schema = _of_spark(schema)
        check_written_options(self.options, schema)
        return begin_write(parse_write_options(self.options, default_cluster()), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Return a writer of one micro-batch. It appends the rows, even if `overwrite` is true (outputMode "complete").

        Spark refuses outputMode "update" for every sink in Python. Raises InvalidInput for a wrong column or option.
        """
        from sparklog.options.streams import parse_stream_write_options
        from sparklog.spark.table_options import check_written_options
        from sparklog.spark.write.stream_writer import begin_stream_write

        check_written_options(self.options, schema)
        return begin_stream_write(parse_stream_write_options(self.options, default_cluster()), schema)


def _of_spark(schema: StructType | pa.Schema) -> StructType:
    """Return the schema as Spark's type. Sail, a server of Spark Connect without a JVM, passes Arrow's type."""
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
