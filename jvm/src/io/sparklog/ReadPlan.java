package io.sparklog;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;

/** The plan of a task, and the columns to read. */
record ReadPlan(TaskToRead task, String[] columns, JsonNode json) {
  ReadPlan(TaskToRead task, String[] columns) {
    this(task, columns, parse(task.plan()));
  }

  JsonNode ranges() {
    return json.get("ranges");
  }

  private static JsonNode parse(String text) {
    try {
      return Planner.JSON.readTree(text);
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }
}
