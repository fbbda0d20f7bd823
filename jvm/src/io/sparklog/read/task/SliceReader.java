package io.sparklog.read.task;

import io.sparklog.arrow.DamagedException;
import io.sparklog.arrow.Decoder;
import io.sparklog.arrow.LogVector;
import io.sparklog.storage.ObjectBytes;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/**
 * Reads the records of one slice from one holder: its index, then its batches. Decides whether a batch is damaged: CRC32C,
 * then content, then offsets.
 */
final class SliceReader {
  /** The offsets [start, end) and the columns that a reader wants, and the amounts in which it reads. */
  record Wanted(long start, long end, String[] columns, ReadTask.Limits limits) {}

  private final String topic;
  private final int partition;
  private final ReadTask.Slice slice;
  private final Wanted wanted;
  private final Decoder decoder;
  private final long appendTimeUs; // -1: each record has its own timestamp
  private final boolean isCompacted;
  private final String[] stored; // the columns to decode
  private final ObjectIndex index; // null if no column is stored in the object
  private final BodyReads bodies;
  private final long end;
  private long at; // the first offset that is still wanted
  private int batch; // the number of the next batch
  private final int stop; // the number of the batch after the last one wanted

  SliceReader(ReadTask.Range range, ReadTask.Slice slice, Holder holder, Wanted wanted, Decoder decoder, ReadMetrics metrics)
      throws IOException, DamagedException {
    this.slice = slice;
    this.wanted = wanted;
    this.decoder = decoder;
    topic = range.topic();
    partition = range.partition();
    appendTimeUs = slice.appendTimeUs() == null ? -1 : slice.appendTimeUs();
    at = Math.max(wanted.start(), slice.start());
    end = Math.min(wanted.end(), slice.end());
    isCompacted = slice.isCompacted();
    stored = storedColumns();
    if (stored.length == 0) {
      index = null;
      bodies = null;
      stop = 0;
      return;
    }
    String key = slice.key();
    index = IndexCache.get(holder.url() + "/" + slice.indexKey(), slice, metrics);
    batch = index.firstAt(at);
    stop = Math.max(batch, index.firstFrom(end));
    bodies = new BodyReads(ObjectBytes.open(holder.url() + "/" + key), index, batch, stop, wanted.limits().rangedReadBytes(), metrics);
  }

  /** The next records; null at the end. */
  RangeReader.Records next() throws IOException, DamagedException {
    if (index == null) {
      return at < end ? withoutBody() : null;
    }
    while (batch < stop) {
      RangeReader.Records rows = ofBatch(batch++);
      if (rows != null) {
        return rows;
      }
    }
    return null;
  }

  void close() {
    if (bodies != null) {
      bodies.close();
    }
  }

  private RangeReader.Records withoutBody() {
    int rows = (int) Math.min(end - at, wanted.limits().rowsWithoutBody());
    LogVector offsets = new LogVector.Ascending(at, rows);
    at += rows;
    return new RangeReader.Records(columns(null, offsets, rows, 0), rows, at);
  }

  private RangeReader.Records ofBatch(int number) throws IOException, DamagedException {
    byte[] body = bodies.holding(number);
    int start = bodies.at(index.positions[number]);
    int length = (int) index.lengths[number];
    DamagedException.unless(ObjectBytes.crc32c(body, start, length) == index.crcs[number], "a batch's CRC32C");
    Decoder.Batch decoded = decoder.decode(body, start, length, index.layout(), stored);
    DamagedException.unless(decoded.rows() == index.records[number], "a batch of " + decoded.rows() + " records");
    LogVector offsets =
        isCompacted
            ? checked(decoded.columns().get("offset"), number)
            : new LogVector.Ascending(index.starts[number], decoded.rows());
    int low = rowAt(offsets, decoded.rows(), at);
    int high = rowAt(offsets, decoded.rows(), end);
    if (low == high) {
      return null; // the range lies in a gap between two records
    }
    long behind = offsets.getLong(high - 1) + 1;
    return new RangeReader.Records(columns(decoded, offsets, high - low, low), high - low, behind);
  }

  private LogVector checked(LogVector offsets, int number) throws DamagedException {
    int rows = index.records[number];
    long before = offsets.getLong(0);
    boolean ascends = before == index.starts[number] && offsets.getLong(rows - 1) + 1 == index.ends[number];
    for (int row = 1; row < rows; row++) {
      long next = offsets.getLong(row);
      ascends &= next > before;
      before = next;
    }
    DamagedException.unless(ascends, "offsets that do not ascend");
    return offsets;
  }

  /** The first row whose offset is not less than this one. */
  private int rowAt(LogVector offsets, int rows, long offset) {
    int low = 0;
    int high = rows;
    while (low < high) {
      int middle = (low + high) >>> 1;
      if (offsets.getLong(middle) < offset) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  private String[] storedColumns() {
    List<String> names = new ArrayList<>();
    for (String name : wanted.columns()) {
      if (Set.of("key", "value", "headers").contains(name) || name.equals("timestamp") && appendTimeUs < 0) {
        names.add(name);
      }
    }
    if (isCompacted) {
      names.add("offset");
    }
    return names.toArray(String[]::new);
  }

  private LogVector[] columns(Decoder.Batch decoded, LogVector offsets, int rows, int from) {
    LogVector[] vectors = new LogVector[wanted.columns().length];
    for (int i = 0; i < vectors.length; i++) {
      vectors[i] = column(wanted.columns()[i], decoded, offsets, rows, from);
    }
    return vectors;
  }

  private LogVector column(String name, Decoder.Batch decoded, LogVector offsets, int rows, int from) {
    return switch (name) {
      case "topic" -> new LogVector.Text(topic, rows);
      case "partition" -> new LogVector.Number(partition, rows);
      case "offset" -> offsets.skip(from);
      case "timestampType" -> new LogVector.Number(slice.timestampType(), rows);
      case "timestamp" ->
          appendTimeUs < 0 ? decoded.columns().get(name).skip(from) : new LogVector.Number(appendTimeUs, rows);
      default -> decoded.columns().get(name).skip(from);
    };
  }
}
