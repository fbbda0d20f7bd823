package io.sparklog.read;

import org.apache.spark.sql.connector.read.streaming.Offset;

/** Prints how many offsets a stream is behind: `Behind CONSUMED NEWEST`, both as in a checkpoint. */
final class Behind {
  public static void main(String[] arguments) {
    System.out.print(OffsetsBehind.metrics(at(arguments[0]), at(arguments[1])).get("maxOffsetsBehindLatest"));
  }

  private static Offset at(String json) {
    return new Offset() {
      @Override
      public String json() {
        return json;
      }
    };
  }
}
