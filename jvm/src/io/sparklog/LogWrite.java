package io.sparklog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** A write. Java writes a batch if the planner says that it can; Python writes other batches, and streams. */
final class LogWrite implements Write {
  private final Write python;
  private final LogicalWriteInfo info;

  LogWrite(Write python, LogicalWriteInfo info) {
    this.python = python;
    this.info = info;
  }

  @Override
  public String description() {
    return python.description();
  }

  @Override
  public BatchWrite toBatch() {
    ObjectNode request = Planner.request("plan_write", info.options().asCaseSensitiveMap());
    JsonNode begun = LogBatchWrite.ask(request.put("schema", info.schema().json()), "plan");
    return begun.isNull() ? python.toBatch() : new LogBatchWrite(new RowColumns(info.schema()), begun);
  }

  @Override
  public StreamingWrite toStreaming() {
    return python.toStreaming();
  }
}
