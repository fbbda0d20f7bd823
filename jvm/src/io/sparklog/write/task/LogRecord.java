package io.sparklog.write.task;

import io.sparklog.arrow.GrowingColumn.Header;
import io.sparklog.arrow.Utf8;

/** A record to be written. All but the timestamp may be null, as may each header. */
record LogRecord(byte[] key, byte[] value, Header[] headers, long timestampUs) {
  /** True if each header has a key that is UTF-8. */
  boolean hasHeaderKeys() {
    if (headers != null) {
      for (Header header : headers) {
        if (header == null || header.key() == null || !Utf8.isValid(header.key(), 0, header.key().length)) {
          return false;
        }
      }
    }
    return true;
  }

  /** The bytes of key, value and headers, which `max.message.bytes` limits. */
  long sizeBytes() {
    long size = (key == null ? 0 : key.length) + (value == null ? 0L : value.length);
    if (headers != null) {
      for (Header header : headers) {
        size += header == null ? 0 : header.sizeBytes();
      }
    }
    return size;
  }
}
