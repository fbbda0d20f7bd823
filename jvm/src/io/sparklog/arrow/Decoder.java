package io.sparklog.arrow;

import com.github.luben.zstd.ZstdDecompressCtx;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.arrow.flatbuf.BodyCompression;
import org.apache.arrow.flatbuf.Buffer;
import org.apache.arrow.flatbuf.CompressionType;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.flatbuf.MessageHeader;
import org.apache.arrow.flatbuf.MetadataVersion;
import org.apache.arrow.flatbuf.RecordBatch;

/**
 * Decodes Arrow record batch messages (Arrow Columnar Format, "Encapsulated message format"): only the wanted columns
 * are decompressed. Memory is reused: a batch is valid until the next one is decoded. One per task, not thread-safe.
 *
 * <p>All access is to Java arrays, so wrong bytes can lead to an exception, but never beyond a buffer.
 */
public final class Decoder implements AutoCloseable {
  private static final int CONTINUATION = -1;
  // As in message_decoder.py: what a codec can pack into a byte, and what fits into an array
  private static final long ZSTD_MOST_RATIO = 1 << 15;
  private static final long LZ4_MOST_RATIO = 255;
  private static final long MOST_BYTES = Integer.MAX_VALUE - 8;
  private static final long LARGEST_BATCH_BYTES = 1L << 32;
  private static final long MOST_KEPT_BYTES = 64 << 20; // for the next batch: several large ones must not add up
  private static final int ALIGNMENT = 8;
  private static final int PREFIX_BYTES = 8; // the length before each compressed buffer

  private static final LogVector.Bytes NO_BYTES =
      new LogVector.Bytes(null, new Span(new byte[4], 0, 4), new Span(new byte[0], 0, 0), 0);

  private final Map<Integer, byte[]> scratch = new HashMap<>(); // by the number of the buffer
  private ZstdDecompressCtx zstd;

  /** A decoded batch: vectors by column name. */
  public record Batch(int rows, Map<String, LogVector> columns) {
    /** The vectors of these columns. */
    public LogVector[] columns(String... names) {
      return Arrays.stream(names).map(columns::get).toArray(LogVector[]::new);
    }
  }

  /** The message in bytes [start, start + length), whose columns are those of `layout`. */
  public Batch decode(byte[] bytes, int start, int length, Layout layout, String... wanted) throws DamagedException {
    if (scratch.values().stream().mapToLong(array -> array.length).sum() > MOST_KEPT_BYTES) {
      scratch.clear();
    }
    try {
      return new MessageDecoder(bytes, start, length).decode(layout, Set.of(wanted));
    } catch (RuntimeException error) { // flatbuffers and zstd-jni raise several kinds for wrong bytes
      throw new DamagedException(error.toString());
    }
  }

  @Override
  public void close() {
    if (zstd != null) {
      zstd.close();
      zstd = null;
    }
  }

  /** Bytes [start, start + length) of an array. */
  record Span(byte[] bytes, int start, int length) {}

  /** The metadata of a message, and where its body begins. */
  public record Metadata(Message message, int bodyStart) {}

  /** The metadata of the message in bytes [start, end), which has a header of this type. */
  public static Metadata metadata(byte[] bytes, int start, int end, byte type) throws DamagedException {
    DamagedException.unless(start >= 0 && end <= bytes.length && end - start >= PREFIX_BYTES, "a message that is cut");
    DamagedException.unless(LittleEndian.int32(bytes, start) == CONTINUATION, "no Arrow message");
    int length = LittleEndian.int32(bytes, start + 4);
    boolean fits = length > 0 && length <= end - start - PREFIX_BYTES && length % ALIGNMENT == 0;
    DamagedException.unless(fits, "metadata of " + length + " bytes");
    ByteBuffer metadata = ByteBuffer.wrap(bytes, start + PREFIX_BYTES, length).slice().order(ByteOrder.LITTLE_ENDIAN);
    Message message = Message.getRootAsMessage(metadata);
    DamagedException.unless(message.headerType() == type, "a message of type " + message.headerType());
    int version = message.version();
    DamagedException.unless(version == MetadataVersion.V4 || version == MetadataVersion.V5, "metadata of version " + version);
    int bodyStart = start + PREFIX_BYTES + length;
    long bodyLength = message.bodyLength();
    DamagedException.unless(bodyLength >= 0 && bodyLength <= end - bodyStart, "a body of " + bodyLength + " bytes");
    return new Metadata(message, bodyStart);
  }

  private final class MessageDecoder {
    private final byte[] bytes;
    private final int start;
    private final int bodyStart;
    private final int end;
    private final RecordBatch batch;
    private final byte codec; // -1: not compressed
    private final int rows;

    MessageDecoder(byte[] bytes, int start, int length) throws DamagedException {
      this.bytes = bytes;
      this.start = start;
      end = Math.addExact(start, length);
      Metadata opened = metadata(bytes, start, end, MessageHeader.RecordBatch);
      bodyStart = opened.bodyStart();
      batch = (RecordBatch) opened.message().header(new RecordBatch());
      rows = Math.toIntExact(batch.length());
      DamagedException.unless(rows >= 0, "a batch of " + rows + " rows");
      BodyCompression compression = batch.compression();
      codec = compression == null ? -1 : compression.codec();
      boolean isKnown = codec >= -1 && codec <= CompressionType.ZSTD && (codec != -1 || compression == null);
      DamagedException.unless(isKnown, "codec " + codec);
    }

    Batch decode(Layout layout, Set<String> wanted) throws DamagedException {
      checkClaims(layout, wanted);
      Map<String, LogVector> columns = new HashMap<>();
      int node = 0;
      int buffer = 0;
      for (int i = 0; i < layout.names().size(); i++) {
        Layout.Kind kind = layout.kinds().get(i);
        if (wanted.contains(layout.names().get(i))) {
          columns.put(layout.names().get(i), column(kind, node, buffer));
        }
        node += kind.nodes;
        buffer += kind.buffers;
      }
      DamagedException.unless(node == batch.nodesLength() && buffer == batch.buffersLength(), "columns of another schema");
      return new Batch(rows, columns);
    }

    /** Refuse large claims before memory is allocated: small buffers may claim much, and several may share bytes. */
    private void checkClaims(Layout layout, Set<String> wanted) throws DamagedException {
      if (codec == -1) {
        return;
      }
      long claimed = 0;
      int first = 0;
      for (int i = 0; i < layout.names().size(); i++) {
        int next = first + layout.kinds().get(i).buffers;
        for (int buffer = first; buffer < next && wanted.contains(layout.names().get(i)); buffer++) {
          claimed = Math.addExact(claimed, claimedBytes(batch.buffers(buffer)));
        }
        first = next;
      }
      long packable = ratio() * (end - start);
      DamagedException.unless(claimed <= Math.min(LARGEST_BATCH_BYTES, packable), "buffers of " + claimed + " bytes");
    }

    /** The length that a buffer claims to have before compression. It is not checked yet. */
    private long claimedBytes(Buffer buffer) {
      boolean fits = buffer.offset() >= 0 && buffer.length() >= PREFIX_BYTES && buffer.length() <= end - bodyStart
          && buffer.offset() <= end - bodyStart - buffer.length();
      if (!fits) {
        return 0;
      }
      long length = LittleEndian.int64(bytes, bodyStart + (int) buffer.offset());
      return length == -1 ? buffer.length() - PREFIX_BYTES : Math.max(0, length);
    }

    private long ratio() {
      return codec == CompressionType.ZSTD ? ZSTD_MOST_RATIO : LZ4_MOST_RATIO;
    }

    private LogVector column(Layout.Kind kind, int node, int buffer) throws DamagedException {
      int length = length(node);
      DamagedException.unless(length == rows, "a column of " + length + " rows");
      return switch (kind) {
        case INT32 -> new LogVector.Int32s(neverNull(node), exactly(buffer + 1, 4L * rows), rows);
        case INT64 -> new LogVector.Int64s(neverNull(node), exactly(buffer + 1, 8L * rows), rows);
        case BYTES -> bytes(node, buffer);
        case HEADERS -> headers(node, buffer);
      };
    }

    private LogVector.Bytes bytes(int node, int buffer) throws DamagedException {
      int length = length(node);
      Span ends = exactly(buffer + 1, 4L * (length + 1));
      Span data = span(buffer + 2);
      checkAscending(ends, length, data.length());
      return new LogVector.Bytes(validity(node, buffer), ends, data, length);
    }

    private LogVector headers(int node, int buffer) throws DamagedException {
      Span ends = exactly(buffer + 1, 4L * (rows + 1));
      int elements = length(node + 1);
      checkAscending(ends, rows, elements);
      DamagedException.unless(length(node + 2) == elements && length(node + 3) == elements, "headers of different lengths");
      neverNull(node + 1);
      neverNull(node + 2);
      if (elements == 0) { // then their buffers may be anything
        neverNull(node + 3);
      }
      LogVector.Bytes key = elements == 0 ? NO_BYTES : bytes(node + 2, buffer + 3);
      LogVector.Bytes value = elements == 0 ? NO_BYTES : bytes(node + 3, buffer + 6);
      LogVector pairs = new LogVector.Pairs(null, key, value, elements);
      return new LogVector.Lists(validity(node, buffer), ends, pairs, rows);
    }

    private int length(int node) {
      return Math.toIntExact(batch.nodes(node).length());
    }

    /** The bits of the rows that are not null; null if no row is. */
    private Span validity(int node, int buffer) throws DamagedException {
      long nulls = batch.nodes(node).nullCount();
      if (nulls == 0) {
        return null;
      }
      int length = length(node);
      Span bits = exactly(buffer, (length + 7L) / 8);
      long ones = 0;
      for (int row = 0; row < length; row += 8) {
        int valid = bits.bytes()[bits.start() + (row >> 3)] & (length - row < 8 ? (1 << (length - row)) - 1 : 0xFF);
        ones += Integer.bitCount(valid);
      }
      DamagedException.unless(nulls == length - ones, (length - ones) + " nulls where " + nulls + " are named");
      return bits;
    }

    /** No bits: these are numbers, headers or keys of headers. */
    private Span neverNull(int node) throws DamagedException {
      DamagedException.unless(batch.nodes(node).nullCount() == 0, "nulls where there are none");
      return null;
    }

    private Span exactly(int buffer, long length) throws DamagedException {
      Span span = span(buffer);
      DamagedException.unless(length <= span.length(), "a buffer of " + span.length() + " bytes");
      return span;
    }

    private Span span(int number) throws DamagedException {
      Buffer buffer = batch.buffers(number);
      long start = Math.addExact((long) bodyStart, buffer.offset());
      boolean isInside = buffer.offset() >= 0 && buffer.length() >= 0 && buffer.length() <= end - start;
      DamagedException.unless(isInside, "a buffer out of bounds");
      DamagedException.unless(buffer.offset() % ALIGNMENT == 0, "a buffer at byte " + buffer.offset());
      Span stored = new Span(bytes, (int) start, (int) buffer.length());
      if (codec == -1 || stored.length() == 0) {
        return stored;
      }
      DamagedException.unless(stored.length() >= PREFIX_BYTES, "a compressed buffer of " + stored.length() + " bytes");
      long length = LittleEndian.int64(bytes, stored.start());
      Span body = new Span(bytes, stored.start() + PREFIX_BYTES, stored.length() - PREFIX_BYTES);
      if (length == -1) {
        return body;
      }
      long most = Math.min(MOST_BYTES, ratio() * body.length());
      DamagedException.unless(length >= 0 && length <= most, "a length of " + length + " bytes"); // before the room is made
      return decompressed(number, body, (int) length);
    }

    private Span decompressed(int number, Span from, int length) throws DamagedException {
      byte[] to = scratch.get(number);
      if (to == null || to.length < length) {
        to = room(Math.max(length, to == null ? 0 : (int) Math.min(2L * to.length, 1 << 30)));
        scratch.put(number, to);
      }
      int found;
      if (codec == CompressionType.ZSTD) {
        zstd = zstd == null ? new ZstdDecompressCtx() : zstd;
        found = zstd.decompressByteArray(to, 0, length, from.bytes(), from.start(), from.length());
      } else {
        found = Lz4Frame.decompress(from.bytes(), from.start(), from.length(), to, length);
      }
      DamagedException.unless(found == length, "wanted " + length + " bytes after decompression, found " + found);
      return new Span(to, 0, length);
    }
  }

  private static byte[] room(int length) throws DamagedException {
    try {
      return new byte[length];
    } catch (OutOfMemoryError error) { // a length that lies must not end the JVM, and Python may have the room
      throw new DamagedException("a length of " + length + " bytes, more than there is memory");
    }
  }

  private static void checkAscending(Span ends, int count, int most) throws DamagedException {
    int before = 0;
    boolean ascends = true;
    for (int i = 0; i <= count; i++) {
      int next = LittleEndian.int32(ends.bytes(), ends.start() + 4 * i);
      ascends &= next >= before;
      before = next;
    }
    DamagedException.unless(ascends && before <= most, "offsets that do not ascend");
  }
}
