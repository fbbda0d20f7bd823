package io.sparklog.read;

import com.fasterxml.jackson.databind.JsonNode;
import io.sparklog.planner.MicroBatchProperties;
import io.sparklog.planner.Planner;
import io.sparklog.planner.SparklogException;
import io.sparklog.read.task.TaskToRead;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * The tasks of a read. Python plans them at the first use, at one position of the chain, for a DataFrame's life. In a
 * streaming query, each micro-batch has a plan of its own, as with Spark's Kafka source: a topic that is joined with a
 * stream is read up to its present end.
 */
public final class PlannedRead {
  private static final int MOST_QUERIES = 64; // whose plans are kept, of those that join this DataFrame

  private final Map<String, String> options;
  private List<TaskToRead> ofDataFrame; // null before the first use outside a stream
  private final Map<String, Planned> ofQueries = // by id, the last used ones: without a checkpoint, each run has a new id
      new LinkedHashMap<>(MOST_QUERIES, 1f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Planned> eldest) {
          return size() > MOST_QUERIES;
        }
      };

  private record Planned(String microBatch, List<TaskToRead> tasks) {}

  public PlannedRead(Map<String, String> options) {
    this.options = options;
  }

  Map<String, String> options() {
    return options;
  }

  /** The tasks for the thread that calls this: it plans a query, or a micro-batch of one. */
  synchronized List<TaskToRead> tasks() {
    String query = MicroBatchProperties.get(MicroBatchProperties.QUERY_ID);
    if (query == null) {
      if (ofDataFrame == null) {
        ofDataFrame = tasks(ask());
      }
      return ofDataFrame;
    }
    String microBatch = MicroBatchProperties.get(MicroBatchProperties.BATCH_ID);
    Planned last = ofQueries.get(query);
    if (last == null || !Objects.equals(last.microBatch(), microBatch)) {
      last = new Planned(microBatch, tasks(ask()));
      ofQueries.put(query, last);
    }
    return last.tasks();
  }

  private JsonNode ask() {
    JsonNode reply;
    try {
      reply = Planner.ofDriver().ask(Planner.request("plan_read", options));
    } catch (SparklogException error) {
      throw error.inDriver("plan");
    }
    Planner.logWarnings(reply, new HashSet<>());
    return reply;
  }

  /** The tasks in the planner's answer, of a batch or a micro-batch. */
  static List<TaskToRead> tasks(JsonNode reply) {
    List<TaskToRead> planned = new ArrayList<>();
    for (JsonNode task : reply.get("tasks")) {
      planned.add(TaskToRead.of(task));
    }
    return planned;
  }
}
