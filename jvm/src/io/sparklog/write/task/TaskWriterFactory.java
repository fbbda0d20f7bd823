package io.sparklog.write.task;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.types.StructType;

/** Makes the writers of task attempts. Spark sends it to the executors; it holds no secrets. */
public final class TaskWriterFactory implements DataWriterFactory, StreamingDataWriterFactory {
  private final RowColumns columns;
  private final String plan;
  private final String python;

  /** `schema`: of the rows. `plan`: a {@link WritePlan} as JSON; null if the rows are in the log already. */
  public TaskWriterFactory(StructType schema, String plan, String python) {
    columns = new RowColumns(schema);
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

  /** Writes nothing: the rows of this task are those of a micro-batch that is already written. */
  private record SkippingWriter(int task) implements DataWriter<InternalRow> {
    @Override
    public void write(InternalRow row) {
      // It is in the log.
    }

    @Override
    public WriterCommitMessage commit() {
      return new TaskMessage(task, TaskWriter.host(), new TaskWritten().json());
    }

    @Override
    public void abort() {
      // Nothing was begun.
    }

    @Override
    public void close() {
      // Nothing is open.
    }
  }
}
