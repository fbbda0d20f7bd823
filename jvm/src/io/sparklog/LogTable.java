package io.sparklog;

import io.sparklog.read.LogScanBuilder;
import io.sparklog.read.PlannedRead;
import io.sparklog.write.LogWriteBuilder;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The records of a log as a table. `python` is the same table of the Python data source; null if Spark has none. */
final class LogTable implements SupportsRead, SupportsWrite {
  private static final Set<TableCapability> ALL = // as those of the Python data source
      EnumSet.of(
          TableCapability.BATCH_READ,
          TableCapability.BATCH_WRITE,
          TableCapability.MICRO_BATCH_READ,
          TableCapability.STREAMING_WRITE,
          TableCapability.TRUNCATE);

  private final Table python;
  private final StructType schema;
  private final PlannedRead read; // null: Python reads

  LogTable(Table python, StructType schema, PlannedRead read) {
    this.python = python;
    this.schema = schema;
    this.read = read;
  }

  @Override
  public String name() {
    return python == null ? "sparklog" : python.name();
  }

  /** Shown as the sink's description in the progress of a stream. */
  @Override
  public String toString() {
    return python == null ? name() : python.toString();
  }

  @SuppressWarnings("deprecation") // Spark 4.0 has no other way
  @Override
  public StructType schema() {
    return schema;
  }

  @Override
  public Set<TableCapability> capabilities() {
    if (python == null) {
      return ALL;
    }
    Set<TableCapability> capabilities = new HashSet<>(python.capabilities());
    capabilities.add(TableCapability.BATCH_READ);
    return capabilities;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap scanOptions) {
    if (python == null) {
      SparklogSource.checkSchema(schema);
    }
    return read == null ? ((SupportsRead) python).newScanBuilder(scanOptions) : new LogScanBuilder(schema, read);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new LogWriteBuilder(python == null ? null : ((SupportsWrite) python).newWriteBuilder(info), info);
  }
}
