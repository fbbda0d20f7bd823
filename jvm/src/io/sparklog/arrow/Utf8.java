package io.sparklog.arrow;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import org.apache.spark.unsafe.types.UTF8String;

/** Bytes that should be UTF-8, and may be others. (Spark 3.5 has no methods for them.) */
public final class Utf8 {
  private Utf8() {}

  public static boolean isValid(byte[] bytes, int start, int length) {
    int at = start;
    while (at < start + length && bytes[at] >= 0) {
      at++; // ASCII, as nearly all are
    }
    try {
      StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes, at, start + length - at));
      return true;
    } catch (CharacterCodingException error) {
      return false;
    }
  }

  /** The text of these bytes, with U+FFFD for each that is not UTF-8. */
  static UTF8String text(byte[] bytes, int start, int length) {
    return isValid(bytes, start, length)
        ? UTF8String.fromBytes(bytes, start, length)
        : UTF8String.fromString(new String(bytes, start, length, StandardCharsets.UTF_8));
  }
}
