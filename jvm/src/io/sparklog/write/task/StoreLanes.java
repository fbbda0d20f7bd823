package io.sparklog.write.task;

import io.sparklog.planner.Interruption;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;

/**
 * The stores of one task, as log/write/store_lanes.py has them: all take an object at the same time, each in a thread of
 * its own. A store that fails while another takes the object is given up for the rest of the task. So is a store that
 * delays the task for more than {@code lagTimeMaxMs} in total while another one is ahead, beyond what {@code
 * forgiveWaits} takes back.
 */
final class StoreLanes {
  private static final ExecutorService THREADS = Executors.newCachedThreadPool(StoreLanes::thread);

  private final long lagTimeMaxMs;
  private final Map<WritePlan.Store, Long> heldUpMs = new HashMap<>();
  private final Map<WritePlan.Store, Long> heldUpLastMs = new HashMap<>(); // of it, by the last object
  private long endedNs; // the last object
  private final Map<WritePlan.Store, IOException> failures = new LinkedHashMap<>(); // of those given up

  /** What each store does with an object. */
  interface Work {
    void on(WritePlan.Store store) throws IOException;
  }

  /** The store has delayed the task for too long. */
  static final class TooSlow extends IOException {
    final long heldUpMs;

    TooSlow(long heldUpMs) {
      this.heldUpMs = heldUpMs;
    }
  }

  /** No store has taken an object. */
  static final class NotTaken extends IOException {
    private final transient Map<WritePlan.Store, IOException> failures;

    NotTaken(Map<WritePlan.Store, IOException> failures) {
      super("no store has taken the object", failures.isEmpty() ? null : failures.values().iterator().next());
      this.failures = failures;
    }
  }

  private record Done(WritePlan.Store store, IOException failure) {}

  StoreLanes(long lagTimeMaxMs) {
    this.lagTimeMaxMs = lagTimeMaxMs;
  }

  /** Those of the stores that were not given up. */
  List<WritePlan.Store> left(List<WritePlan.Store> stores) {
    return stores.stream().filter(store -> !failures.containsKey(store)).toList();
  }

  /** The stores that were given up, and why. */
  Map<WritePlan.Store, IOException> givenUp() {
    return failures;
  }

  /** Why none of these stores has taken an object: {@code last} is the reason of those that were not given up before. */
  Map<WritePlan.Store, IOException> reasons(List<WritePlan.Store> stores, IOException last) {
    Map<WritePlan.Store, IOException> reasons = new LinkedHashMap<>();
    for (WritePlan.Store store : stores) {
      IOException now = last instanceof NotTaken none ? none.failures.get(store) : last;
      reasons.put(store, failures.getOrDefault(store, now));
    }
    return reasons;
  }

  /**
   * Let these stores do the work at the same time. Return those that have done it, at least one, and give up the others.
   * If none can do it, throw NotTaken, and give up none: the object may be tried again.
   */
  List<WritePlan.Store> perform(List<WritePlan.Store> stores, Work work) throws IOException {
    BlockingQueue<Done> done = new LinkedBlockingQueue<>();
    Map<WritePlan.Store, Future<?>> running = new LinkedHashMap<>();
    for (WritePlan.Store store : stores) {
      running.put(store, THREADS.submit(() -> done.add(new Done(store, failure(store, work)))));
    }
    List<WritePlan.Store> taken = new ArrayList<>();
    Map<WritePlan.Store, IOException> failed = new LinkedHashMap<>();
    forgiveWaits();
    try {
      while (!running.isEmpty()) {
        Done next = taken.isEmpty() ? first(done) : next(done, running.keySet());
        if (next == null) {
          List<WritePlan.Store> slow = running.keySet().stream().filter(store -> heldUp(store) >= lagTimeMaxMs).toList();
          for (WritePlan.Store store : slow) {
            running.remove(store).cancel(true);
            failed.put(store, new TooSlow(heldUp(store)));
          }
          continue;
        }
        if (running.remove(next.store()) == null) {
          continue; // it was too slow
        }
        if (next.failure() == null) {
          taken.add(next.store());
        } else {
          failed.put(next.store(), next.failure());
        }
      }
    } catch (InterruptedException error) {
      running.values().forEach(each -> each.cancel(true));
      Interruption.restore();
      throw new InterruptedIOException("the task was killed");
    } finally {
      endedNs = System.nanoTime();
    }
    if (taken.isEmpty()) {
      throw new NotTaken(failed);
    }
    failures.putAll(failed);
    return taken;
  }

  /**
   * Here the task waits for an object, and then makes the next one. In Python both happen at the same time. So a wait
   * counts only as far as it was longer than the time until the next object.
   */
  private void forgiveWaits() {
    long betweenMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - endedNs);
    heldUpLastMs.forEach((store, waited) -> heldUpMs.merge(store, -Math.min(waited, betweenMs), Long::sum));
    heldUpLastMs.clear();
  }

  /** The first that is done. While no store is ahead, none is too slow. */
  private static Done first(BlockingQueue<Done> done) throws InterruptedException {
    while (true) {
      Done first = done.poll(1, TimeUnit.SECONDS);
      if (first != null) {
        return first;
      }
      if (TaskContext.get().isInterrupted()) { // Spark interrupts the thread only if it was told to
        throw new InterruptedException();
      }
    }
  }

  /** The next that is done; null once a store is too slow. The time counts against each store that is late. */
  private Done next(BlockingQueue<Done> done, Iterable<WritePlan.Store> late) throws InterruptedException {
    long leftMs = lagTimeMaxMs;
    for (WritePlan.Store store : late) {
      leftMs = Math.min(leftMs, lagTimeMaxMs - heldUp(store));
    }
    long began = System.nanoTime();
    Done next = done.poll(Math.max(0, leftMs), TimeUnit.MILLISECONDS);
    long waitedMs = next == null ? Math.max(0, leftMs) : TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
    late.forEach(
        store -> {
          heldUpMs.merge(store, waitedMs, Long::sum);
          heldUpLastMs.merge(store, waitedMs, Long::sum);
        });
    return next;
  }

  private long heldUp(WritePlan.Store store) {
    return heldUpMs.getOrDefault(store, 0L);
  }

  private static IOException failure(WritePlan.Store store, Work work) {
    try {
      work.on(store);
      return null;
    } catch (IOException error) {
      return error;
    } catch (RuntimeException | Error error) { // whatever it is, the task must not wait for this store
      return new IOException(error.toString(), error);
    }
  }

  private static Thread thread(Runnable work) {
    Thread thread = new Thread(work, "sparklog-store");
    thread.setDaemon(true); // a store that never answers must not keep the JVM alive
    return thread;
  }
}
