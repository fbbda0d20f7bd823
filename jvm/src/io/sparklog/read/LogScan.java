package io.sparklog.read;

import io.sparklog.read.task.ColumnReaderFactory;
import io.sparklog.read.task.ReadMetrics;
import io.sparklog.read.task.RecordBounds;
import io.sparklog.read.task.TaskToRead;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/** A read of some columns, as a batch or as a stream. */
final class LogScan implements SupportsReportStatistics, Batch {
  private final StructType schema;
  private final PlannedRead read;
  private final RecordBounds bounds;
  private final int limit;
  private boolean isStream;
  private List<TaskToRead> tasks;

  LogScan(StructType schema, PlannedRead read, RecordBounds bounds, int limit) {
    this.schema = schema;
    this.read = read;
    this.bounds = bounds;
    this.limit = limit;
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
    isStream = true;
    return new LogStream(read.options(), schema.fieldNames());
  }

  /** The stored bytes, by which Spark chooses what it broadcasts. Those of a stream are unknown. */
  @Override
  public Statistics estimateStatistics() {
    OptionalLong bytes =
        isStream ? OptionalLong.empty() : OptionalLong.of(tasks().stream().mapToLong(TaskToRead::bytes).sum());
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return bytes;
      }

      @Override
      public OptionalLong numRows() {
        return OptionalLong.empty();
      }
    };
  }

  @Override
  public InputPartition[] planInputPartitions() {
    return tasks().toArray(InputPartition[]::new);
  }

  /** The tasks that the filters leave, up to the one with which the limit is reached. */
  private synchronized List<TaskToRead> tasks() {
    if (tasks == null) {
      List<TaskToRead> left = new ArrayList<>();
      long records = 0;
      for (TaskToRead task : read.tasks()) { // may throw, and Spark may ask again
        if (records < limit && bounds.mayHave(task)) {
          left.add(task);
          records += task.records();
        }
      }
      tasks = left;
    }
    return tasks;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new ColumnReaderFactory(schema.fieldNames(), bounds);
  }
}
