package io.sparklog.read.task;

import io.sparklog.arrow.DamagedException;
import io.sparklog.arrow.Decoder;
import java.io.IOException;
import java.util.List;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads one range of offsets. If an object cannot be read from one holder, the next one is asked. If none is left,
 * Python reads the rest: it asks the chain again, repairs what can be repaired, and words the error if nothing helps.
 */
final class RangeReader {
  private static final Logger LOG = LoggerFactory.getLogger("sparklog");

  /** Some records: a vector for each column wanted, and the offset to read on from. */
  record Records(ColumnVector[] columns, int count, long behind) {}

  private final TaskReader.Scan plan;
  private final int number;
  private final ReadTask.Range range;
  private final Decoder decoder;
  private final ReadMetrics metrics;
  private final long end;
  private long at;
  private int slice; // the number of the slice that is read, or read next
  private List<Holder> holders; // of this slice, those not asked yet
  private SliceReader reader;
  private PythonReader rest;

  RangeReader(TaskReader.Scan plan, int number, Decoder decoder, ReadMetrics metrics) {
    this.plan = plan;
    this.number = number;
    this.decoder = decoder;
    this.metrics = metrics;
    range = plan.task().ranges().get(number);
    at = plan.bounds().start(range);
    end = plan.bounds().end(range);
    if (at < end && range.lost()) {
      leaveToPython("some of its records were given up");
    }
  }

  /** The next records; null at the end. */
  Records next() throws IOException {
    while (rest == null) {
      if (slice == range.slices().size() || at >= end) {
        closeReader();
        return null;
      }
      ReadTask.Slice part = range.slices().get(slice);
      try {
        if (reader == null && part.end() > at && plan.bounds().mayHave(part)) {
          open(part);
        }
        Records rows = reader == null ? null : reader.next();
        if (rows != null) {
          at = rows.behind();
          return rows;
        }
        // The end of a compacted slice may be a gap.
        at = Math.max(at, Math.min(part.end(), end));
        closeSlice();
        slice++;
      } catch (IOException | DamagedException | RuntimeException error) {
        if (Thread.currentThread().isInterrupted()) {
          throw new IOException("the task was killed", error); // no store is to blame
        }
        fail(error);
      }
    }
    return rest.next();
  }

  void close() throws IOException {
    closeReader();
    if (rest != null) {
      rest.close();
    }
  }

  private void open(ReadTask.Slice part) throws IOException, DamagedException {
    if (holders == null) {
      holders = Holder.inOrder(plan.task(), part.holders());
    }
    if (holders.isEmpty()) {
      throw new IOException("no holder is left");
    }
    SliceReader.Wanted wanted = new SliceReader.Wanted(at, end, plan.columns(), plan.task().limits());
    reader = new SliceReader(range, part, holders.get(0), wanted, decoder, metrics);
  }

  private void fail(Exception error) {
    closeReader();
    if (holders != null && !holders.isEmpty()) {
      holders.remove(0).hasFailed(error);
    }
    if (holders == null || holders.isEmpty()) {
      leaveToPython(error.toString());
    }
  }

  private void leaveToPython(String reason) {
    LOG.warn("{}-{} from offset {} on is read by Python: {}", range.topic(), range.partition(), at, reason);
    metrics.rangesInPython++;
    rest = new PythonReader(plan, number, at, decoder);
  }

  private void closeSlice() {
    closeReader();
    holders = null;
  }

  private void closeReader() {
    if (reader != null) {
      reader.close();
      reader = null;
    }
  }
}
