package io.sparklog.read.task;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.sparklog.arrow.DamagedException;
import io.sparklog.arrow.Decoder;
import io.sparklog.arrow.Layout;
import io.sparklog.planner.Planner;
import io.sparklog.planner.SparklogException;
import java.io.IOException;
import java.util.Arrays;
import java.util.stream.Stream;

/** The rest of a range, read by Python and handed over as Arrow messages. */
final class PythonReader {
  private static final byte END = 'N';
  private static final String OFFSET = "offset"; // read in any case, to know how far the reader is

  private final TaskReader.Scan plan;
  private final int range;
  private final String[] columns;
  private final Decoder decoder;
  private final String[] columnsRead;
  private long at;
  private Planner planner;
  private long readerId;
  private boolean isOpen;
  private boolean hasReopened;

  PythonReader(TaskReader.Scan plan, int range, long at, Decoder decoder) {
    this.plan = plan;
    this.range = range;
    this.at = at;
    this.columns = plan.columns();
    this.decoder = decoder;
    columnsRead = Stream.concat(Arrays.stream(columns), Stream.of(OFFSET)).distinct().toArray(String[]::new);
  }

  /**
   * The next records; null at the end. If the planner ends meanwhile, the next one reads on from the same offset, once.
   * Throws SparklogException with Python's error.
   */
  RangeReader.Records next() throws IOException {
    try {
      return nextOfPlanner();
    } catch (Planner.Unanswered error) {
      if (hasReopened || Thread.currentThread().isInterrupted()) {
        throw error;
      }
      hasReopened = true;
      isOpen = false;
      return nextOfPlanner();
    }
  }

  private RangeReader.Records nextOfPlanner() throws IOException {
    if (!isOpen) {
      open();
    }
    Planner.Reply reply = planner.exchange(request("next"));
    if (reply.kind() == END) {
      isOpen = false;
      return null;
    }
    try {
      Decoder.Batch batch = decoder.decode(reply.payload(), 0, reply.payload().length, Layout.of(columnsRead), columnsRead);
      at = batch.rows() == 0 ? at : batch.columns().get(OFFSET).getLong(batch.rows() - 1) + 1;
      return new RangeReader.Records(batch.columns(columns), batch.rows(), at);
    } catch (DamagedException error) {
      throw new IOException(error);
    }
  }

  private void open() throws IOException {
    ObjectNode request = Planner.JSON.createObjectNode().put("name", "read").put("range", range).put("at", at);
    request.put("task", plan.task().task()).put("fail_on_data_loss", plan.task().failOnDataLoss());
    for (String column : columnsRead) {
      request.withArray("columns").add(column);
    }
    planner = Planner.of(plan.python());
    readerId = Planner.JSON.readTree(planner.exchange(request).payload()).asLong();
    isOpen = true;
  }

  void close() {
    if (isOpen) {
      isOpen = false;
      try {
        planner.exchange(request("close"));
      } catch (SparklogException error) {
        // The planner has ended, and its readers with it.
      }
    }
  }

  private ObjectNode request(String name) {
    return Planner.JSON.createObjectNode().put("name", name).put("reader", readerId);
  }
}
