package io.sparklog.read;

import io.sparklog.arrow.Columns;
import io.sparklog.read.task.RecordBounds;
import java.util.List;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;

/**
 * Restricts a read to what the query uses: other columns are neither read nor decompressed, and ranges and slices that
 * its filters rule out are not opened.
 */
public final class LogScanBuilder
    implements SupportsPushDownRequiredColumns, SupportsPushDownFilters, SupportsPushDownLimit {
  private final PlannedRead read;
  private final RecordBounds bounds = new RecordBounds();
  private StructType schema;
  private int limit = Integer.MAX_VALUE;

  public LogScanBuilder(StructType schema, PlannedRead read) {
    this.schema = schema;
    this.read = read;
  }

  @Override
  public void pruneColumns(StructType required) {
    schema = Columns.schema(List.of(required.fieldNames())); // whole: a header always has both its fields
  }

  @Override
  public Filter[] pushFilters(Filter[] filters) {
    bounds.add(filters);
    return filters; // Spark evaluates all of them again
  }

  @Override
  public Filter[] pushedFilters() {
    return bounds.used();
  }

  /** Spark gives a limit only if no filter is left to it, and limits the rows again. */
  @Override
  public boolean pushLimit(int most) {
    limit = most;
    return true;
  }

  @Override
  public Scan build() {
    return new LogScan(schema, read, bounds, limit);
  }
}
