package io.sparklog.planner;

import org.apache.spark.SparkContext;

/** The local properties by which Spark names the micro-batch that a thread works on, as in stream_writer.py. */
public final class MicroBatchProperties {
  public static final String QUERY_ID = "sql.streaming.queryId";
  public static final String BATCH_ID = "streaming.sql.batchId";
  public static final String RUN_ID = "spark.jobGroup.id";

  private MicroBatchProperties() {}

  /** The property of the thread that calls this; null if it has none. */
  public static String get(String name) {
    return SparkContext.getOrCreate().getLocalProperty(name);
  }
}
