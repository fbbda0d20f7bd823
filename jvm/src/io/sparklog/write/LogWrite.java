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

  /** `python` is null if Spark has no data sources in Python. `truncates`: the rows of a batch would replace the log's. */
  LogWrite(Write python, LogicalWriteInfo info, boolean truncates) {
    this.python = python;
    this.info = info;
    this.truncates = truncates;
  }

  @Override
  public String description() {
    return python == null ? "sparklog" : python.description();
  }

  @Override
  public BatchWrite toBatch() {
    if (truncates && python != null) {
      return python.toBatch(); // refuses
    }
    ObjectNode request = Planner.request("plan_write", info.options().asCaseSensitiveMap());
    request.put("schema", info.schema().json()).put("overwrite", truncates);
    JsonNode planned = LogBatchWrite.ask(request, "plan");
    return planned.isNull() ? python.toBatch() : new LogBatchWrite(info.schema(), planned);
  }

  @Override
  public StreamingWrite toStreaming() {
    LogStreamWrite write = LogStreamWrite.begin(info);
    return write == null ? python.toStreaming() : write;
  }
}
