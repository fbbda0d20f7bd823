package io.sparklog;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * The ranges of one task, as the planner wrote them (JSON). It holds no secrets.
 *
 * @param python the Python that reads what Java cannot
 * @param records the records that it has at least
 * @param bytes the stored bytes of its slices
 */
record TaskToRead(String python, String plan, long records, long bytes) implements InputPartition {
  /** The task that a planner has planned. */
  static TaskToRead of(JsonNode task) {
    long records = 0;
    long bytes = 0;
    for (JsonNode range : task.get("ranges")) {
      for (JsonNode slice : range.get("slices")) {
        long before = Math.max(0, range.get("start").asLong() - slice.get("start").asLong());
        long after = Math.max(0, slice.get("end").asLong() - range.get("end").asLong());
        records += Math.max(0, slice.get("records").asLong() - before - after);
        bytes += slice.get("length").asLong();
      }
    }
    boolean mayLack = !task.get("fail_on_data_loss").asBoolean(); // records that are gone are no error then
    return new TaskToRead(Planner.pythonCommand(), task.toString(), mayLack ? 0 : records, bytes);
  }

  JsonNode ranges() {
    return json().get("ranges");
  }

  /** The plan. It is parsed anew at each call. */
  JsonNode json() {
    try {
      return Planner.JSON.readTree(plan);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }
}
