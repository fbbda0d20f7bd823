package io.sparklog.read.task;

import com.fasterxml.jackson.databind.JsonNode;
import io.sparklog.planner.Planner;
import io.sparklog.storage.ObjectBytes;
import java.io.Serializable;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * One task of a read, to be sent to an executor. It holds no secrets.
 *
 * @param python the Python that reads what Java cannot
 * @param json its {@link ReadTask}
 * @param records the records that it has at least
 * @param bytes the stored bytes of its slices
 * @param first its first slice that a store has; null if there is none
 */
public record TaskToRead(String python, String json, long records, long bytes, First first) implements InputPartition {
  /** Bytes [position, position + length) of the object at an address. */
  record First(String address, long position, long length) implements Serializable {}

  /** The task that a planner has planned. */
  public static TaskToRead of(JsonNode json) {
    ReadTask plan = Planner.value(json, ReadTask.class);
    long records = 0;
    long bytes = 0;
    First first = null;
    for (ReadTask.Range range : plan.ranges()) {
      for (ReadTask.Slice slice : range.slices()) {
        long before = Math.max(0, range.start() - slice.start());
        long after = Math.max(0, slice.end() - range.end());
        records += Math.max(0, slice.records() - before - after);
        bytes += slice.length();
        if (first == null && !slice.holders().isEmpty()) {
          first = new First(plan.holder(slice) + "/" + slice.key(), slice.position(), slice.length());
        }
      }
    }
    boolean mayLack = !plan.failOnDataLoss(); // records that are gone are no error then
    return new TaskToRead(Planner.pythonCommand(), json.toString(), mayLack ? 0 : records, bytes, first);
  }

  /** The hosts that hold the first bytes, on HDFS. Other stores are as far from one executor as from another. */
  @Override
  public String[] preferredLocations() {
    return first == null ? new String[0] : ObjectBytes.hosts(first.address(), first.position(), first.length());
  }

  /** The plan. It is parsed anew at each call. */
  ReadTask plan() {
    return ReadTask.of(json);
  }
}
