package io.sparklog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** A micro-batch whose tasks write in Java. Python has planned it, and commits what they have written, or nothing. */
final class LogStreamWrite implements StreamingWrite {
  private static final String[] NAMES = {"sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id"};

  private final LogicalWriteInfo info;
  private final JsonNode properties;
  private final JsonNode begun;

  private LogStreamWrite(LogicalWriteInfo info, JsonNode properties, JsonNode begun) {
    this.info = info;
    this.properties = properties;
    this.begun = begun;
  }

  /** The write of the micro-batch that this thread of Spark works on; null if Python must write it. */
  static LogStreamWrite begin(LogicalWriteInfo info) {
    ObjectNode request = Planner.request("plan_micro_batch", info.options().asCaseSensitiveMap());
    ObjectNode properties = request.put("schema", info.schema().json()).putObject("properties");
    for (String name : NAMES) {
      properties.put(name, SparkContext.getOrCreate().getLocalProperty(name));
    }
    JsonNode begun = ask(request, "plan");
    return begun.isNull() ? null : new LogStreamWrite(info, properties, begun);
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo physical) {
    String plan = begun.get("skipped").asBoolean() ? null : begun.get("task").toString();
    return new TaskWriterFactory(new RowColumns(info.schema()), plan, Planner.pythonCommand());
  }

  @Override
  public void commit(long batch, WriterCommitMessage[] messages) {
    ObjectNode request = Planner.request("commit_micro_batch", info.options().asCaseSensitiveMap());
    request.set("properties", properties);
    request.set("plan", begun.get("plan"));
    request.set("skipped", begun.get("skipped"));
    try {
      LogBatchWrite.commit(LogBatchWrite.with(request, messages), begun.get("if_unknown").asText());
    } catch (SparklogException error) {
      throw error.inStream("commit");
    }
  }

  @Override
  public void abort(long batch, WriterCommitMessage[] messages) {
    ask(Planner.JSON.createObjectNode().put("name", "abort_micro_batch").put("batch_id", batch), "abort");
  }

  private static JsonNode ask(ObjectNode request, String action) {
    try {
      return Planner.ofDriver().ask(request);
    } catch (SparklogException error) {
      throw error.inStream(action);
    }
  }
}
