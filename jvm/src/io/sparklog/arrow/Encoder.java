package io.sparklog.arrow;

import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdCompressCtx;
import com.google.flatbuffers.FlatBufferBuilder;
import java.io.IOException;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.List;
import net.jpountz.lz4.LZ4FrameOutputStream;
import org.apache.arrow.flatbuf.BodyCompression;
import org.apache.arrow.flatbuf.BodyCompressionMethod;
import org.apache.arrow.flatbuf.Buffer;
import org.apache.arrow.flatbuf.CompressionType;
import org.apache.arrow.flatbuf.FieldNode;
import org.apache.arrow.flatbuf.KeyValue;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.flatbuf.MessageHeader;
import org.apache.arrow.flatbuf.MetadataVersion;
import org.apache.arrow.flatbuf.RecordBatch;

/**
 * Encodes columns as Arrow record batch messages (Arrow Columnar Format, "Encapsulated message format"), as
 * log/batch.py does: zstd, LZ4 frames or no compression, and topic and partition in the metadata. One per task, not
 * thread-safe.
 */
public final class Encoder implements AutoCloseable {
  private static final int NOT_COMPRESSED = -1;
  private static final int ZSTD_LEVEL = 1; // as pyarrow's
  private static final long STORED = -1; // in place of the length before compression: it did not help
  private static final String PARTITION = "sparklog.partition";

  private final int codec;
  private final int smallBytes;
  private final GrowingBytes out = new GrowingBytes();
  private final FlatBufferBuilder metadata = new FlatBufferBuilder(1024);
  private ZstdCompressCtx zstd;

  /** `compression`: zstd, lz4 or none. Batches of fewer than `smallBytes` are not compressed. */
  public Encoder(String compression, int smallBytes) {
    this.smallBytes = smallBytes;
    codec =
        switch (compression) {
          case "zstd" -> CompressionType.ZSTD;
          case "lz4" -> CompressionType.LZ4_FRAME;
          case "none" -> NOT_COMPRESSED;
          default -> throw new IllegalArgumentException("compression " + compression);
        };
  }

  /** The buffers of a batch before they are encoded. */
  static final class Body {
    private final List<long[]> nodes = new ArrayList<>(); // rows, nulls
    private final List<byte[]> buffers = new ArrayList<>();
    private final List<Integer> lengths = new ArrayList<>();
    private long size;

    void node(int rows, int nulls) {
      nodes.add(new long[] {rows, nulls});
    }

    void buffer(byte[] bytes, int length) {
      buffers.add(bytes);
      lengths.add(length);
      size += padded(length);
    }
  }

  /** The message of a batch of one partition of a topic. */
  public byte[] encode(int topicId, int partition, int rows, GrowingColumn... columns) {
    return encode(rows, columns, codec, topicId + "-" + partition);
  }

  /** The message of a batch that belongs to no partition and is not compressed. */
  public byte[] encodePlain(int rows, GrowingColumn... columns) {
    return encode(rows, columns, NOT_COMPRESSED, null);
  }

  @Override
  public void close() {
    if (zstd != null) {
      zstd.close();
      zstd = null;
    }
  }

  private byte[] encode(int rows, GrowingColumn[] columns, int wanted, String partition) {
    Body body = new Body();
    for (GrowingColumn column : columns) {
      column.addTo(body);
    }
    int used = body.size < smallBytes ? NOT_COMPRESSED : wanted;
    out.size = 0;
    long[][] places = new long[body.buffers.size()][];
    for (int i = 0; i < places.length; i++) {
      int start = out.size;
      addBuffer(body.buffers.get(i), body.lengths.get(i), used);
      places[i] = new long[] {start, out.size - start};
      out.addZeros(padded(out.size) - out.size);
    }
    byte[] head = metadata(rows, body, places, used, partition);
    int headLength = padded(head.length);
    GrowingBytes message = new GrowingBytes(8 + headLength + out.size);
    message.add(-1); // "continuation"
    message.add(headLength);
    message.add(head, head.length);
    message.addZeros(headLength - head.length);
    message.add(out.bytes, out.size);
    return message.bytes;
  }

  private void addBuffer(byte[] bytes, int length, int used) {
    if (used == NOT_COMPRESSED || length == 0) {
      out.add(bytes, length);
      return;
    }
    int start = out.size;
    out.add((long) length);
    if (used == CompressionType.ZSTD) {
      addZstd(bytes, length);
    } else {
      addLz4(bytes, length);
    }
    if (out.size - start - 8 >= length) {
      out.size = start;
      out.add(STORED);
      out.add(bytes, length);
    }
  }

  private void addZstd(byte[] bytes, int length) {
    if (zstd == null) {
      zstd = new ZstdCompressCtx();
      zstd.setLevel(ZSTD_LEVEL);
    }
    int room = Math.toIntExact(Zstd.compressBound(length));
    int at = out.reserve(room);
    out.size = at + zstd.compressByteArray(out.bytes, at, room, bytes, 0, length);
  }

  private void addLz4(byte[] bytes, int length) {
    OutputStream sink =
        new OutputStream() {
          @Override
          public void write(int value) {
            out.add((byte) value);
          }

          @Override
          public void write(byte[] from, int start, int count) {
            out.add(from, start, count);
          }
        };
    try (LZ4FrameOutputStream frame = new LZ4FrameOutputStream(sink, LZ4FrameOutputStream.BLOCKSIZE.SIZE_256KB)) {
      frame.write(bytes, 0, length);
    } catch (IOException error) {
      throw new IllegalStateException(error); // there is only memory
    }
  }

  private byte[] metadata(int rows, Body body, long[][] places, int used, String partition) {
    FlatBufferBuilder to = metadata;
    to.clear();
    int custom = 0;
    if (partition != null) {
      int pair = KeyValue.createKeyValue(to, to.createString(PARTITION), to.createString(partition));
      custom = Message.createCustomMetadataVector(to, new int[] {pair});
    }
    RecordBatch.startNodesVector(to, body.nodes.size());
    for (int i = body.nodes.size() - 1; i >= 0; i--) {
      FieldNode.createFieldNode(to, body.nodes.get(i)[0], body.nodes.get(i)[1]);
    }
    int nodes = to.endVector();
    RecordBatch.startBuffersVector(to, places.length);
    for (int i = places.length - 1; i >= 0; i--) {
      Buffer.createBuffer(to, places[i][0], places[i][1]);
    }
    int buffers = to.endVector();
    boolean isCompressed = used != NOT_COMPRESSED;
    int compression =
        isCompressed ? BodyCompression.createBodyCompression(to, (byte) used, BodyCompressionMethod.BUFFER) : 0;
    RecordBatch.startRecordBatch(to);
    RecordBatch.addLength(to, rows);
    RecordBatch.addNodes(to, nodes);
    RecordBatch.addBuffers(to, buffers);
    if (isCompressed) {
      RecordBatch.addCompression(to, compression);
    }
    int batch = RecordBatch.endRecordBatch(to);
    Message.startMessage(to);
    Message.addVersion(to, MetadataVersion.V5);
    Message.addHeaderType(to, MessageHeader.RecordBatch);
    Message.addHeader(to, batch);
    Message.addBodyLength(to, out.size);
    if (partition != null) {
      Message.addCustomMetadata(to, custom);
    }
    Message.finishMessageBuffer(to, Message.endMessage(to));
    return to.sizedByteArray();
  }

  private static int padded(int length) {
    return Math.addExact(length, 7) & ~7;
  }
}
