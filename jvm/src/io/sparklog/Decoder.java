package io.sparklog;

import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdDecompressCtx;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.arrow.flatbuf.BodyCompression;
import org.apache.arrow.flatbuf.Buffer;
import org.apache.arrow.flatbuf.CompressionType;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.flatbuf.MessageHeader;
import org.apache.arrow.flatbuf.RecordBatch;

/**
 * Decodes Arrow record batch messages (Arrow Columnar Format, "Encapsulated message format"): only the wanted columns
 * are decompressed. Memory is reused: a batch is valid until the next one is decoded. One per task, not thread-safe.
 *
 * <p>All access is to Java arrays, so wrong bytes can lead to an exception, but never beyond a buffer.
 */
final class Decoder implements AutoCloseable {
  private static final int CONTINUATION = -1;
  private static final long LZ4_MOST_RATIO = 255;
  private static final int PREFIX_BYTES = 8; // the length before each compressed buffer

  private final Map<Integer, byte[]> scratch = new HashMap<>(); // by the number of the buffer
  private ZstdDecompressCtx zstd;

  /** A decoded batch: vectors by column name. */
  record Batch(int rows, Map<String, LogVector> columns) {
    /** The vectors of these columns. */
    Records rows(String[] names, long behind) {
      LogVector[] vectors = new LogVector[names.length];
      for (int i = 0; i < names.length; i++) {
        vectors[i] = columns.get(names[i]);
      }
      return new Records(vectors, rows, behind);
    }
  }

  /** The message in bytes [start, start + length), whose columns are those of `layout`. */
  Batch decode(byte[] bytes, int start, int length, Layout layout, String... wanted) throws DamagedException {
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

  private final class MessageDecoder {
    private final byte[] bytes;
    private final int bodyStart;
    private final int end;
    private final RecordBatch batch;
    private final byte codec; // -1: not compressed
    private final int rows;

    MessageDecoder(byte[] bytes, int start, int length) throws DamagedException {
      this.bytes = bytes;
      end = Math.addExact(start, length);
      check(end <= bytes.length && length >= 8, "a message of " + length + " bytes");
      check(LogVector.int32(bytes, start) == CONTINUATION, "no Arrow message");
      int metadataLength = LogVector.int32(bytes, start + 4);
      check(metadataLength > 0 && metadataLength <= length - 8, "metadata of " + metadataLength + " bytes");
      bodyStart = start + 8 + metadataLength;
      ByteBuffer metadata = ByteBuffer.wrap(bytes, start + 8, metadataLength).slice().order(ByteOrder.LITTLE_ENDIAN);
      Message message = Message.getRootAsMessage(metadata);
      check(message.headerType() == MessageHeader.RecordBatch, "message type " + message.headerType());
      batch = (RecordBatch) message.header(new RecordBatch());
      rows = Math.toIntExact(batch.length());
      BodyCompression compression = batch.compression();
      codec = compression == null ? -1 : compression.codec();
    }

    Batch decode(Layout layout, Set<String> wanted) throws DamagedException {
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
      check(node == batch.nodesLength() && buffer == batch.buffersLength(), "columns of another schema");
      return new Batch(rows, columns);
    }

    private LogVector column(Layout.Kind kind, int node, int buffer) throws DamagedException {
      int length = length(node);
      check(length == rows, "a column of " + length + " rows");
      return switch (kind) {
        case INT32 -> new LogVector.Int32s(validity(node, buffer), exactly(buffer + 1, 4L * rows), rows);
        case INT64 -> new LogVector.Int64s(validity(node, buffer), exactly(buffer + 1, 8L * rows), rows);
        case BYTES -> bytes(node, buffer);
        case HEADERS -> headers(node, buffer);
      };
    }

    private LogVector.Bytes bytes(int node, int buffer) throws DamagedException {
      int length = length(node);
      Span ends = length == 0 ? new Span(new byte[4], 0, 4) : exactly(buffer + 1, 4L * (length + 1));
      Span data = span(buffer + 2);
      checkAscending(ends, length, data.length());
      return new LogVector.Bytes(validity(node, buffer), ends, data, length);
    }

    private LogVector headers(int node, int buffer) throws DamagedException {
      Span ends = exactly(buffer + 1, 4L * (rows + 1));
      int elements = length(node + 1);
      checkAscending(ends, rows, elements);
      LogVector.Bytes key = bytes(node + 2, buffer + 3);
      LogVector.Bytes value = bytes(node + 3, buffer + 6);
      check(length(node + 2) == elements && length(node + 3) == elements, "headers of different lengths");
      LogVector pairs = new LogVector.Pairs(validity(node + 1, buffer + 2), key, value, elements);
      return new LogVector.Lists(validity(node, buffer), ends, pairs, rows);
    }

    private int length(int node) {
      return Math.toIntExact(batch.nodes(node).length());
    }

    /** The bits of the rows that are not null; null if no row is. */
    private Span validity(int node, int buffer) throws DamagedException {
      return batch.nodes(node).nullCount() == 0 ? null : exactly(buffer, (batch.nodes(node).length() + 7) / 8);
    }

    private Span exactly(int buffer, long length) throws DamagedException {
      Span span = span(buffer);
      check(length <= span.length(), "a buffer of " + span.length() + " bytes");
      return span;
    }

    private Span span(int number) throws DamagedException {
      Buffer buffer = batch.buffers(number);
      long start = Math.addExact((long) bodyStart, buffer.offset());
      check(buffer.offset() >= 0 && buffer.length() >= 0 && buffer.length() <= end - start, "a buffer out of bounds");
      Span stored = new Span(bytes, (int) start, (int) buffer.length());
      if (codec == -1 || stored.length() == 0) {
        return stored;
      }
      long length = LogVector.int64(bytes, stored.start());
      Span body = new Span(bytes, stored.start() + PREFIX_BYTES, stored.length() - PREFIX_BYTES);
      return length == -1 ? body : decompressed(number, body, Math.toIntExact(length));
    }

    private Span decompressed(int number, Span from, int length) throws DamagedException {
      check(length >= 0 && length <= mostRaw(from), "a length of " + length + " bytes"); // before the room is made
      byte[] to = scratch.get(number);
      if (to == null || to.length < length) {
        to = new byte[Math.max(length, to == null ? 0 : (int) Math.min(2L * to.length, 1 << 30))];
        scratch.put(number, to);
      }
      int found;
      if (codec == CompressionType.ZSTD) {
        zstd = zstd == null ? new ZstdDecompressCtx() : zstd;
        found = zstd.decompressByteArray(to, 0, length, from.bytes(), from.start(), from.length());
      } else {
        found = Lz4Frame.decompress(from.bytes(), from.start(), from.length(), to, length);
      }
      check(found == length, "wanted " + length + " bytes after decompression, found " + found);
      return new Span(to, 0, length);
    }
  }

  /** The most bytes that a compressed buffer can hold. */
  private static long mostRaw(Span from) {
    long inFrame = Zstd.getFrameContentSize(from.bytes(), from.start(), from.length());
    return inFrame > 0 ? inFrame : LZ4_MOST_RATIO * from.length();
  }

  private static void checkAscending(Span ends, int count, int most) throws DamagedException {
    int before = 0;
    boolean ascends = true;
    for (int i = 0; i <= count; i++) {
      int next = LogVector.int32(ends.bytes(), ends.start() + 4 * i);
      ascends &= next >= before;
      before = next;
    }
    check(ascends && before <= most, "offsets that do not ascend");
  }

  static void check(boolean isRight, String found) throws DamagedException {
    if (!isRight) {
      throw new DamagedException(found);
    }
  }
}
