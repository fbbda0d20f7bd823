package io.sparklog.read.task;

import io.sparklog.planner.Interruption;
import io.sparklog.storage.ObjectBytes;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Reads the batches [begin, stop) of a slice: neighbours in one read, as far as that has `mostBytes`. From a slow store, the
 * next read is under way while the caller uses the last one, so there are two buffers.
 */
final class BodyReads {
  private static final ExecutorService THREADS =
      Executors.newCachedThreadPool(
          task -> {
            Thread thread = new Thread(task, "sparklog-read-ahead");
            thread.setDaemon(true);
            return thread;
          });

  /** Batches [begin, stop), which are `length` bytes from `position` of the object on. */
  private record Read(int begin, int stop, long position, int length) {}

  private final ObjectBytes object;
  private final ReadMetrics metrics;
  private final List<Read> reads = new ArrayList<>();
  private final byte[][] buffers = {new byte[0], new byte[0]};
  private int next; // the number of the read to begin next
  private CompletableFuture<byte[]> ahead;
  private Read current;
  private byte[] body;

  BodyReads(ObjectBytes object, ObjectIndex index, int begin, int stop, int mostBytes, ReadMetrics metrics) {
    this.object = object;
    this.metrics = metrics;
    for (int from = begin; from < stop; ) {
      int to = from + 1;
      long position = index.positions[from];
      long length = index.lengths[from];
      while (to < stop && length + index.lengths[to] <= mostBytes) {
        length += index.lengths[to++];
      }
      reads.add(new Read(from, to, position, Math.toIntExact(length)));
      from = to;
    }
  }

  /** The bytes that hold a batch. Batches are asked for in ascending order. */
  byte[] holding(int batch) throws IOException {
    while (current == null || batch >= current.stop()) {
      advance();
    }
    return body;
  }

  /** Where a byte of the object lies in the bytes that `holding` returned last. */
  int at(long position) {
    return (int) (position - current.position());
  }

  void close() {
    if (ahead == null) {
      object.close();
    } else {
      ahead.whenComplete((body, error) -> object.close()); // its thread may be reading
    }
  }

  private void advance() throws IOException {
    int number = next++;
    body = ahead == null ? read(number) : awaited();
    current = reads.get(number);
    metrics.requests++;
    metrics.bytes += current.length();
    ahead = object.isSlow() && next < reads.size() ? begun(next) : null;
  }

  private byte[] read(int number) throws IOException {
    Read wanted = reads.get(number);
    byte[] buffer = buffers[number % 2];
    if (buffer.length < wanted.length()) {
      buffer = buffers[number % 2] = new byte[wanted.length()];
    }
    object.read(wanted.position(), buffer, wanted.length());
    return buffer;
  }

  private CompletableFuture<byte[]> begun(int number) {
    CompletableFuture<byte[]> coming = new CompletableFuture<>();
    THREADS.execute(
        () -> {
          try {
            coming.complete(read(number));
          } catch (Throwable error) { // whatever it is: the task waits for it
            coming.completeExceptionally(error);
          }
        });
    return coming;
  }

  private byte[] awaited() throws IOException {
    try {
      return ahead.get();
    } catch (InterruptedException error) {
      Interruption.restore();
      throw new IOException(error);
    } catch (ExecutionException error) {
      if (error.getCause() instanceof IOException failure) {
        throw failure; // its class says whether the store failed or the object (Holder.hasFailed)
      }
      throw new IOException(error.getCause());
    }
  }
}
