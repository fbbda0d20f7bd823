package io.sparklog.write.task;

import io.sparklog.arrow.IpcFile;
import io.sparklog.planner.Planner;
import java.util.List;
import java.util.Map;

/**
 * The plan of a write, which all its tasks share.
 *
 * @param topic the topic of all rows; null if each names its own
 * @param topics by name: those that the cluster had when the write began, as far as rows may name them
 * @param lagTimeMaxMs the time for which one store may delay a task, in milliseconds
 * @param byPython true if Java can't write to one of the stores, and Spark has no data source in Python to do it
 * @param plan the same for a planner that words an error or writes
 */
record WritePlan(
    long n0,
    String topic,
    Map<String, Topic> topics,
    long lagTimeMaxMs,
    Limits limits,
    IpcFile.Format object,
    IpcFile.Format index,
    boolean byPython,
    String plan) {

  /** The plan in JSON. Throws IllegalStateException if it is another sparklog's. */
  static WritePlan of(String json) {
    return Planner.value(json, WritePlan.class);
  }

  /**
   * A topic to write to. Partition p goes to all stores of `storeSets[setOf[p]]`, or to those of the only set.
   *
   * @param oldestUs the earliest timestamp that it takes; null: any
   * @param newestUs the latest one
   * @param rowsToGather the number of records after which those without a key go to the next partition
   */
  record Topic(
      int id,
      int partitions,
      List<List<Store>> storeSets,
      int[] setOf,
      long maxMessageBytes,
      String compression,
      boolean needsKey,
      Long oldestUs,
      Long newestUs,
      int rowsToGather) {

    /** The number of the set of stores that a partition goes to. */
    int setOf(int partition) {
      return setOf.length == 0 ? 0 : setOf[partition];
    }

    boolean takesTimestamp(long timestampUs) {
      return (oldestUs == null || timestampUs >= oldestUs) && (newestUs == null || timestampUs <= newestUs);
    }
  }

  /** A store, and its registration and INCARNATION when the write began. */
  record Store(String id, int registration, String url, String incarnation) {}

  /**
   * The amounts that a task may hold at each stage: WriterLimits of log/write/task_memory.py, which has more.
   *
   * @param largestBatchBytes a batch may have this many before it is encoded, unless it is a single record
   * @param smallBatchBytes a batch with fewer is not compressed
   */
  record Limits(
      long fullBatchBytes,
      long largestBatchBytes,
      long smallestFullBatchBytes,
      int smallBatchBytes,
      long objectBytes,
      long streamedFromBytes,
      int uploadAttempts) {

    /** The bytes at which a partition's pending rows are encoded. */
    long bytesToEncode(int openPartitions) {
      return Math.min(fullBatchBytes, Math.max(smallestFullBatchBytes, objectBytes / Math.max(1, openPartitions)));
    }
  }
}
