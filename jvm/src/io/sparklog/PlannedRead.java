package io.sparklog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
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
      tasks = ask(Planner.request("plan_read", options));
    }
    return tasks;
  }

  /** The tasks that the planner answers. */
  static List<TaskToRead> ask(ObjectNode request) {
    JsonNode reply;
    try {
      reply = Planner.ofDriver().ask(request);
    } catch (SparklogException error) {
      throw error.inDriver("plan");
    }
    reply.get("warnings").forEach(warning -> LOG.warn("{}", warning.asText()));
    List<TaskToRead> planned = new ArrayList<>();
    for (JsonNode task : reply.get("tasks")) {
      planned.add(TaskToRead.of(task));
    }
    return planned;
  }
}
