package io.sparklog.read.task;

import io.sparklog.arrow.DamagedException;
import io.sparklog.arrow.Decoder;
import io.sparklog.arrow.Layout;
import io.sparklog.arrow.LogVector;
import io.sparklog.storage.ObjectBytes;
import java.util.Arrays;
import org.apache.arrow.flatbuf.KeyValue;
import org.apache.arrow.flatbuf.MessageHeader;
import org.apache.arrow.flatbuf.RecordBatch;
import org.apache.arrow.flatbuf.Schema;

/** The rows of an object's index for one slice: where each batch lies, and which offsets it has. */
final class ObjectIndex {
  private static final byte[] FILE_START = {'A', 'R', 'R', 'O', 'W', '1', 0, 0};
  private static final String FORMAT = "sparklog.index";
  private static final String DENSE = "3";
  private static final String COMPACTED = "4";

  final int batches;
  final long[] positions;
  final long[] lengths;
  final int[] crcs;
  final int[] records;
  final long[] starts; // the first offset of each batch
  final long[] ends; // the offset after the last one
  final boolean storesOffsets; // the object has a column of offsets; those of a dense slice follow from the chain too

  /** The part of the index in `body` that belongs to a slice, which has the index's size and CRC32C from the chain. */
  ObjectIndex(byte[] body, ReadTask.Slice slice) throws DamagedException {
    DamagedException.unless(body.length == slice.indexSizeBytes(), "an index of " + body.length + " bytes");
    DamagedException.unless(ObjectBytes.crc32c(body, 0, body.length) == (int) slice.indexCrc32c(), "an index's CRC32C");
    int from = slice.firstBatch();
    batches = slice.batches();
    Decoder.Batch table = table(body);
    storesOffsets = table.columns().containsKey("base_offset");
    DamagedException.unless(
        from >= 0 && batches > 0 && batches <= table.rows() - from, "an index of " + table.rows() + " batches");
    checkPlaces(table);
    checkPartition(table, slice);
    positions = column(table, "position", from);
    lengths = column(table, "length", from);
    crcs = numbers(table, "crc32c", from);
    records = numbers(table, "records", from);
    if (slice.isCompacted()) {
      DamagedException.unless(storesOffsets, "an index without offsets");
      starts = column(table, "base_offset", from);
      ends = column(table, "last_offset", from);
      for (int i = 0; i < batches; i++) { // before they are used: no difference of them overflows then
        boolean isInside = starts[i] >= slice.start() && starts[i] <= ends[i] && ends[i] < slice.end();
        DamagedException.unless(isInside, "an index of other offsets");
        ends[i]++;
      }
    } else {
      starts = new long[batches];
      ends = new long[batches];
      long at = slice.start();
      for (int i = 0; i < batches; i++) {
        starts[i] = at;
        at += records[i];
        ends[i] = at;
      }
    }
    check(slice);
  }

  /** The columns of the object's batches. */
  Layout layout() {
    return storesOffsets ? Layout.COMPACTED : Layout.STORED;
  }

  /** The first batch that may have records at or after this offset. */
  int firstAt(long offset) {
    int batch = 0;
    while (batch < batches && ends[batch] <= offset) {
      batch++;
    }
    return batch;
  }

  /** The first batch that has only records at or after this offset. */
  int firstFrom(long offset) {
    int batch = 0;
    while (batch < batches && starts[batch] < offset) {
      batch++;
    }
    return batch;
  }

  private void check(ReadTask.Slice slice) throws DamagedException {
    long sum = 0;
    long before = slice.start();
    for (int i = 0; i < batches; i++) {
      DamagedException.unless(starts[i] >= before && ends[i] - starts[i] >= records[i], "an index whose offsets don't ascend");
      before = ends[i];
      sum += records[i];
    }
    long end = positions[batches - 1] + lengths[batches - 1];
    boolean isOfSlice =
        sum == slice.records()
            && positions[0] == slice.position()
            && end == positions[0] + slice.length()
            && before <= slice.end();
    DamagedException.unless(isOfSlice, "an index of other batches");
  }

  /** The topic and partition must be those of the chain, which has only what the author of a command claimed. */
  private void checkPartition(Decoder.Batch table, ReadTask.Slice slice) throws DamagedException {
    int[] topics = numbers(table, "topic_id", slice.firstBatch());
    int[] partitions = numbers(table, "partition", slice.firstBatch());
    for (int i = 0; i < batches; i++) {
      boolean isOurs = topics[i] == slice.topicId() && partitions[i] == slice.partition();
      DamagedException.unless(isOurs, "a batch of partition " + partitions[i] + " of topic id " + topics[i]);
    }
  }

  /** Each batch of the object has records and bytes, and begins where the one before it ends. */
  private static void checkPlaces(Decoder.Batch table) throws DamagedException {
    LogVector positions = table.columns().get("position");
    LogVector lengths = table.columns().get("length");
    LogVector records = table.columns().get("records");
    for (int row = 0; row < table.rows(); row++) {
      DamagedException.unless(records.getInt(row) > 0 && lengths.getLong(row) > 0, "an index with an empty batch");
      long end = positions.getLong(row) + lengths.getLong(row);
      DamagedException.unless(positions.getLong(row) >= 0 && end >= 0, "an index of bytes before the object");
      DamagedException.unless(row + 1 == table.rows() || positions.getLong(row + 1) == end, "an index with a gap");
    }
  }

  private static Decoder.Batch table(byte[] body) throws DamagedException {
    boolean isFile = body.length >= FILE_START.length
        && Arrays.equals(body, 0, FILE_START.length, FILE_START, 0, FILE_START.length);
    DamagedException.unless(isFile, "no Arrow file");
    try (Decoder decoder = new Decoder()) {
      Decoder.Metadata opened = Decoder.metadata(body, FILE_START.length, body.length, MessageHeader.Schema);
      Layout layout = indexLayout((Schema) opened.message().header(new Schema()));
      int start = opened.bodyStart();
      Decoder.Metadata batch = Decoder.metadata(body, start, body.length, MessageHeader.RecordBatch);
      boolean isPlain = ((RecordBatch) batch.message().header(new RecordBatch())).compression() == null;
      DamagedException.unless(isPlain, "a compressed index"); // which might claim any length
      return decoder.decode(body, start, body.length - start, layout, layout.names().toArray(String[]::new));
    } catch (RuntimeException error) { // flatbuffers raise several kinds for wrong bytes
      throw new DamagedException(error.toString());
    }
  }

  private static Layout indexLayout(Schema schema) throws DamagedException {
    String format = null;
    for (int i = 0; i < schema.customMetadataLength(); i++) {
      KeyValue pair = schema.customMetadata(i);
      format = FORMAT.equals(pair.key()) ? pair.value() : format;
    }
    DamagedException.unless(DENSE.equals(format) || COMPACTED.equals(format), "an index of format " + format);
    return DENSE.equals(format) ? Layout.INDEX : Layout.COMPACTED_INDEX;
  }

  private long[] column(Decoder.Batch table, String name, int from) {
    LogVector column = table.columns().get(name);
    long[] values = new long[batches];
    for (int i = 0; i < batches; i++) {
      values[i] = column.getLong(from + i);
    }
    return values;
  }

  private int[] numbers(Decoder.Batch table, String name, int from) {
    LogVector column = table.columns().get(name);
    int[] values = new int[batches];
    for (int i = 0; i < batches; i++) {
      values[i] = column.getInt(from + i);
    }
    return values;
  }
}
