package io.sparklog.mirror;

import io.sparklog.planner.Planner;
import io.sparklog.planner.SparklogException;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.Function;

/** Copies ranges of Kafka partitions into objects, which the driver then commits, or compares them. Python calls `run`. */
public final class KafkaCopy {
  private KafkaCopy() {}

  /**
   * The results of the tasks, one {@link RangeCopy} for each range, in their order, as JSON: or what was wrong, as its
   * "error".
   *
   * @param plans in base64, by the names that ranges give them: Python's WritePlan, or its TaskToRead to compare
   * @param ranges each a KafkaRange as JSON
   * @param kafka the config of Kafka's consumer, which may have secrets
   */
  public static List<String> run(
      JavaSparkContext spark, Map<String, String> plans, List<String> ranges, Map<String, String> kafka) {
    Task task = new Task(Map.copyOf(plans), Map.copyOf(kafka), Planner.pythonCommand());
    return spark.parallelize(List.copyOf(ranges), ranges.size()).map(task).collect();
  }

  private record Task(Map<String, String> plans, Map<String, String> kafka, String python)
      implements Function<String, String> {
    @Override
    public String call(String json) {
      KafkaRange range = Planner.value(json, KafkaRange.class);
      try (RangeCopy copy = new RangeCopy(range, kafka, plans.get(range.plan()), python)) {
        return copy.run();
      } catch (Planner.Unanswered error) {
        throw error.inTask("mirror"); // another attempt asks another planner
      } catch (SparklogException error) { // the tasks of other ranges need not end with this one
        return Planner.JSON.createObjectNode().put("error", error.getMessage()).toString();
      }
    }

    @Override
    public String toString() {
      return "Task"; // that of a record would show the secrets
    }
  }

  /**
   * Offsets of a Kafka partition to copy, or to compare with a plan of those that are here.
   *
   * @param baseOffset the first offset that the copy covers
   * @param start the first that Kafka may have: those before it stay empty
   * @param end the offset after the last one
   * @param maxRecords the task ends after this many records
   * @param plan the name of the plan
   * @param purpose what the batches are for
   */
  record KafkaRange(
      String topic,
      int partition,
      long baseOffset,
      long start,
      long end,
      long maxRecords,
      String plan,
      BatchPurpose purpose) {}

  /**
   * The purpose of the batches of a task.
   *
   * @param request the planner's request that takes them
   * @param topicId of the topic here
   * @param alwaysOffsets all batches store offsets, not only those from the first empty offset on
   */
  record BatchPurpose(
      String request,
      int topicId,
      String compression,
      int smallBatchBytes,
      long maxMessageBytes,
      boolean needsKey,
      boolean alwaysOffsets) {}
}
