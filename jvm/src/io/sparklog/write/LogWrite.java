package io.sparklog.write;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.sparklog.planner.Planner;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** A write of a batch or a micro-batch: by Java if the planner says that it can, else by Python. */
final class LogWrite implements Write {
  private final Write python;
  private final LogicalWriteInfo info;
  private final boolean truncates;

  /** `truncates`: the rows of a batch would replace those of the log, which Python refuses. */
  LogWrite(Write python, LogicalWriteInfo info, boolean truncates) {
    this.python = python;
    this.info = info;
    this.truncates = truncates;
  }

  @Override
  public String description() {
    return python.description();
  }

  @Override
  public BatchWrite toBatch() {
    if (truncates) {
      return python.toBatch();
    }
    ObjectNode request = Planner.request("plan_write", info.options().asCaseSensitiveMap());
    JsonNode planned = LogBatchWrite.ask(request.put("schema", info.schema().json()), "plan");
    return planned.isNull() ? python.toBatch() : new LogBatchWrite(info.schema(), planned);
  }

  @Override
  public StreamingWrite toStreaming() {
    LogStreamWrite write = LogStreamWrite.begin(info);
    return write == null ? python.toStreaming() : write;
  }
}
