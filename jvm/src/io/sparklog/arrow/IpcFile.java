package io.sparklog.arrow;

import java.io.IOException;
import java.util.zip.CRC32C;

/**
 * Assembles an Arrow IPC file from encoded record batch messages, as log/ipc_file.py does: first bytes, messages, end
 * of the stream, footer. What depends on the schema comes from Python.
 */
public final class IpcFile {
  private static final byte[] MAGIC = {'A', 'R', 'R', 'O', 'W', '1'};
  private static final byte[] END_OF_STREAM = {-1, -1, -1, -1, 0, 0, 0, 0};
  private static final int PREFIX_BYTES = 8; // "continuation" and the length of the metadata

  /** Takes the bytes of a file. */
  public interface Sink {
    void write(byte[] bytes, int length) throws IOException;
  }

  /** The files of one schema: their first bytes, and a footer whose offset at `blocksAt` is still to be set. */
  public record Format(byte[] head, byte[] footer, int blocksAt) {}

  private final Sink sink;
  private final Format format;
  private final GrowingBytes blocks = new GrowingBytes(); // of the footer: position, metadata's length, padding, body's length
  private final CRC32C crc = new CRC32C();
  private int batches;
  private long position;

  public IpcFile(Sink sink, Format format) throws IOException {
    this.sink = sink;
    this.format = format;
    write(format.head());
  }

  /** Add a message, and return its position in the file. */
  public long append(byte[] message) throws IOException {
    long start = position;
    int metadata = PREFIX_BYTES + LittleEndian.int32(message, 4);
    blocks.add(start);
    blocks.add(metadata);
    blocks.add(0);
    blocks.add((long) message.length - metadata);
    batches++;
    write(message);
    return start;
  }

  /** Write the end. No message may follow. */
  public void finish() throws IOException {
    byte[] template = format.footer();
    int field = format.blocksAt();
    int vector = template.length + Math.floorMod(4 - template.length, 8); // whose structs begin at a multiple of 8
    GrowingBytes footer = new GrowingBytes();
    footer.add(template, template.length);
    footer.addZeros(vector - template.length);
    footer.set(field, vector - field);
    footer.add(batches);
    footer.add(blocks.bytes, blocks.size);
    int length = footer.size;
    footer.add(length);
    footer.add(MAGIC, MAGIC.length);
    write(END_OF_STREAM);
    write(footer.copy());
  }

  /** The bytes so far. */
  public long size() {
    return position;
  }

  /** The CRC32C of the bytes so far. */
  public long crc32c() {
    return crc.getValue();
  }

  private void write(byte[] bytes) throws IOException {
    sink.write(bytes, bytes.length);
    crc.update(bytes, 0, bytes.length);
    position += bytes.length;
  }
}
