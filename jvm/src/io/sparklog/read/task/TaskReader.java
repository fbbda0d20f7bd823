package io.sparklog.read.task;

import io.sparklog.arrow.Decoder;
import io.sparklog.planner.SparklogException;
import java.io.IOException;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Reads the ranges of one task one after the other, each in offset order. */
final class TaskReader implements PartitionReader<ColumnarBatch> {
  /** The plan of a task, the columns to read, and the bounds of what the query can use. */
  record Scan(String python, ReadTask task, String[] columns, RecordBounds bounds) {}

  private final Scan plan;
  private final Decoder decoder = new Decoder();
  private final ReadMetrics metrics = new ReadMetrics();
  private int next; // the number of the range to read next
  private RangeReader range;
  private ColumnarBatch batch;

  TaskReader(TaskToRead task, String[] columns, RecordBounds bounds) {
    plan = new Scan(task.python(), task.plan(), columns, bounds);
  }

  @Override
  public boolean next() throws IOException {
    try {
      return advance();
    } catch (SparklogException error) {
      throw error.inTask("read");
    }
  }

  private boolean advance() throws IOException {
    while (true) {
      if (range == null) {
        if (next == plan.task().ranges().size()) {
          return false;
        }
        range = new RangeReader(plan, next++, decoder, metrics);
      }
      RangeReader.Records rows = range.next();
      if (rows != null) {
        batch = new ColumnarBatch(rows.columns(), rows.count());
        return true;
      }
      range = null;
    }
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return metrics.values();
  }

  @Override
  public void close() throws IOException {
    if (range != null) {
      range.close();
    }
    decoder.close();
  }
}
