package io.sparklog;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/** A read of some columns, as a batch or as a stream. */
final class LogScan implements Scan, Batch {
  private final ScanBuilder rows;
  private final StructType schema;
  private final PlannedRead read;
  private final Bounds bounds;

  LogScan(ScanBuilder rows, StructType schema, PlannedRead read, Bounds bounds) {
    this.rows = rows;
    this.schema = schema;
    this.read = read;
    this.bounds = bounds;
  }

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public String description() {
    return "sparklog columns " + String.join(", ", schema.fieldNames());
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return ReadMetrics.all();
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    return ColumnStream.over(rows.build().toMicroBatchStream(checkpoint), read.options(), schema.fieldNames());
  }

  @Override
  public InputPartition[] planInputPartitions() {
    return read.tasks().stream().filter(bounds::mayHave).toArray(InputPartition[]::new);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new ColumnReaderFactory(schema.fieldNames(), bounds);
  }
}
