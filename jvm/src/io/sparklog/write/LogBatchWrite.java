package io.sparklog.write;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import io.sparklog.planner.Planner;
import io.sparklog.planner.SparklogException;
import io.sparklog.write.task.TaskWriterFactory;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;

/** A batch whose tasks write in Java. Python has planned it, and commits what the tasks have written, or nothing. */
final class LogBatchWrite implements BatchWrite {
  private static final int ATTEMPTS = 3;

  private final StructType schema;
  private final JsonNode planned;

  /** `schema`: of the rows. `planned`: the planner's answer to "plan_write". */
  LogBatchWrite(StructType schema, JsonNode planned) {
    this.schema = schema;
    this.planned = planned;
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    String task = planned.get("skipped").asBoolean() ? null : planned.get("task").toString();
    return new TaskWriterFactory(schema, task, Planner.pythonCommand());
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    try {
      commit(with(end("commit_write"), messages), planned.get("if_unknown").asText());
    } catch (SparklogException error) {
      throw error.inDriver("commit");
    }
  }

  /**
   * Commit what the tasks have written. If the planner ends without an answer, the commit may have landed; the next one
   * submits the same command, which lands once (`BatchWriter.commit`). `ifUnknown`: what to do if none answers. Throws
   * SparklogException.
   */
  static void commit(ObjectNode request, String ifUnknown) {
    Planner.Unanswered unanswered = null;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
      try {
        Planner.ofDriver().askOnce(request);
        return;
      } catch (Planner.Unanswered error) {
        unanswered = error;
        if (Thread.currentThread().isInterrupted()) {
          break; // it would not wait for the next answer either
        }
      }
    }
    throw unanswered.outcomeUnknown(ifUnknown);
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    ask(with(end("abort_write"), new WriterCommitMessage[0]), "abort");
  }

  /** The planner's answer. Throws its error as Spark does if the Python data source fails while it does `action`. */
  static JsonNode ask(ObjectNode request, String action) {
    try {
      return Planner.ofDriver().ask(request);
    } catch (SparklogException error) {
      throw error.inDriver(action);
    }
  }

  private ObjectNode end(String request) {
    ObjectNode end = Planner.JSON.createObjectNode().put("name", request);
    return end.set("writer", planned.get("writer"));
  }

  /** The request with the messages of the tasks. */
  static ObjectNode with(ObjectNode end, WriterCommitMessage[] messages) {
    ArrayNode sent = end.putArray("messages");
    for (WriterCommitMessage message : messages) {
      if (message == null) {
        sent.addNull(); // the planner refuses to commit without it
      } else {
        sent.addRawValue(new RawValue(message.toString())); // of a TaskMessage, but perhaps of another class loader
      }
    }
    return end;
  }
}
