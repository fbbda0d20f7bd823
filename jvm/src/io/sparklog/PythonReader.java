package io.sparklog;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;

/** The rest of a range, read by Python and handed over as Arrow messages. */
final class PythonReader {
  private static final byte END = 'N';

  private final Planner planner;
  private final String[] columns;
  private final Decoder decoder;
  private final String[] read;
  private final long reader;
  private boolean isOpen = true;

  PythonReader(TaskScan plan, int range, long at, Decoder decoder) {
    this.columns = plan.columns();
    this.decoder = decoder;
    read = columns.length == 0 ? new String[] {"offset"} : columns; // Arrow counts no rows without a column
    planner = Planner.of(plan.python());
    ObjectNode request = Planner.JSON.createObjectNode().put("name", "read").put("range", range).put("at", at);
    request.put("task", plan.task().task()).put("fail_on_data_loss", plan.task().failOnDataLoss());
    for (String column : read) {
      request.withArray("columns").add(column);
    }
    reader = planner.ask(request).asLong();
  }

  /** The next records; null at the end. Throws SparklogException with Python's error. */
  Records next() throws IOException {
    Planner.Reply reply = planner.exchange(request("next"));
    if (reply.kind() == END) {
      isOpen = false;
      return null;
    }
    try {
      return decoder.decode(reply.payload(), 0, reply.payload().length, Layout.of(read), read).rows(columns, 0);
    } catch (DamagedException error) {
      throw new IOException(error);
    }
  }

  void close() {
    if (isOpen) {
      isOpen = false;
      try {
        planner.ask(request("close"));
      } catch (SparklogException error) {
        // The planner has ended, and its readers with it.
      }
    }
  }

  private ObjectNode request(String name) {
    return Planner.JSON.createObjectNode().put("name", name).put("reader", reader);
  }
}
