package io.sparklog;

import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructType;

/** Restricts a read to the columns that the query uses: the others are neither read nor decompressed. */
final class LogScanBuilder implements SupportsPushDownRequiredColumns {
  private final ScanBuilder rows;
  private final PlannedRead read;
  private StructType schema;

  LogScanBuilder(ScanBuilder rows, StructType schema, PlannedRead read) {
    this.rows = rows;
    this.schema = schema;
    this.read = read;
  }

  @Override
  public void pruneColumns(StructType required) {
    schema = required;
  }

  @Override
  public Scan build() {
    return new LogScan(rows, schema, read);
  }
}
