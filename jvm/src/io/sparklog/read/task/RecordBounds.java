package io.sparklog.read.task;

import java.io.Serializable;
import java.sql.Timestamp;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;

/**
 * The records that the filters of a query can let through, as far as the plan shows it: by topic, partition, offset and
 * timestamp. Spark evaluates the filters again, so a read may give more records than these, but not fewer.
 */
public final class RecordBounds implements Serializable {
  // Before, java.sql.Timestamp has another calendar than Spark; beyond the other one, microseconds may overflow.
  private static final Instant ONE_CALENDAR = Instant.parse("1900-01-01T00:00:00Z");
  private static final Instant FAR = Instant.parse("9999-12-31T00:00:00Z");

  private Set<String> topics; // null: all
  private Set<Integer> partitions; // null: all
  private final Span offsets = new Span();
  private final Span timestampsUs = new Span();
  private final List<Filter> used = new ArrayList<>();

  /** Numbers from `low` to `high`, both inclusive. */
  private static final class Span implements Serializable {
    long low = Long.MIN_VALUE;
    long high = Long.MAX_VALUE;

    void atLeast(long value) {
      low = Math.max(low, value);
    }

    void atMost(long value) {
      high = Math.min(high, value);
    }
  }

  /** Keep to these filters, which all must hold. Others are left to Spark. */
  public void add(Filter[] filters) {
    for (Filter filter : filters) {
      if (isUsed(filter)) {
        used.add(filter);
      }
    }
  }

  /** The filters that were understood. */
  public Filter[] used() {
    return used.toArray(Filter[]::new);
  }

  /** The first offset of a range that may be let through. */
  long start(ReadTask.Range range) {
    return Math.max(range.start(), offsets.low);
  }

  /** The offset after the last one of a range that may be let through. Not after `start` if there is none. */
  long end(ReadTask.Range range) {
    boolean isOther =
        topics != null && !topics.contains(range.topic())
            || partitions != null && !partitions.contains(range.partition());
    long end = range.end();
    return isOther ? Long.MIN_VALUE : offsets.high == Long.MAX_VALUE ? end : Math.min(end, offsets.high + 1);
  }

  /** True if the slice may have records with such timestamps. */
  boolean mayHave(ReadTask.Slice slice) {
    return slice.minTimestampUs() <= timestampsUs.high
        && slice.maxTimestampUs() >= timestampsUs.low;
  }

  /** True if a task may have records that are let through. */
  public boolean mayHave(TaskToRead task) {
    if (used.isEmpty()) {
      return true; // without parsing the task
    }
    for (ReadTask.Range range : task.plan().ranges()) {
      if (start(range) < end(range)) {
        return true;
      }
    }
    return false;
  }

  private boolean isUsed(Filter filter) {
    if (filter instanceof EqualTo equal) {
      return isOneOf(equal.attribute(), new Object[] {equal.value()});
    }
    if (filter instanceof In in) {
      return isOneOf(in.attribute(), in.values());
    }
    if (filter instanceof GreaterThanOrEqual atLeast) {
      return isBound(atLeast.attribute(), atLeast.value(), true);
    }
    if (filter instanceof GreaterThan greater) {
      return isBound(greater.attribute(), greater.value(), true);
    }
    if (filter instanceof LessThanOrEqual atMost) {
      return isBound(atMost.attribute(), atMost.value(), false);
    }
    return filter instanceof LessThan less && isBound(less.attribute(), less.value(), false);
  }

  private boolean isOneOf(String column, Object[] values) {
    if (column.equals("topic") && Arrays.stream(values).allMatch(String.class::isInstance)) {
      topics = common(topics, Arrays.asList(Arrays.copyOf(values, values.length, String[].class)));
      return true;
    }
    if (column.equals("partition") && Arrays.stream(values).allMatch(Integer.class::isInstance)) {
      partitions = common(partitions, Arrays.asList(Arrays.copyOf(values, values.length, Integer[].class)));
      return true;
    }
    return values.length == 1 && isBound(column, values[0], true) && isBound(column, values[0], false);
  }

  private boolean isBound(String column, Object value, boolean isLow) {
    Long number = number(value);
    Span span = column.equals("offset") ? offsets : column.equals("timestamp") ? timestampsUs : null;
    if (span == null || number == null) {
      return false;
    }
    if (isLow) {
      span.atLeast(number);
    } else {
      span.atMost(number);
    }
    return true;
  }

  /** A value as the plan has it: offsets as they are, points in time in microseconds. Null for other values. */
  private static Long number(Object value) {
    if (value instanceof Long number) {
      return number;
    }
    Instant time = value instanceof Timestamp stamp ? stamp.toInstant() : value instanceof Instant at ? at : null;
    if (time == null || time.isBefore(ONE_CALENDAR) || time.isAfter(FAR)) {
      return null;
    }
    return time.getEpochSecond() * 1_000_000L + time.getNano() / 1000;
  }

  private static <T> Set<T> common(Set<T> before, List<T> values) {
    Set<T> both = new HashSet<>(values);
    if (before != null) {
      both.retainAll(before);
    }
    return both;
  }
}
