package io.sparklog.write.task;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.sparklog.arrow.GrowingColumn.Header;
import io.sparklog.planner.Planner;
import io.sparklog.planner.SparklogException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** Writes the rows of one task attempt. They are not visible before the driver has committed them. */
final class TaskWriter implements DataWriter<InternalRow> {
  private final RowColumns columns;
  private final WritePlan plan;
  private final int number;
  private final TaskObjects objects;
  private final Map<String, TopicWriter> writers = new HashMap<>();
  private final TopicWriter only; // null: each row names its topic

  TaskWriter(RowColumns columns, WritePlan plan, String python, int number) {
    this.columns = columns;
    this.plan = plan;
    this.number = number;
    objects = new TaskObjects(plan, python);
    only = plan.topic() == null ? null : new TopicWriter(objects, plan.topics().get(plan.topic()), number);
  }

  @Override
  public void write(InternalRow row) {
    LogRecord written = columns.record(row, System.currentTimeMillis() * 1000);
    Integer partition = columns.partition(row);
    String topic = only == null ? columns.topic(row) : null;
    TopicWriter writer = only == null ? writer(topic) : only;
    try {
      if (writer == null || !writer.takes(written, partition, columns.hasTimestamp(row))) {
        throw objects.refused(request(topic, partition, written, columns.hasTimestamp(row)));
      }
      writer.add(written, partition);
    } catch (SparklogException error) {
      throw error.inTask("write");
    }
  }

  @Override
  public WriterCommitMessage commit() {
    try {
      return new TaskMessage(number, host(), objects.finish());
    } catch (SparklogException error) {
      throw error.inTask("write");
    }
  }

  @Override
  public void abort() {
    objects.abort();
  }

  @Override
  public void close() {
    objects.abort();
  }

  /** The writer of a topic; null if there is no such topic. */
  private TopicWriter writer(String topic) {
    TopicWriter writer = writers.get(topic);
    WritePlan.Topic planned = writer != null || topic == null ? null : plan.topics().get(topic);
    if (planned != null) {
      writer = new TopicWriter(objects, planned, number);
      writers.put(topic, writer);
    }
    return writer;
  }

  private static ObjectNode request(String topic, Integer partition, LogRecord row, boolean hasTimestamp) {
    ObjectNode request = Planner.JSON.createObjectNode().put("topic", topic).put("partition", partition);
    request.put("key", row.key()).put("value", row.value());
    request.put("timestamp_us", hasTimestamp ? (Long) row.timestampUs() : null);
    if (row.headers() == null) {
      return request.putNull("headers");
    }
    ArrayNode headers = request.putArray("headers");
    for (Header header : row.headers()) {
      if (header == null) {
        headers.addNull();
      } else {
        headers.addObject().put("key", header.key()).put("value", header.value());
      }
    }
    return request;
  }

  /** The name of this host. */
  static String host() {
    try {
      return InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException error) {
      return "an executor"; // the driver then looks whether the objects have arrived
    }
  }
}
