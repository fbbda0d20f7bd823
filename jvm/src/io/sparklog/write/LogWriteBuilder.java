package io.sparklog.write;

import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;

/**
 * Begins a write. `python` is the builder of the Python data source, which also says that a log can't be overwritten; null
 * if Spark has none: then the planner says so. In the output modes complete and update, a stream appends all rows or those that changed, respectively, as with Spark's
 * Kafka sink.
 */
public final class LogWriteBuilder implements SupportsTruncate, SupportsStreamingUpdateAsAppend {
  private final WriteBuilder python;
  private final LogicalWriteInfo info;
  private boolean truncates;

  public LogWriteBuilder(WriteBuilder python, LogicalWriteInfo info) {
    this.python = python;
    this.info = info;
  }

  @Override
  public WriteBuilder truncate() {
    if (python != null) {
      ((SupportsTruncate) python).truncate();
    }
    truncates = true;
    return this;
  }

  @Override
  public Write build() {
    return new LogWrite(python == null ? null : python.build(), info, truncates);
  }
}
