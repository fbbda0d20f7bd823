package io.sparklog;

import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;

/** Begins a write. `rows` is the builder of the Python data source, which also says that a log can't be overwritten. */
final class LogWriteBuilder implements SupportsTruncate {
  private final WriteBuilder rows;
  private final LogicalWriteInfo info;

  LogWriteBuilder(WriteBuilder rows, LogicalWriteInfo info) {
    this.rows = rows;
    this.info = info;
  }

  @Override
  public WriteBuilder truncate() {
    return ((SupportsTruncate) rows).truncate();
  }

  @Override
  public Write build() {
    return new LogWrite(rows.build(), info);
  }
}
