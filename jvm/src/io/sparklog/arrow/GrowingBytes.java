package io.sparklog.arrow;

import java.util.Arrays;

/** Bytes that grow at their end. Numbers are little-endian, as Arrow has them. */
public final class GrowingBytes {
  private static final int MOST_BYTES = Integer.MAX_VALUE - 16; // of a Java array
  private static final int FIRST_BYTES = 64;

  byte[] bytes;
  int size;

  public GrowingBytes() {
    this(FIRST_BYTES);
  }

  /** With room for so many bytes, after which it grows. */
  GrowingBytes(int room) {
    bytes = new byte[room];
  }

  // In each, `more` comes before `bytes` is read, because it may replace the array.

  void add(byte value) {
    int at = more(1);
    bytes[at] = value;
  }

  void add(int value) {
    int at = more(4);
    LittleEndian.set(bytes, at, value);
  }

  void add(long value) {
    int at = more(8);
    LittleEndian.set(bytes, at, value);
  }

  public void add(byte[] from, int length) {
    add(from, 0, length);
  }

  void add(byte[] from, int start, int length) {
    int at = more(length);
    System.arraycopy(from, start, bytes, at, length);
  }

  void addZeros(int length) {
    int at = more(length);
    Arrays.fill(bytes, at, size, (byte) 0);
  }

  /** Overwrite 4 bytes. */
  void set(int at, int value) {
    LittleEndian.set(bytes, at, value);
  }

  /** Overwrite 8 bytes. */
  void set(int at, long value) {
    LittleEndian.set(bytes, at, value);
  }

  /** Make room for some more bytes, and return where they begin. The caller then sets `size`. */
  int reserve(int length) {
    int at = more(length);
    size = at;
    return at;
  }

  public byte[] copy() {
    return Arrays.copyOf(bytes, size);
  }

  private int more(int length) {
    int at = size;
    int wanted = Math.addExact(at, length);
    if (wanted > bytes.length) {
      long half = bytes.length + (bytes.length >> 1);
      bytes = Arrays.copyOf(bytes, (int) Math.max(wanted, Math.min(half, MOST_BYTES)));
    }
    size = wanted;
    return at;
  }
}
