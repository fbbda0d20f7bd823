package io.sparklog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The tasks of a read. Python plans them at the first use, at one position of the chain, for a DataFrame's life. */
final class PlannedRead {
  private static final Logger LOG = LoggerFactory.getLogger("sparklog");

  private final Map<String, String> options;
  private List<TaskToRead> tasks;

  PlannedRead(Map<String, String> options) {
    this.options = options;
  }

  Map<String, String> options() {
    return options;
  }

  synchronized List<TaskToRead> tasks() {
    if (tasks == null) {
      tasks = tasks(ask());
    }
    return tasks;
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
