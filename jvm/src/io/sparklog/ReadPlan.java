package io.sparklog;

import com.fasterxml.jackson.databind.JsonNode;

/** The plan of a task, the columns to read, and the bounds of what the query can use. */
record ReadPlan(TaskToRead task, String[] columns, Bounds bounds, JsonNode json) {
  ReadPlan(TaskToRead task, String[] columns, Bounds bounds) {
    this(task, columns, bounds, task.json());
  }

  JsonNode ranges() {
    return json.get("ranges");
  }
}
