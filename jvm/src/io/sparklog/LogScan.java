package io.sparklog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A read of some columns. Python plans it once, at one position of the chain. A stream is left to the Python source. */
final class LogScan implements Scan, Batch {
  private static final Logger LOG = LoggerFactory.getLogger("sparklog");

  private final ScanBuilder rows;
  private final StructType schema;
  private final Map<String, String> options;

  LogScan(ScanBuilder rows, StructType schema, Map<String, String> options) {
    this.rows = rows;
    this.schema = schema;
    this.options = options;
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
  public Batch toBatch() {
    return this;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    return rows.build().toMicroBatchStream(checkpoint);
  }

  @Override
  public InputPartition[] planInputPartitions() {
    ObjectNode request = Planner.request("plan_read", options);
    request.putArray("columns");
    for (String column : schema.fieldNames()) {
      request.withArray("columns").add(column);
    }
    JsonNode reply = Planner.ofDriver().ask(request);
    reply.get("warnings").forEach(warning -> LOG.warn("{}", warning.asText()));
    List<InputPartition> tasks = new ArrayList<>();
    for (JsonNode task : reply.get("tasks")) {
      tasks.add(new TaskToRead(Planner.pythonCommand(), task.toString()));
    }
    return tasks.toArray(InputPartition[]::new);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new ColumnReaderFactory(schema.fieldNames());
  }
}
