package io.sparklog;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The plan of a write, as the planner wrote it (JSON): what it calls `_TaskPlan`. */
final class WritePlan {
  private final JsonNode json;
  final Limits limits;

  /** A topic to write to. Partition p goes to store `storeOf[p]` of `stores`, or to the only one. */
  record Topic(
      String name,
      int id,
      int partitions,
      List<Store> stores,
      int[] storeOf,
      long maxMessageBytes,
      String compression,
      boolean needsKey,
      long oldestUs,
      long newestUs) {
    private static Topic of(String name, JsonNode json) {
      List<Store> stores = new ArrayList<>();
      json.get("stores").forEach(store -> stores.add(Store.of(store)));
      int[] storeOf = new int[json.get("store_of").size()];
      Arrays.setAll(storeOf, partition -> json.get("store_of").get(partition).asInt());
      return new Topic(
          name,
          json.get("id").asInt(),
          json.get("partitions").asInt(),
          stores,
          storeOf,
          json.get("max_message_bytes").asLong(),
          json.get("compression").asText(),
          json.get("needs_key").asBoolean(),
          json.get("oldest_us").asLong(Long.MIN_VALUE),
          json.get("newest_us").asLong(Long.MAX_VALUE));
    }

    /** The number of the store that a partition goes to. */
    int storeOf(int partition) {
      return storeOf.length == 0 ? 0 : storeOf[partition];
    }
  }

  /** A store, and its registration and INCARNATION when the write began. */
  record Store(String id, int registration, String url, String incarnation) {
    private static Store of(JsonNode json) {
      return new Store(
          json.get("id").asText(),
          json.get("registration").asInt(),
          json.get("url").asText(),
          json.get("incarnation").asText());
    }
  }

  /** The amounts that a task may hold at each stage: WriterLimits of log/write/task_objects.py. */
  record Limits(
      long fullBatchBytes,
      long smallestFullBatchBytes,
      long objectBytes,
      long streamedFromBytes,
      int gatherRows,
      int gatherRowsPerPartition,
      int mostGatheredRows) {
    static Limits of(JsonNode json) {
      return new Limits(
          json.get("full_batch_bytes").asLong(),
          json.get("smallest_full_batch_bytes").asLong(),
          json.get("object_bytes").asLong(),
          json.get("streamed_from_bytes").asLong(),
          json.get("gather_rows").asInt(),
          json.get("gather_rows_per_partition").asInt(),
          json.get("most_gathered_rows").asInt());
    }

    /** A batch may have this many bytes before it is encoded, unless it is a single record. */
    long largestBatchBytes() {
      return fullBatchBytes * 4 / 3;
    }

    /** The bytes at which a partition's pending rows are encoded. */
    long enoughBytes(int pendingPartitions) {
      return Math.min(fullBatchBytes, Math.max(smallestFullBatchBytes, objectBytes / Math.max(1, pendingPartitions)));
    }

    /** The number of records after which those without a key go to the next partition. */
    int enoughRows(int partitions) {
      return (int) Math.min(Math.max(gatherRows, (long) gatherRowsPerPartition * partitions), mostGatheredRows);
    }
  }

  WritePlan(String text) {
    try {
      json = Planner.JSON.readTree(text);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
    limits = Limits.of(json.get("limits"));
  }

  /** The topic of all rows; null if each names its own. */
  String topic() {
    return json.get("topic").textValue();
  }

  /** The topic of this name; null if the cluster had none when the write began. */
  Topic topic(String name) {
    JsonNode topic = json.get("topics").get(name);
    return topic == null ? null : Topic.of(name, topic);
  }

  long n0() {
    return json.get("n0").asLong();
  }

  JsonNode objectFormat() {
    return json.get("object");
  }

  JsonNode indexFormat() {
    return json.get("index");
  }

  /** The plan in the form in which the planner reads it. */
  String forPlanner() {
    return json.get("plan").textValue();
  }
}
