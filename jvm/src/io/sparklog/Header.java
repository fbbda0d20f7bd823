package io.sparklog;

/** A header of a record to be written. Key and value may be null. */
record Header(byte[] key, byte[] value) {
  int sizeBytes() {
    return (key == null ? 0 : key.length) + (value == null ? 0 : value.length);
  }
}
