package io.sparklog.read.task;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** The counters of a task's reads, which Spark's UI sums up for each scan. */
public final class ReadMetrics {
  long bytes;
  long requests;
  long rangesInPython;

  /** The counters of a scan. */
  public static CustomMetric[] all() {
    return new CustomMetric[] {new Bytes(), new Requests(), new RangesInPython()};
  }

  /** The counters now. */
  CustomTaskMetric[] values() {
    return new CustomTaskMetric[] {
      new Value(Bytes.NAME, bytes), new Value(Requests.NAME, requests), new Value(RangesInPython.NAME, rangesInPython)
    };
  }

  private record Value(String name, long value) implements CustomTaskMetric {}

  /** Bytes read from objects and indexes. Spark makes one by name, as of the others. */
  public static final class Bytes extends CustomSumMetric {
    static final String NAME = "bytesRead";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "bytes read from stores";
    }
  }

  /** Reads from objects and indexes. */
  public static final class Requests extends CustomSumMetric {
    static final String NAME = "requests";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "reads from stores";
    }
  }

  /** Ranges that Java left to Python. */
  public static final class RangesInPython extends CustomSumMetric {
    static final String NAME = "rangesInPython";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "ranges read by Python";
    }
  }
}
