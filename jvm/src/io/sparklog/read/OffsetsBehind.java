package io.sparklog.read;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import io.sparklog.planner.Planner;
import java.util.LongSummaryStatistics;
import java.util.Map;
import org.apache.spark.sql.connector.read.streaming.Offset;

/** How far a stream is behind the end of its log, for the progress of its query. */
final class OffsetsBehind {
  private OffsetsBehind() {}

  /** The metrics of Spark's Kafka source, over the partitions at `newest`. Empty if one of the offsets is unknown. */
  static Map<String, String> metrics(Offset consumed, Offset newest) {
    if (consumed == null || newest == null) {
      return Map.of();
    }
    JsonNode before = parsed(consumed);
    JsonNode now = parsed(newest);
    LongSummaryStatistics behind = new LongSummaryStatistics();
    JsonNode ends = now.path("offsets");
    for (String topic : (Iterable<String>) ends::fieldNames) {
      JsonNode partitions = ends.get(topic);
      // A topic that was created again is another one, and is read from its beginning.
      boolean isSame = before.path("topic_ids").path(topic).equals(now.path("topic_ids").path(topic));
      JsonNode at = before.path(isSame ? "offsets" : "").path(topic);
      for (String partition : (Iterable<String>) partitions::fieldNames) {
        JsonNode from = at.path(partition);
        behind.accept(partitions.get(partition).asLong() - from.asLong(0)); // a new partition is read from its beginning
      }
    }
    return behind.getCount() == 0
        ? Map.of()
        : Map.of(
            "minOffsetsBehindLatest", Long.toString(behind.getMin()),
            "maxOffsetsBehindLatest", Long.toString(behind.getMax()),
            "avgOffsetsBehindLatest", Double.toString(behind.getAverage()));
  }

  private static JsonNode parsed(Offset offset) {
    try {
      return Planner.JSON.readTree(offset.json());
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }
}
