package io.sparklog.read.task;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Makes the readers of tasks. Spark sends it to the executors. */
public final class ColumnReaderFactory implements PartitionReaderFactory {
  private final String[] columns;
  private final RecordBounds bounds;

  public ColumnReaderFactory(String[] columns, RecordBounds bounds) {
    this.columns = columns;
    this.bounds = bounds;
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    throw new UnsupportedOperationException("a read of columns has no rows");
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new TaskReader((TaskToRead) partition, columns, bounds);
  }
}
