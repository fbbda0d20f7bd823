package io.sparklog.write.task;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.sparklog.arrow.Encoder;
import io.sparklog.planner.Planner;
import io.sparklog.planner.SparklogException;
import java.util.HashMap;
import java.util.Map;

/**
 * Hands the rows of one task attempt to a planner, which writes them as the Python data source would: to any store. It
 * gets Arrow messages, each of one partition, in the order of its rows.
 */
final class PythonWriter {
  private record Partition(int topic, int number) {}

  private final WritePlan plan;
  private final String python;
  private final Encoder encoder;
  private final Map<Partition, PendingRows> pending = new HashMap<>();
  private Planner planner; // null before the first rows and after the end
  private long writer;

  PythonWriter(WritePlan plan, String python) {
    this.plan = plan;
    this.python = python;
    encoder = new Encoder("none", 0);
  }

  void add(WritePlan.Topic topic, int partition, LogRecord row) {
    Partition to = new Partition(topic.id(), partition);
    PendingRows rows = pending.computeIfAbsent(to, first -> new PendingRows());
    rows.add(row);
    if (rows.sizeBytes() >= plan.limits().bytesToEncode(pending.size())) {
      send(to, pending.remove(to));
    }
  }

  /** Hand over the rest. Return what the planner has written, as JSON. Throws SparklogException with Python's error. */
  String finish() {
    pending.forEach(this::send);
    pending.clear();
    if (planner == null) {
      return new TaskWritten().json();
    }
    String written = Planner.json(planner.exchange(request("end_rows"))).toString();
    planner = null;
    return written;
  }

  /** Drop what is not written yet. */
  void close() {
    pending.clear();
    if (planner != null) {
      try {
        planner.exchange(request("drop_rows"));
      } catch (SparklogException error) {
        // The planner has ended, and its writers with it.
      }
      planner = null;
    }
  }

  private void send(Partition to, PendingRows rows) {
    if (planner == null) {
      Planner first = Planner.of(python);
      writer = first.ask(Planner.JSON.createObjectNode().put("name", "begin_rows").put("plan", plan.plan())).asLong();
      planner = first;
    }
    byte[] message = rows.encode(to.topic(), to.number(), encoder).message();
    planner.exchange(request("rows").put("topic", to.topic()).put("partition", to.number()).put("batch", message));
  }

  private ObjectNode request(String name) {
    return Planner.JSON.createObjectNode().put("name", name).put("writer", writer);
  }
}
