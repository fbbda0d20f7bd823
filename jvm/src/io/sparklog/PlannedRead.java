package io.sparklog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The tasks of a read. Python plans them at the first use, at one position of the chain, for a DataFrame's life. In a
 * streaming query, each micro-batch has a plan of its own, as with Spark's Kafka source: a topic that is joined with a
 * stream is read up to its present end.
 */
final class PlannedRead {
  private static final Logger LOG = LoggerFactory.getLogger("sparklog");
  private static final String QUERY = "sql.streaming.queryId"; // what Spark sets in the thread of a stream
  private static final String MICRO_BATCH = "streaming.sql.batchId";

  private final Map<String, String> options;
  private final Map<String, Planned> planned = new HashMap<>(); // by streaming query; "" outside one

  private record Planned(String microBatch, List<TaskToRead> tasks) {}

  PlannedRead(Map<String, String> options) {
    this.options = options;
  }

  Map<String, String> options() {
    return options;
  }

  /** The tasks for the thread that calls this: it plans a query, or a micro-batch of one. */
  synchronized List<TaskToRead> tasks() {
    String query = property(QUERY);
    String microBatch = property(MICRO_BATCH);
    Planned last = planned.get(query);
    if (last == null || !last.microBatch().equals(microBatch)) {
      last = new Planned(microBatch, tasks(ask()));
      planned.put(query, last);
    }
    return last.tasks();
  }

  private static String property(String name) {
    String value = SparkContext.getOrCreate().getLocalProperty(name);
    return value == null ? "" : value;
  }

  private JsonNode ask() {
    JsonNode reply;
    try {
      reply = Planner.ofDriver().ask(Planner.request("plan_read", options));
    } catch (SparklogException error) {
      throw error.inDriver("plan");
    }
    reply.get("warnings").forEach(warning -> LOG.warn("{}", warning.asText()));
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
