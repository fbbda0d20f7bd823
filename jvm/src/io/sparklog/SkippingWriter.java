package io.sparklog;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** Writes nothing: the rows of this task are those of a micro-batch that is already written. */
record SkippingWriter(int task) implements DataWriter<InternalRow> {
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
