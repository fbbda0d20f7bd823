package io.sparklog.write.task;

import com.fasterxml.jackson.databind.node.ArrayNode;
import io.sparklog.arrow.Encoder;
import io.sparklog.arrow.GrowingBytes;
import io.sparklog.arrow.GrowingColumn;
import io.sparklog.arrow.IpcFile;
import io.sparklog.planner.Planner;
import io.sparklog.storage.ObjectBytes;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** The index of an object that is being written, and its slices. The batches of a partition are contiguous. */
final class WrittenIndex {
  private final int topic;
  private final GrowingColumn.Numbers topicId = new GrowingColumn.Numbers();
  private final GrowingColumn.Numbers partition = new GrowingColumn.Numbers();
  private final GrowingColumn.Numbers firstRecord = new GrowingColumn.Numbers();
  private final GrowingColumn.Numbers records = new GrowingColumn.Numbers();
  private final GrowingColumn.Numbers position = new GrowingColumn.Numbers();
  private final GrowingColumn.Numbers length = new GrowingColumn.Numbers();
  private final GrowingColumn.Numbers crc32c = new GrowingColumn.Numbers();
  private final GrowingColumn.Numbers minTimestampUs = new GrowingColumn.Numbers();
  private final GrowingColumn.Numbers maxTimestampUs = new GrowingColumn.Numbers();
  private final List<Slice> slices = new ArrayList<>();

  /** The index of an object of this topic. */
  WrittenIndex(int topic) {
    this.topic = topic;
  }

  /** The batches of one partition so far. */
  private static final class Slice {
    final int partition;
    final long position;
    final int firstBatch;
    long length;
    long records;
    int batches;
    long minTimestampUs = Long.MAX_VALUE;
    long maxTimestampUs = Long.MIN_VALUE;

    Slice(int partition, long position, int firstBatch) {
      this.partition = partition;
      this.position = position;
      this.firstBatch = firstBatch;
    }
  }

  /** Add a batch, which begins at this byte of the object. */
  void add(PendingRows.Encoded batch, long at) {
    Slice slice = slices.isEmpty() ? null : slices.get(slices.size() - 1);
    if (slice == null || slice.partition != batch.partition()) {
      slice = new Slice(batch.partition(), at, partition.rows());
      slices.add(slice);
    }
    topicId.add(topic);
    partition.add(batch.partition());
    firstRecord.add(slice.records);
    records.add(batch.records());
    position.add(at);
    length.add((long) batch.message().length);
    crc32c.add(ObjectBytes.crc32c(batch.message(), 0, batch.message().length));
    minTimestampUs.add(batch.minTimestampUs());
    maxTimestampUs.add(batch.maxTimestampUs());
    slice.length += batch.message().length;
    slice.records += batch.records();
    slice.batches++;
    slice.minTimestampUs = Math.min(slice.minTimestampUs, batch.minTimestampUs());
    slice.maxTimestampUs = Math.max(slice.maxTimestampUs, batch.maxTimestampUs());
  }

  /** The slices of the object, in the fields of Python's NewSlice. The object has this number in the task. */
  ArrayNode slices(int object) {
    ArrayNode named = Planner.JSON.createArrayNode();
    for (Slice slice : slices) {
      ArrayNode fields = named.addArray().add(object).add(topic).add(slice.partition).add(slice.records);
      fields.add(slice.position).add(slice.length).add(slice.firstBatch).add(slice.batches);
      fields.add(slice.minTimestampUs).add(slice.maxTimestampUs);
    }
    return named;
  }

  /** The bytes of the index. */
  byte[] encode(IpcFile.Format format, Encoder encoder) throws IOException {
    GrowingBytes body = new GrowingBytes();
    IpcFile file = new IpcFile(body::add, format);
    GrowingColumn[] columns = {
      topicId, partition, firstRecord, records, position, length, crc32c, minTimestampUs, maxTimestampUs
    };
    file.append(encoder.encodePlain(partition.rows(), columns));
    file.finish();
    return body.copy();
  }
}
