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
  private long pendingBytes;
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
    pendingBytes -= rows.sizeBytes();
    rows.add(row);
    pendingBytes += rows.sizeBytes();
    if (rows.sizeBytes() >= plan.limits().bytesToEncode(pending.size())) {
      pendingBytes -= rows.sizeBytes();
      send(to, pending.remove(to));
    } else if (pendingBytes >= plan.limits().objectBytes()) {
      sendAll();
    }
  }

  /** Hand over the rest. Return what the planner has written, as JSON. Throws SparklogException with Python's error. */
  String finish() {
    sendAll();
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

  private void sendAll() {
    pending.forEach(this::send);
    pending.clear();
    pendingBytes = 0;
  }

  private void send(Partition to, PendingRows rows) {
    if (planner == null) {
      try {
        begin();
      } catch (Planner.Unanswered error) {
        if (Thread.currentThread().isInterrupted()) {
          throw error;
        }
        begin();
      }
    }
    byte[] message = rows.encode(to.topic(), to.number(), encoder).message();
    planner.exchange(request("rows").put("topic", to.topic()).put("partition", to.number()), message);
  }

  private void begin() {
    Planner asked = Planner.of(python);
    ObjectNode request = Planner.JSON.createObjectNode().put("name", "begin_rows").put("plan", plan.plan());
    writer = Planner.json(asked.exchange(request)).asLong();
    planner = asked;
  }

  private ObjectNode request(String name) {
    return Planner.JSON.createObjectNode().put("name", name).put("writer", writer);
  }
}
