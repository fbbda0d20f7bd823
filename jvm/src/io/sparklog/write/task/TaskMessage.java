package io.sparklog.write.task;

import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import io.sparklog.planner.Planner;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * The result of one task attempt: its number, its host, and what Python calls a TaskWritten, as JSON.
 *
 * <p>In a session that got the JAR while it ran, tasks have this class from another class loader than the driver. So the
 * driver only asks for the text.
 */
record TaskMessage(int task, String host, String written) implements WriterCommitMessage {
  @Override
  public String toString() {
    ObjectNode message = Planner.JSON.createObjectNode().put("task", task).put("host", host);
    message.putRawValue("written", new RawValue(written));
    return message.toString();
  }
}
