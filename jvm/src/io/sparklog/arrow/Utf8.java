package io.sparklog.arrow;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CoderResult;
import java.nio.charset.StandardCharsets;
import org.apache.spark.unsafe.types.UTF8String;

/** Bytes that should be UTF-8, and may be others: as UTF8String.isValid and makeValid, which Spark 3.5 lacks. */
public final class Utf8 {
  private static final byte LEAD = (byte) 0xED; // of a surrogate, whose bytes Java takes for one fault
  private static final byte SECOND = (byte) 0xA0; // this or more, of a surrogate

  private Utf8() {}

  public static boolean isValid(byte[] bytes, int start, int length) {
    int at = start;
    while (at < start + length && bytes[at] >= 0) {
      at++; // ASCII, as nearly all are
    }
    int rest = start + length - at;
    return rest == 0 || !decode(ByteBuffer.wrap(bytes, at, rest), CharBuffer.allocate(rest)).isError();
  }

  /** The text of these bytes, with U+FFFD for what is not UTF-8. */
  static UTF8String text(byte[] bytes, int start, int length) {
    if (isValid(bytes, start, length)) {
      return UTF8String.fromBytes(bytes, start, length);
    }
    ByteBuffer from = ByteBuffer.wrap(bytes, start, length);
    CharBuffer to = CharBuffer.allocate(length);
    while (true) {
      CoderResult end = decode(from, to);
      if (!end.isError()) {
        return UTF8String.fromString(to.flip().toString());
      }
      to.put('\uFFFD');
      int at = from.position();
      boolean isSurrogate = end.length() > 1 && bytes[at] == LEAD && bytes[at + 1] >= SECOND;
      from.position(isSurrogate ? at + 1 : at + end.length());
    }
  }

  private static CoderResult decode(ByteBuffer from, CharBuffer to) {
    return StandardCharsets.UTF_8.newDecoder().decode(from, to, true);
  }
}
