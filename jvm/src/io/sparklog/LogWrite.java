package io.sparklog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** A write of a batch or a micro-batch: by Java if the planner says that it can, else by Python. */
final class LogWrite implements Write {
  private final Write python;
  private final LogicalWriteInfo info;
  private final boolean replaces;

  /** `replaces`: the rows of a batch would replace those of the log, which Python refuses. */
  LogWrite(Write python, LogicalWriteInfo info, boolean replaces) {
    this.python = python;
    this.info = info;
    this.replaces = replaces;
  }

  @Override
  public String description() {
    return python.description();
  }

  @Override
  public BatchWrite toBatch() {
    if (replaces) {
      return python.toBatch();
    }
    ObjectNode request = Planner.request("plan_write", info.options().asCaseSensitiveMap());
    JsonNode begun = LogBatchWrite.ask(request.put("schema", info.schema().json()), "plan");
    return begun.isNull() ? python.toBatch() : new LogBatchWrite(new RowColumns(info.schema()), begun);
  }

  @Override
  public StreamingWrite toStreaming() {
    LogStreamWrite write = LogStreamWrite.begin(info);
    return write == null ? python.toStreaming() : write;
  }
}
