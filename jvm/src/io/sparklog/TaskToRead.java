package io.sparklog;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * The ranges of one task, as the planner wrote them (JSON). It holds no secrets.
 *
 * @param python the Python that reads what Java cannot
 */
record TaskToRead(String python, String plan) implements InputPartition {
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
