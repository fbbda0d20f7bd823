package io.sparklog.write;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.sparklog.planner.MicroBatchProperties;
import io.sparklog.planner.Planner;
import io.sparklog.planner.SparklogException;
import io.sparklog.write.task.TaskWriterFactory;
import java.util.List;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** A micro-batch whose tasks write in Java. Python has planned it, and commits what they have written, or nothing. */
final class LogStreamWrite implements StreamingWrite {
  private static final List<String> PROPERTIES =
      List.of(MicroBatchProperties.QUERY_ID, MicroBatchProperties.BATCH_ID, MicroBatchProperties.RUN_ID);

  private final LogicalWriteInfo info;
  private final JsonNode properties;
  private final JsonNode planned;

  private LogStreamWrite(LogicalWriteInfo info, JsonNode properties, JsonNode planned) {
    this.info = info;
    this.properties = properties;
    this.planned = planned;
  }

  /** The write of the micro-batch that this thread of Spark works on; null if Python must write it. */
  static LogStreamWrite begin(LogicalWriteInfo info) {
    ObjectNode request = Planner.request("plan_micro_batch", info.options().asCaseSensitiveMap());
    ObjectNode properties = request.put("schema", info.schema().json()).putObject("properties");
    for (String name : PROPERTIES) {
      properties.put(name, MicroBatchProperties.get(name));
    }
    JsonNode planned = ask(request, "plan");
    return planned.isNull() ? null : new LogStreamWrite(info, properties, planned);
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo physical) {
    String plan = planned.get("skipped").asBoolean() ? null : planned.get("task").toString();
    return new TaskWriterFactory(info.schema(), plan, Planner.pythonCommand());
  }

  @Override
  public void commit(long batch, WriterCommitMessage[] messages) {
    ObjectNode request = Planner.request("commit_micro_batch", info.options().asCaseSensitiveMap());
    request.set("properties", properties);
    request.set("plan", planned.get("plan"));
    request.set("skipped", planned.get("skipped"));
    try {
      LogBatchWrite.commit(LogBatchWrite.with(request, messages), planned.get("if_unknown").asText());
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
