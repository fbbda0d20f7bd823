package io.sparklog.read.task;

import io.sparklog.planner.Planner;
import java.util.List;
import java.util.Map;

/**
 * One task as the planner has planned it.
 *
 * @param task the same for a planner that must read on
 */
record ReadTask(
    List<Range> ranges, Map<String, Store> stores, Limits limits, boolean failOnDataLoss, String task) {

  /**
   * Offsets [start, end) of a partition.
   *
   * @param lost some were given up, so Python decides whether that is an error
   */
  record Range(String topic, int partition, long start, long end, boolean lost, List<Slice> slices) {}

  /**
   * A slice of an object.
   *
   * @param holders the stores that have the object, in the order in which to ask them
   * @param appendTimeUs the timestamp of all records; null if each has its own
   */
  record Slice(
      int topicId,
      int partition,
      long start,
      long end,
      long records,
      long position,
      long length,
      int firstBatch,
      int batches,
      String key,
      String indexKey,
      int indexSizeBytes,
      long indexCrc32c,
      List<String> holders,
      long minTimestampUs,
      long maxTimestampUs,
      int timestampType,
      Long appendTimeUs) {

    /** True if some offsets have no record. The others are in a column of the object then. */
    boolean isCompacted() {
      return records != end - start;
    }
  }

  /**
   * The amounts of a read, as in Python.
   *
   * @param rangedReadBytes of one read of neighbouring batches
   * @param rowsWithoutBody of a batch if no column is stored
   * @param failedForMs the time for which a store that has failed is asked last
   */
  record Limits(int rangedReadBytes, int rowsWithoutBody, long failedForMs) {}

  /** Where a store is, and its zone: "" if none. */
  record Store(String url, String zone) {}

  /** The address of the store that has this slice, and is asked first. */
  String holder(Slice slice) {
    return stores.get(slice.holders().get(0)).url();
  }

  /** The task in JSON. Throws IllegalStateException if it is another sparklog's. */
  static ReadTask of(String json) {
    return Planner.value(json, ReadTask.class);
  }
}
