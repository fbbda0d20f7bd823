package io.sparklog.storage;

import java.io.IOException;
import java.util.UUID;

/** An object that is being written to a store: in the end it is there as a whole, durably, or not at all. */
public interface ObjectUpload {
  /** Append bytes. */
  void write(byte[] bytes, int length) throws IOException;

  /** Give the object its key, unless that is taken. After an error it may be there or not. */
  void publish() throws IOException;

  /** Drop what was written. Legal at any time; does nothing after `publish`. */
  void abort();

  /** A new name: 32 hex digits. */
  static String newId() {
    return UUID.randomUUID().toString().replace("-", "");
  }
}
