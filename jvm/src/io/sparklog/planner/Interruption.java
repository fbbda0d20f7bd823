package io.sparklog.planner;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** What a thread does that has caught an InterruptedException and leaves the end to its callers. */
public final class Interruption {
  private static final long PAUSE_NS = TimeUnit.MICROSECONDS.toNanos(50);
  private static final long LIMIT_NS = TimeUnit.SECONDS.toNanos(10);

  private Interruption() {}

  /**
   * Mark the current thread as interrupted again. Spark's threads ignore this while the interrupt that has just woken
   * them is still being sent (UninterruptibleThread), so it is repeated until it shows.
   */
  public static void restore() {
    Thread thread = Thread.currentThread();
    long began = System.nanoTime();
    thread.interrupt();
    while (!thread.isInterrupted() && System.nanoTime() - began < LIMIT_NS) {
      LockSupport.parkNanos(PAUSE_NS);
      thread.interrupt();
    }
  }
}
