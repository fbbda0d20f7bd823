package io.sparklog.write.task;

import io.sparklog.arrow.Encoder;
import io.sparklog.arrow.GrowingColumn;

/** Rows of one partition that wait to be encoded as one batch. */
final class PendingRows {
  private static final int ROW_BYTES = 16; // of timestamp and offsets, on top of key, value and headers
  private static final int HEADER_BYTES = 8; // of a header's offsets, on top of its key and value

  /** A batch of one partition as an Arrow message. Both timestamps are inclusive. */
  record Encoded(int partition, byte[] message, int records, long minTimestampUs, long maxTimestampUs) {}

  private final GrowingColumn.Strings key = new GrowingColumn.Strings();
  private final GrowingColumn.Strings value = new GrowingColumn.Strings();
  private final GrowingColumn.Headers headers = new GrowingColumn.Headers();
  private final GrowingColumn.Numbers timestamp = new GrowingColumn.Numbers();
  private long sizeBytes;
  private long minTimestampUs;
  private long maxTimestampUs;

  /** The size of one record before it is encoded. */
  static long sizeOf(LogRecord row) {
    int headers = row.headers() == null ? 0 : row.headers().length;
    return row.sizeBytes() + ROW_BYTES + (long) HEADER_BYTES * headers;
  }

  void add(LogRecord row) {
    boolean isFirst = timestamp.rows() == 0;
    minTimestampUs = isFirst ? row.timestampUs() : Math.min(minTimestampUs, row.timestampUs());
    maxTimestampUs = isFirst ? row.timestampUs() : Math.max(maxTimestampUs, row.timestampUs());
    key.add(row.key());
    value.add(row.value());
    headers.add(row.headers());
    timestamp.add(row.timestampUs());
    sizeBytes += sizeOf(row);
  }

  /** The size of the rows before they are encoded. */
  long sizeBytes() {
    return sizeBytes;
  }

  /** Encode all rows, at least one, and forget them. */
  Encoded encode(int topicId, int partition, Encoder encoder) {
    int rows = timestamp.rows();
    byte[] message = encoder.encode(topicId, partition, rows, key, value, headers, timestamp);
    for (GrowingColumn column : new GrowingColumn[] {key, value, headers, timestamp}) {
      column.clear();
    }
    sizeBytes = 0;
    return new Encoded(partition, message, rows, minTimestampUs, maxTimestampUs);
  }
}
