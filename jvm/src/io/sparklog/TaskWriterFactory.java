package io.sparklog;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;

/** Makes the writers of task attempts. Spark sends it to the executors; it holds no secrets. */
final class TaskWriterFactory implements DataWriterFactory, StreamingDataWriterFactory {
  private final RowColumns columns;
  private final String plan; // null: the rows are in the log already
  private final String python;

  TaskWriterFactory(RowColumns columns, String plan, String python) {
    this.columns = columns;
    this.plan = plan;
    this.python = python;
  }

  @Override
  public DataWriter<InternalRow> createWriter(int partition, long attempt) {
    return plan == null ? new SkippingWriter(partition) : new TaskWriter(columns, WritePlan.of(plan), python, partition);
  }

  @Override
  public DataWriter<InternalRow> createWriter(int partition, long attempt, long batch) {
    return createWriter(partition, attempt);
  }
}
